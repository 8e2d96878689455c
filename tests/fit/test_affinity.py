"""Tests of node selectors, node affinity and host ports against an existing node."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fit.affinity import (
    matches_node_affinity,
    matches_term,
    max_preferred_weight,
    preferred_weight,
    required_node_names,
)
from shoal.fit.ports import host_ports, ports_conflict

Object = dict[str, Any]
LABELS = {"zone": "a", "size": "8"}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        ([expression("zone", "In", "a", "b")], True),
        ([expression("zone", "In", "b")], False),
        ([expression("team", "In", "x")], False),
        ([expression("zone", "NotIn", "b")], True),
        ([expression("team", "NotIn", "x")], True),
        ([expression("zone", "Exists")], True),
        ([expression("team", "Exists")], False),
        ([expression("team", "DoesNotExist")], True),
        ([expression("zone", "DoesNotExist")], False),
        ([expression("size", "Gt", "7")], True),
        ([expression("size", "Gt", "8")], False),
        ([expression("size", "Lt", "9")], True),
        ([expression("zone", "Gt", "1")], False),
        ([expression("team", "Lt", "9")], False),
        ([expression("size", "Gt", "many")], False),
        ([expression("zone", "In", "a"), expression("size", "Lt", "3")], False),
        ([expression("team", "NotIn", "x"), expression("team", "Exists")], False),
    ],
)
def test_expressions(expressions: list[dict[str, Any]], expected: bool) -> None:
    assert matches_term({"matchExpressions": expressions}, "n1", LABELS) is expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([expression("metadata.name", "In", "n1")], True),
        ([expression("metadata.name", "In", "n2")], False),
        ([expression("metadata.name", "NotIn", "n2")], True),
        ([expression("metadata.name", "NotIn", "n1")], False),
        ([expression("metadata.name", "In", "n1", "n2")], False),
        ([expression("metadata.name", "Exists")], False),
        ([expression("metadata.uid", "In", "n1")], False),
    ],
)
def test_fields(fields: list[dict[str, Any]], expected: bool) -> None:
    assert matches_term({"matchFields": fields}, "n1", LABELS) is expected


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": affinity}}


def test_terms_are_alternatives_and_the_selector_holds_besides() -> None:
    here = {"matchExpressions": [expression("zone", "In", "a")]}
    there = {"matchExpressions": [expression("zone", "In", "b")]}
    assert matches_node_affinity({}, "n1", LABELS)
    assert matches_node_affinity({"nodeSelector": {"zone": "a"}}, "n1", LABELS)
    assert not matches_node_affinity({"nodeSelector": {"zone": "a", "team": "x"}}, "n1", LABELS)
    assert matches_node_affinity(required(there, here), "n1", LABELS)
    assert not matches_node_affinity(required(there), "n1", LABELS)
    assert not matches_node_affinity({**required(here), "nodeSelector": {"zone": "b"}}, "n1", LABELS)
    assert not matches_node_affinity(required({}), "n1", LABELS), "a term without anything selects no node"
    assert not matches_node_affinity(
        required({**here, "matchFields": [expression("metadata.name", "In", "n2")]}), "n1", LABELS
    )


def test_preferences_add_their_weights() -> None:
    preferred = [
        {"weight": 30, "preference": {"matchExpressions": [expression("zone", "In", "a")]}},
        {"weight": 5, "preference": {"matchExpressions": [expression("size", "Gt", "7")]}},
        {"weight": 7, "preference": {"matchExpressions": [expression("zone", "In", "b")]}},
    ]
    spec = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
    assert preferred_weight(spec, "n1", LABELS) == 35
    assert max_preferred_weight(spec) == 42
    assert preferred_weight({}, "n1", LABELS) == 0


def pod(*ports: dict[str, Any], sidecar: dict[str, Any] | None = None) -> dict[str, Any]:
    inits = [{"ports": [{"hostPort": 1}]}, {"ports": [sidecar], "restartPolicy": "Always"}] if sidecar else []
    return {"spec": {"containers": [{"ports": list(ports)}], "initContainers": inits}}


def test_host_ports_of_a_pod() -> None:
    found = host_ports(pod({"containerPort": 80}, {"hostPort": 80}, sidecar={"hostPort": 9, "protocol": "UDP"}))
    assert found == {("TCP", 80, "0.0.0.0"), ("UDP", 9, "0.0.0.0")}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, True),
        ({"hostPort": 80}, {"hostPort": 81}, False),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.1"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, True),
        ({"hostPort": 80}, {"hostPort": 80, "hostIP": "10.0.0.2"}, True),
    ],
)
def test_ports_clash(one: dict[str, Any], other: dict[str, Any], expected: bool) -> None:
    assert ports_conflict(host_ports(pod(one)), host_ports(pod(other))) is expected
    assert ports_conflict(host_ports(pod(other)), host_ports(pod(one))) is expected


def test_pods_that_go_by_name() -> None:
    def spec(*terms: Object) -> Object:
        rules = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
        return {"affinity": {"nodeAffinity": rules}}

    def named(*names: str) -> Object:
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [each]} for each in names]}

    other = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    assert required_node_names({}) is None
    assert required_node_names(spec()) is None
    assert required_node_names(spec(named("a"))) == frozenset("a")
    assert required_node_names(spec(named("a"), named("b"))) == frozenset("ab")
    assert required_node_names(spec(named("a", "b"))) == frozenset()
    assert required_node_names(spec(named("a"), other)) is None
    assert required_node_names(spec({**named("a"), **other})) == frozenset("a")
