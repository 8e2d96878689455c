"""Tests of filters, scores and FitError messages."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest

from shoal.controlplane.scheduler.decide import (
    FitError,
    ScheduleResult,
    decide,
    is_finished,
    needs_scheduling,
    reported_condition,
)
from shoal.controlplane.scheduler.equivalence import EquivalenceClasses
from shoal.controlplane.scheduler.snapshot import ClusterSnapshot
from tests.controlplane.scheduler.samples import from_server, node, pod, pod_info, prefer, taint

SHAPES = EquivalenceClasses()


def dice(name: str) -> int:
    return crc32(name.encode())


def cluster(*nodes: dict[str, Any]) -> ClusterSnapshot:
    snapshot = ClusterSnapshot()
    for each in nodes:
        snapshot.put_node(each)
    return snapshot


def answer(snapshot: ClusterSnapshot, wanted: dict[str, Any]) -> ScheduleResult | FitError:
    return decide(snapshot.nodes.values(), SHAPES.classify(wanted), dice)


def reason(there: dict[str, Any], wanted: dict[str, Any]) -> str:
    found = answer(cluster(there), wanted)
    assert isinstance(found, FitError)
    return found.message.removeprefix("0/1 nodes are available: ")


@pytest.mark.parametrize(
    ("there", "wanted", "why"),
    [
        (node("n", unschedulable=True), pod("p"), "1 node(s) were unschedulable."),
        (node("n", taints=[taint("gpu", value="a")]), pod("p"), "1 node(s) had untolerated taint {gpu: a}."),
        (
            node("n", taints=[taint("node.kubernetes.io/not-ready", "NoExecute")]),
            pod("p"),
            "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }.",
        ),
        (node("n"), pod("p", nodeSelector={"zone": "a"}), "1 node(s) didn't match Pod's node affinity/selector."),
        (node("n", cpu="400m"), pod("p"), "1 Insufficient cpu."),
        (node("n", cpu="400m", memory="1Mi"), pod("p"), "1 Insufficient cpu, 1 Insufficient memory."),
        (node("n", pods=0), pod("p", cpu="", memory=""), "1 Too many pods."),
        (node("n", pods=0, cpu="1m"), pod("p"), "1 Insufficient cpu, 1 Too many pods."),
    ],
)
def test_what_keeps_a_pod_off_a_node(there: dict[str, Any], wanted: dict[str, Any], why: str) -> None:
    assert reason(there, wanted) == why


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (node("n"), pod("p")),
        (node("n", cpu="500m", memory="64Mi", pods=1), pod("p")),
        (node("n", cpu="0"), pod("p", cpu="", memory="")),
        (
            node("n", unschedulable=True),
            pod("p", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
        ),
        (node("n", taints=[taint("gpu")]), pod("p", tolerations=[{"key": "gpu", "operator": "Exists"}])),
        (node("n", taints=[taint("old", "PreferNoSchedule")]), pod("p")),
        (node("n", labels={"zone": "a"}), pod("p", nodeSelector={"zone": "a"})),
    ],
)
def test_what_a_node_takes(there: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert answer(cluster(there), wanted) == ScheduleResult("n")


def test_a_host_port_is_taken_once() -> None:
    there = cluster(node("n"))
    wanted = pod("p", ports=[{"containerPort": 80, "hostPort": 80}])
    assert answer(there, wanted) == ScheduleResult("n")
    there.assign("n", pod_info(SHAPES, wanted))
    message = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    assert answer(there, wanted) == FitError(message)
    there.remove_pod(("default", "p"))
    assert answer(there, wanted) == ScheduleResult("n")


def test_reasons_are_counted_over_the_nodes() -> None:
    nodes = [
        node("a", cpu="1m"),
        node("b", taints=[taint("gpu", value="x")]),
        node("c", taints=[taint("gpu", value="x")]),
    ]
    assert answer(cluster(*nodes), pod("p")) == FitError(
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {gpu: x}."
    )


def test_without_nodes() -> None:
    there = cluster()
    there.assign("gone", pod_info(SHAPES, pod("q")))
    assert answer(there, pod("p")) == FitError("no nodes available to schedule pods")


@pytest.mark.parametrize(
    ("better", "worse", "wanted"),
    [
        (node("b", cpu="8", memory="32Gi"), node("a"), pod("p")),
        (
            node("b", labels={"zone": "z"}),
            node("a", cpu="64", memory="256Gi"),
            pod("p", affinity=prefer(1, "zone", "z")),
        ),
        (node("b"), node("a", cpu="64", memory="256Gi", taints=[taint("old", "PreferNoSchedule")]), pod("p")),
    ],
)
def test_the_better_node_wins(better: dict[str, Any], worse: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert answer(cluster(better, worse), wanted) == answer(cluster(worse, better), wanted) == ScheduleResult("b")


def test_a_tie_is_for_the_dice() -> None:
    there = cluster(*(node(name) for name in "abc"))
    for lucky in "abc":
        shape = SHAPES.classify(pod("p"))
        result = decide(there.nodes.values(), shape, lambda name, lucky=lucky: int(name != lucky))  # type: ignore[misc]
        assert result == ScheduleResult(lucky)


def test_pods_that_ask_for_nothing_spread_too() -> None:
    there = cluster(*(node(name) for name in "abc"))
    wanted = pod("p", cpu="", memory="")
    for number in range(6):
        found = answer(there, wanted)
        assert isinstance(found, ScheduleResult)
        there.assign(found.node, pod_info(SHAPES, wanted, str(number)))
    assert [len(each.pods) for each in there.nodes.values()] == [2, 2, 2]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, True),
        ({"spec": {"schedulerName": "default-scheduler"}}, True),
        ({"spec": {"schedulerName": "mine"}}, False),
        ({"spec": {"nodeName": "n"}}, False),
        ({"spec": {"schedulingGates": [{"name": "g"}]}}, False),
        ({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}, False),
        ({"status": {"phase": "Failed"}}, False),
        ({"status": {"phase": "Pending"}}, True),
    ],
)
def test_which_pods_are_looked_at(change: dict[str, Any], wanted: bool) -> None:
    one = pod("p")
    assert (
        needs_scheduling({key: {**one.get(key, {}), **change.get(key, {})} for key in ("metadata", "spec", "status")})
        is wanted
    )


def test_finished_pods_and_what_was_told() -> None:
    assert is_finished({"status": {"phase": "Succeeded"}})
    assert not is_finished({"status": {"phase": "Running"}})
    told = {"type": "PodScheduled", "status": "False", "message": "no", "observedGeneration": 3}
    assert reported_condition(from_server(pod("p"), status={"conditions": [told]})) == ("no", 3, "")
    assert reported_condition(from_server(pod("p"), status={"conditions": [{**told, "status": "True"}]})) == (
        None,
        0,
        "",
    )
    assert reported_condition(pod("p")) == (None, 0, "")


def test_pods_alike_share_a_shape() -> None:
    one, other = SHAPES.classify(pod("p")), SHAPES.classify(pod("q", schedulerName="x"))
    assert one is other
    assert SHAPES.classify(pod("p", cpu="1")) is not one
    assert SHAPES.classify(pod("p", tolerations=[{"operator": "Exists"}])) is not one
    assert SHAPES.classify(pod("p", ports=[{"hostPort": 1}])) is not one
