"""Tests of preemption: fewest and least important victims, PodDisruptionBudgets, and the outcome."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest

from shoal.controlplane.scheduler.cluster_scheduler import ClusterScheduler
from shoal.controlplane.scheduler.equivalence import EquivalenceClasses
from tests.controlplane.scheduler.samples import bound_pod, from_server, node, pod, taint
from tests.controlplane.scheduler.test_interpod import HOST, far, term, zoned

SHAPES = EquivalenceClasses()
Object = dict[str, Any]
HIGH: Any = {"priority": 1000}


def dice(name: str) -> int:
    return crc32(name.encode())


def home(*nodes: Object) -> ClusterScheduler:
    made = ClusterScheduler(SHAPES, dice)
    for each in nodes:
        made.on_node(each["metadata"]["name"], each)
    return made


def on(
    there: ClusterScheduler, node_: str, name: str, cpu: str = "1", priority: int = 0, started: str = "", **more: Any
) -> None:
    one = bound_pod(pod(name, cpu, priority=priority, **more), node_, status={"startTime": started} if started else {})
    there.on_pod(("default", name), one)


def ask(there: ClusterScheduler, wanted: Object) -> tuple[str, list[str]]:
    """The node where room is made, and who goes."""
    there.on_pod(("default", wanted["metadata"]["name"]), from_server(wanted))
    assert there.schedule_pending(10) == []
    (evict,) = there.take_preemptions()
    return evict.plan.node, [each.key[1] for each in evict.plan.victims]


def nobody(there: ClusterScheduler, wanted: Object) -> bool:
    there.on_pod(("default", wanted["metadata"]["name"]), from_server(wanted))
    return there.schedule_pending(10) == [] and there.take_preemptions() == []


def budget(there: ClusterScheduler, allowed: int, app: str, **status: Any) -> None:
    status = {"disruptionsAllowed": allowed, **status}
    pdb = {"metadata": {"namespace": "default", "name": app}, "spec": {"selector": {"matchLabels": {"app": app}}}}
    there.on_pdb(("default", app), {**pdb, "status": status})


def test_the_least_important_go_and_no_more_than_needed() -> None:
    there = home(node("a", cpu="3"))
    for name, priority in (("x", 5), ("y", 1), ("z", 3)):
        on(there, "a", name, priority=priority)
    assert ask(there, pod("high", "1", **HIGH)) == ("a", ["y"])


def test_of_equal_ones_the_younger_goes() -> None:
    there = home(node("a", cpu="2"))
    on(there, "a", "old", started="2024-01-01T00:00:00Z")
    on(there, "a", "new", started="2024-01-02T00:00:00Z")
    assert ask(there, pod("high", "1", **HIGH)) == ("a", ["new"])


@pytest.mark.parametrize(
    ("a", "b", "chosen"),
    [
        ([("1", 5)], [("1", 1)], "b"),
        ([("1", 1)], [("500m", 1), ("500m", 1)], "a"),
        ([("500m", 1), ("500m", 0)], [("500m", 1), ("500m", 1)], "a"),
    ],
)
def test_the_node_where_it_hurts_least(a: list[tuple[str, int]], b: list[tuple[str, int]], chosen: str) -> None:
    there = home(node("a", cpu="1"), node("b", cpu="1"))
    for name, pods in (("a", a), ("b", b)):
        for index, (cpu, priority) in enumerate(pods):
            on(there, name, f"{name}{index}", cpu, priority)
    assert ask(there, pod("high", "1", **HIGH))[0] == chosen


def test_the_node_whose_pods_run_for_the_shortest_time() -> None:
    there = home(node("a", cpu="1"), node("b", cpu="1"))
    on(there, "a", "old", started="2024-01-01T00:00:00Z")
    on(there, "b", "new", started="2024-01-02T00:00:00Z")
    assert ask(there, pod("high", "1", **HIGH)) == ("b", ["new"])


def test_who_is_protected_goes_last() -> None:
    there = home(node("a", cpu="2"))
    on(there, "a", "safe", labels={"app": "db"})
    on(there, "a", "other", priority=5)
    budget(there, 0, "db")
    assert ask(there, pod("high", "1", **HIGH)) == ("a", ["other"])


def test_a_node_without_protected_pods_is_better() -> None:
    there = home(node("a", cpu="1"), node("b", cpu="1"))
    on(there, "a", "safe", labels={"app": "db"})
    on(there, "b", "other", priority=500)
    budget(there, 0, "db")
    assert ask(there, pod("high", "1", **HIGH)) == ("b", ["other"])
    budget(there, 1, "db")
    there = home(node("a", cpu="1"))
    on(there, "a", "safe", labels={"app": "db"})
    budget(there, 0, "db")
    assert ask(there, pod("high", "1", **HIGH)) == ("a", ["safe"]), "protection is not for ever"


def test_whom_a_budget_counts_already() -> None:
    there = home(node("a", cpu="2"))
    on(there, "a", "first", labels={"app": "db"})
    on(there, "a", "second", labels={"app": "db"}, priority=5)
    budget(there, 0, "db", disruptedPods={"first": "2024-01-01T00:00:00Z"})
    assert ask(there, pod("high", "1", **HIGH)) == ("a", ["first"])


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (home(node("a", cpu="1")), pod("p", "1")),
        (home(node("a", cpu="1")), pod("p", "1", preemptionPolicy="Never", **HIGH)),
        (home(node("a", cpu="1")), pod("p", "2", **HIGH)),
        (home(node("a", cpu="1", taints=[taint("t")])), pod("p", "1", **HIGH)),
        (home(node("a", cpu="1")), pod("p", "1", nodeSelector={"zone": "x"}, **HIGH)),
    ],
)
def test_where_nobody_going_would_help(there: ClusterScheduler, wanted: Object) -> None:
    on(there, "a", "low")
    assert nobody(there, wanted)
    (refusal,) = there.unreported_pods(100.0)
    assert refusal.pod.nominated_node == ""


def test_the_room_is_kept_and_taken_when_the_others_are_gone() -> None:
    there = home(node("a", cpu="1"))
    on(there, "a", "low")
    wanted = pod("high", "1", **HIGH)
    assert ask(there, wanted) == ("a", ["low"])
    (refusal,) = there.unreported_pods(100.0)
    assert (refusal.pod.nominated_node, refusal.message) == ("a", "0/1 nodes are available: 1 Insufficient cpu.")
    there.mark_reported(refusal)
    assert nobody(there, pod("same", "1", **HIGH)), "who goes already is enough for one"
    leaving = bound_pod(pod("low", "1", priority=0), "a")
    leaving["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    there.on_pod(("default", "low"), leaving)
    assert there.schedule_pending(10) == []
    assert there.take_preemptions() == []
    there.on_pod(("default", "low"), None)
    there.on_pod(("default", "sneaky"), from_server(pod("sneaky", "1"), created="2020-01-01T00:00:00Z"))
    assert [(bind.pod.key[1], bind.node) for bind in there.schedule_pending(10)] == [("high", "a")]
    assert there._nominated == {}


def test_each_of_several_makes_its_own_room() -> None:
    there = home(node("a", cpu="1"), node("b", cpu="1"))
    on(there, "a", "low-a")
    on(there, "b", "low-b")
    for name in ("h1", "h2", "h3"):
        there.on_pod(("default", name), from_server(pod(name, "1", **HIGH)))
    assert there.schedule_pending(10) == []
    found = {evict.pod.key[1]: [each.key[1] for each in evict.plan.victims] for evict in there.take_preemptions()}
    assert set(found) == {"h1", "h2"}
    assert sorted(name for names in found.values() for name in names) == ["low-a", "low-b"]


def test_one_of_still_higher_priority_takes_the_room_that_was_promised() -> None:
    there = home(node("a", cpu="1"))
    on(there, "a", "low")
    assert ask(there, pod("high", "1", **HIGH)) == ("a", ["low"])
    there.on_pod(("default", "low"), None)
    there.on_pod(("default", "top"), from_server(pod("top", "1", priority=2000)))
    assert [bind.pod.key[1] for bind in there.schedule_pending(10)] == ["top"]
    (refusal,) = there.unreported_pods(100.0)
    assert refusal.pod.key[1] == "high"
    assert refusal.pod.nominated_node == "", "nothing there is weaker: the promise is off"


def test_a_promise_survives_a_restart() -> None:
    there = home()
    wanted = pod("high", "1", **HIGH)
    there.on_pod(("default", "high"), from_server(wanted, status={"nominatedNodeName": "a"}))
    there.on_node("a", node("a", cpu="1"))
    low = bound_pod(pod("low", "1"), "a", status={"conditions": [_disrupted()]})
    low["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    there.on_pod(("default", "low"), low)
    assert there.schedule_pending(10) == []
    assert there.take_preemptions() == [], "the one that goes is the one it waits for"
    there.on_pod(("default", "low"), None)
    assert nobody_but(there, "high")


def nobody_but(there: ClusterScheduler, name: str) -> bool:
    there.on_pod(("default", "other"), from_server(pod("other", "1"), created="2020-01-01T00:00:00Z"))
    return [bind.pod.key[1] for bind in there.schedule_pending(10)] == [name]


def test_a_promise_outlives_a_binding_that_failed() -> None:
    there = home(node("a", cpu="1"))
    there.on_pod(("default", "high"), from_server(pod("high", "1", **HIGH), status={"nominatedNodeName": "a"}))
    (bind,) = there.schedule_pending(10)
    there.binding_failed(bind)
    assert nobody_but(there, "high")


def test_an_eviction_that_failed_is_tried_again() -> None:
    there = home(node("a", cpu="1"))
    on(there, "a", "low")
    there.on_pod(("default", "high"), from_server(pod("high", "1", **HIGH)))
    there.schedule_pending(10)
    (evict,) = there.take_preemptions()
    there.eviction_failed(evict.plan.victims[0])
    there.schedule_pending(10)
    (again,) = there.take_preemptions()
    assert again.plan.victims[0].key[1] == "low"


def test_pods_that_others_must_not_be_near_make_room() -> None:
    there = home(zoned("a", "x"), zoned("b", "y", pods=0))
    on(there, "a", "web", "", labels={"app": "web"})
    on(there, "a", "db", "", labels={"app": "db"})
    wanted = pod("high", "", labels={"app": "new"}, affinity=far(term("web", HOST)), **HIGH)
    assert ask(there, wanted) == ("a", ["web"])


def _disrupted() -> Object:
    return {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
