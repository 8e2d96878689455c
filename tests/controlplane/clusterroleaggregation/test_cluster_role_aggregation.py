"""Tests of ClusterRole aggregation: default and user-defined roles."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.controlplane.clusterroleaggregation.controller import roles_to_update
from tests.serving import Cluster

Object = dict[str, Any]

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
PEEK = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}
POKE = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["update"]}


def role(name: str, rules: list[Object], labels: Object | None = None, wants: Object | None = None) -> Object:
    made: Object = {"metadata": {"name": name, "labels": labels or {}}, "rules": rules}
    if wants is not None:
        made["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": wants}]}
    return made


def rules(cluster: Cluster, name: str) -> list[Object]:
    found: list[Object] = cluster.get(f"{ROLES}/{name}").ok()["rules"]
    return found


def test_default_roles_take_up_what_is_labelled_for_them(cluster: Cluster) -> None:
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    cluster.post(ROLES, role("peek", [PEEK], label)).ok()
    for name in ("view", "edit", "admin"):
        cluster.eventually(lambda name=name: PEEK in rules(cluster, name))  # type: ignore[misc]
    cluster.delete(f"{ROLES}/peek").ok()
    for name in ("view", "edit", "admin"):
        cluster.eventually(lambda name=name: PEEK not in rules(cluster, name))  # type: ignore[misc]


def test_an_aggregated_role_follows_its_parts(cluster: Cluster) -> None:
    cluster.post(ROLES, role("part", [PEEK], {"for": "whole"})).ok()
    cluster.post(ROLES, role("whole", [], wants={"for": "whole"})).ok()
    cluster.eventually(lambda: rules(cluster, "whole") == [PEEK])
    cluster.patch(f"{ROLES}/part", {"rules": [PEEK, POKE]}).ok()
    cluster.eventually(lambda: rules(cluster, "whole") == [PEEK, POKE])
    cluster.patch(f"{ROLES}/whole", {"rules": []}).ok()
    cluster.eventually(lambda: rules(cluster, "whole") == [PEEK, POKE])
    cluster.patch(f"{ROLES}/part", {"metadata": {"labels": {"for": None}}}).ok()
    cluster.eventually(lambda: not rules(cluster, "whole"))


def test_an_untouched_default_role_is_right_as_it_is(cluster: Cluster) -> None:
    assert [*roles_to_update(cluster.get(ROLES).ok()["items"])] == []
    assert any("deployments" in rule.get("resources", ()) for rule in rules(cluster, "admin")), "through edit"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([role("a", [PEEK])], {}),
        ([role("a", [PEEK], {"x": "y"}), role("b", [], wants={"x": "y"})], {"b": [PEEK]}),
        ([role("a", [PEEK], {"x": "y"}), role("b", [PEEK], wants={"x": "y"})], {}),
        ([role("b", [PEEK], {"x": "y"}, wants={"x": "y"})], {"b": []}),
        ([role("b", [], wants={"x": "y"})], {}),
    ],
)
def test_which_roles_are_outdated(given: list[Object], expected: dict[str, list[Object]]) -> None:
    assert {
        found["metadata"]["name"]: found["rules"] for found in roles_to_update(given) if found is not None
    } == expected


def test_a_role_that_is_going_is_left_alone() -> None:
    going = role("b", [], wants={"x": "y"})
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert [*roles_to_update([role("a", [PEEK], {"x": "y"}), going])] == []


def test_many_selectors_are_compared_in_steps() -> None:
    """Nothing is compared once all roles have matched."""
    others = [role(f"r{number}", [PEEK]) for number in range(10)]
    selectors: list[object] = [{"matchLabels": {"a": str(number)}} for number in range(10_000)]
    many = {**role("a", []), "aggregationRule": {"clusterRoleSelectors": selectors}}
    assert [*roles_to_update([many, *others])] == [None] * 100
    all_first = {**many, "aggregationRule": {"clusterRoleSelectors": [{}, *selectors]}}
    assert [*roles_to_update([all_first, *others])] == [{**all_first, "rules": [PEEK]}]
