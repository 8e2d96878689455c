"""Tests of default topology spread: pods of one Service or controller are kept apart, by preference only."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.controlplane.scheduler import node_groups, pod_groups, spread_ranking
from shoal.controlplane.scheduler.cluster_scheduler import ClusterScheduler
from shoal.controlplane.scheduler.decide import FitError, ScheduleResult, decide
from shoal.controlplane.scheduler.default_spread import SpreadCounts, SpreadDomains
from shoal.controlplane.scheduler.equivalence import EquivalenceClasses
from shoal.controlplane.scheduler.interpod import InterPodState
from shoal.controlplane.scheduler.spread_ranking import DefaultSpreadRanking
from tests.controlplane.scheduler.samples import bound_pod, from_server, node, pod

SHAPES = EquivalenceClasses()
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
OWNERS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1", "Job": "batch/v1"}
Object = dict[str, Any]


def dice(name: str) -> int:
    return crc32(name.encode())


def zoned(name: str, zone: str, **more: Any) -> Object:
    return node(name, labels={HOST: name, ZONE: zone}, **more)


def owned(name: str, owner: str, kind: str = "ReplicaSet", **more: Any) -> Object:
    """A pod of the app named like its owner."""
    made = pod(name, "100m", **{"labels": {"app": owner}, **more})
    reference = {"apiVersion": OWNERS[kind], "kind": kind, "name": owner, "uid": owner, "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    return made


def controller(app: str) -> Object:
    return {"metadata": {"name": app}, "spec": {"selector": {"matchLabels": {"app": app}}}}


def service(app: str) -> Object:
    return {"metadata": {"name": app}, "spec": {"selector": {"app": app}}}


def home(*nodes: Object) -> ClusterScheduler:
    made = ClusterScheduler(SHAPES, dice)
    for each in nodes:
        made.on_node(each["metadata"]["name"], each)
    made.on_owner("replicasets", ("default", "web"), controller("web"))
    return made


def schedule(there: ClusterScheduler, *pods: Object) -> dict[str, str]:
    for each in pods:
        there.on_pod(("default", each["metadata"]["name"]), from_server(each))
    return {bind.pod.key[1]: bind.node for bind in there.schedule_pending(1000)}


UNEQUAL = [zoned("big", "x", cpu="64", memory="256Gi"), zoned("a", "x"), zoned("b", "y"), zoned("c", "y")]
"""By free capacity alone `big` would take the first pods."""


@pytest.mark.parametrize("few", [0, 16])
def test_replicas_are_kept_apart_by_host_and_zone(few: int) -> None:
    there = home(*UNEQUAL)
    with patch.object(spread_ranking, "MIN_FEW", few):
        found = schedule(there, *(owned(f"w{i}", "web") for i in range(8)))
    assert sorted(Counter(found.values()).values()) == [2, 2, 2, 2]


def test_without_a_selector_free_capacity_decides() -> None:
    there = home(*UNEQUAL)
    assert set(schedule(there, *(pod(f"w{i}", "100m", labels={"app": "web"}) for i in range(3))).values()) == {"big"}
    assert set(schedule(there, *(owned(f"v{i}", "unknown") for i in range(3))).values()) == {"big"}
    assert set(schedule(there, *(owned(f"j{i}", "web", "Job") for i in range(3))).values()) == {"big"}


def test_constraints_of_its_own_replace_the_default_ones() -> None:
    there = home(*UNEQUAL)
    own = [{"maxSkew": 9, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
    pods = [owned(f"w{i}", "web", topologySpreadConstraints=own) for i in range(3)]
    assert set(schedule(there, *pods).values()) == {"big"}


@pytest.mark.parametrize(
    ("kind", "resource"),
    [("StatefulSet", "statefulsets"), ("ReplicationController", "replicationcontrollers")],
)
def test_the_other_controllers_count_too(kind: str, resource: str) -> None:
    there = home(*UNEQUAL)
    selector = controller("db") if kind == "StatefulSet" else service("db")
    there.on_owner(resource, ("default", "db"), selector)
    pods = [owned(f"db-{i}", "db", kind, labels={"app": "db", "index": str(i)}) for i in range(4)]
    assert set(schedule(there, *pods).values()) == {"big", "a", "b", "c"}


def test_a_service_alone_counts_and_narrows_what_an_owner_selects() -> None:
    there = home(*UNEQUAL)
    there.on_service(("default", "db"), service("db"))
    pods = [pod(f"db-{i}", "100m", labels={"app": "db"}) for i in range(4)]
    assert set(schedule(there, *pods).values()) == {"big", "a", "b", "c"}
    there.on_service(("default", "db"), None)
    assert schedule(there, pod("late", "100m", labels={"app": "db"})) == {"late": "big"}
    there.on_service(("default", "new"), {"spec": {"selector": {"track": "new"}}})
    found = schedule(there, *(owned(f"w{i}", "web") for i in range(4)))
    assert set(found.values()) == {"big", "a", "b", "c"}
    new = owned("new", "web", labels={"app": "web", "track": "new"})
    assert schedule(there, new) == {"new": "big"}, "the Service selects none of the older pods"


def test_a_service_or_an_owner_that_comes_later_counts_for_waiting_pods() -> None:
    there = home()
    pods = [owned(f"db-{i}", "db") for i in range(4)]
    assert schedule(there, *pods) == {}
    there.on_owner("replicasets", ("default", "db"), controller("db"))
    for each in UNEQUAL:
        there.on_node(each["metadata"]["name"], each)
    assert set(schedule(there).values()) == {"big", "a", "b", "c"}


def test_only_running_pods_of_the_namespace_count() -> None:
    there = home(zoned("a", "x"), zoned("b", "x", cpu="2"))
    web = pod("web", "100m", labels={"app": "web"})
    ending = bound_pod(pod("ending", "10m", labels={"app": "web"}), "a")
    ending["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    there.on_pod(("default", "ending"), ending)
    other = bound_pod(pod("other", "10m", labels={"app": "web"}), "a")
    other["metadata"]["namespace"] = "other"
    there.on_pod(("other", "other"), other)
    there.on_service(("default", "web"), service("web"))
    assert schedule(there, web) == {"web": "a"}


def test_a_node_without_a_zone_is_kept_apart_by_its_name() -> None:
    there = home(node("big", cpu="64", memory="256Gi", labels={HOST: "big"}), node("a", labels={HOST: "a"}))
    assert set(schedule(there, *(owned(f"w{i}", "web") for i in range(2))).values()) == {"big", "a"}


def test_pods_of_nodes_that_the_pod_does_not_select_do_not_count_for_the_zone() -> None:
    ssd = {"disk": "ssd"}
    there = home(
        zoned("hdd", "x"),
        node("a", cpu="8", memory="32Gi", labels={HOST: "a", ZONE: "x", **ssd}),
        node("b", labels={HOST: "b", ZONE: "y", **ssd}),
    )
    for index in range(3):
        there.on_pod(("default", f"e{index}"), bound_pod(owned(f"e{index}", "web"), "hdd"))
    assert schedule(there, owned("w", "web", nodeSelector=ssd)) == {"w": "a"}


def test_no_node_is_rejected() -> None:
    there = home(zoned("a", "x"))
    assert len(schedule(there, *(owned(f"w{i}", "web") for i in range(20)))) == 20


def test_deployments_alike_share_what_was_found_out_of_nodes() -> None:
    there = home(*UNEQUAL)
    names = [f"d{i}" for i in range(5)]
    for name in names:
        there.on_owner("replicasets", ("default", name), controller(name))
    schedule(there, *(owned(f"{name}-{i}", name) for name in names for i in range(3)))
    rankings = [group.ranking for group in there._queue._groups.values()]
    assert len(rankings) == 5
    assert len({each._class_ranking for each in rankings if isinstance(each, DefaultSpreadRanking)}) == 1
    assert not there._groups._own_rankings


some_node = st.builds(
    node,
    st.sampled_from("abcd"),
    cpu=st.sampled_from(["1", "2", "9"]),
    labels=st.sampled_from(
        [{}, {ZONE: "x"}, {HOST: "1"}, {ZONE: "x", HOST: "2", "disk": "ssd"}, {ZONE: "y", HOST: "3", "disk": "ssd"}]
    ),
    taints=st.sampled_from([[], [], [{"key": "t", "effect": "NoSchedule"}]]),
    unschedulable=st.sampled_from([False, False, True]),
)
some_affinity = st.sampled_from(
    [
        {},
        {},
        {},
        {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}},
                    }
                ]
            }
        },
    ]
)
some_pod = st.builds(
    owned,
    st.just("named when it comes"),
    st.sampled_from(["web", "db"]),
    labels=st.sampled_from([{"app": "web"}, {"app": "db"}, {"app": "web", "tier": "x"}]),
    affinity=some_affinity,
    nodeSelector=st.sampled_from([{}, {}, {"disk": "ssd"}]),
)
some_event = st.one_of(
    some_node,
    some_pod,
    some_pod,
    st.tuples(st.just("node"), st.sampled_from("abcd")),
    st.tuples(st.just("pod"), st.integers(1, 9)),
    st.tuples(st.just("service"), st.sampled_from(["web", "db", ""])),
    st.tuples(st.just("owner"), st.sampled_from(["web", "db", ""])),
)


@settings(max_examples=400)
@given(
    st.lists(some_event, min_size=10, max_size=50),
    st.sampled_from([0, 1, 16]),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([1, 8]),
)
def test_each_decision_is_the_one_of_a_look_at_everything(
    history: list[Any], few: int, large: int, own_rankings: int
) -> None:
    with ExitStack() as stack:
        stack.enter_context(patch.object(spread_ranking, "MIN_FEW", few))
        stack.enter_context(patch.object(node_groups, "LARGE_GROUP_NODES", large))
        stack.enter_context(patch.object(pod_groups, "MAX_OWN_RANKINGS", own_rankings))
        there = home(*UNEQUAL)
        for number, event in enumerate(history):
            _apply(there, event, number)
            if number % 2:
                _decisions_are_the_same(there)
        _decisions_are_the_same(there)


def _apply(there: ClusterScheduler, event: Any, number: int) -> None:
    match event:
        case ("node", name):
            there.on_node(name, None)
        case ("pod", back):
            there.on_pod(("default", f"p{number - back}"), None)
        case ("service", app):
            there.on_service(("default", "service"), service(app) if app else None)
        case ("owner", app):
            there.on_owner("replicasets", ("default", "web"), controller(app) if app else None)
        case {"kind": "Node"}:
            there.on_node(event["metadata"]["name"], event)
        case _:
            event["metadata"]["name"] = f"p{number}"
            there.on_pod(("default", f"p{number}"), from_server(event))


def _decisions_are_the_same(there: ClusterScheduler) -> None:
    while there._queue.peek() is not None:
        waiting = dict(there._queue._pods)
        answers = {}
        for key, queued in waiting.items():
            spread = None
            if not queued.equivalence.has_spread_constraints:
                spread = there._selectors.find("default", queued.peer.labels, queued.owner)
            counts = SpreadCounts(spread, SpreadDomains(queued.equivalence)) if spread is not None else None
            company = InterPodState(queued.equivalence, queued.peer, counts)
            company.update(there.snapshot)
            answers[key] = decide(there.snapshot.nodes.values(), queued.equivalence, dice, company)
        binds = there.schedule_pending(1)
        if not binds:
            break
        assert answers[binds[0].pod.key] == ScheduleResult(binds[0].node)
    for refused in there.unreported_pods(100.0):
        assert isinstance(refused.message, str)
        there.report_failed(refused)


def test_the_class_ranking_refuses_for_all() -> None:
    there = home(zoned("a", "x", cpu="100m"))
    assert schedule(there, owned("w", "web", nodeSelector={ZONE: "y"})) == {}
    (refused,) = there.unreported_pods(100.0)
    expected = decide(there.snapshot.nodes.values(), refused.pod.equivalence, dice)
    assert expected == FitError(refused.message)
