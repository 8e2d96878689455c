"""Tests of ClusterScheduler over time: properties of any history, and the life of one pod."""

from __future__ import annotations

from collections import Counter
from typing import Any
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from shoal.controlplane.scheduler.cluster_scheduler import ClusterScheduler
from shoal.controlplane.scheduler.decide import ScheduleResult, decide
from shoal.controlplane.scheduler.equivalence import EquivalenceClasses
from shoal.controlplane.scheduler.ranking import NodeRanking
from shoal.controlplane.scheduler.results import unschedulable_condition
from shoal.controlplane.scheduler.snapshot import MIN_LOG_LENGTH, ClusterSnapshot
from shoal.fit.ports import host_ports
from shoal.fit.resources import allocatable, fits, pod_requests, total
from shoal.fit.taints import first_untolerated
from tests.controlplane.scheduler.samples import bound_pod, from_server, node, pod, pod_info, taint

SHAPES = EquivalenceClasses()
NODES = ["a", "b", "c"]
KEY = ("default", "p")


def dice(name: str) -> int:
    return crc32(name.encode())


def home(*nodes: dict[str, Any]) -> ClusterScheduler:
    made = ClusterScheduler(SHAPES, dice)
    for each in nodes:
        made.on_node(each["metadata"]["name"], each)
    return made


def by_name(*names: str) -> dict[str, Any]:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


some_node = st.builds(
    node,
    st.sampled_from(NODES),
    cpu=st.sampled_from(["1", "2"]),
    memory=st.sampled_from(["128Mi", "1Gi"]),
    pods=st.integers(0, 4),
    labels=st.sampled_from([{}, {"zone": "x"}]),
    taints=st.sampled_from([[], [taint("t")], [taint("t", "PreferNoSchedule")]]),
    unschedulable=st.booleans(),
)
some_pod = st.builds(
    pod,
    st.sampled_from("pqrstuvw"),
    cpu=st.sampled_from(["", "300m", "1"]),
    memory=st.sampled_from(["", "64Mi"]),
    ports=st.sampled_from([[], [{"hostPort": 80}], [{"hostPort": 80, "hostIP": "10.0.0.1"}]]),
    tolerations=st.sampled_from([[], [{"key": "t", "operator": "Exists"}]]),
    nodeSelector=st.sampled_from([{}, {"zone": "x"}]),
    affinity=st.sampled_from([{}, {}, by_name("a"), by_name("b", "gone")]),
    priority=st.sampled_from([0, 5]),
)


@given(st.lists(st.one_of(some_node, st.sampled_from(NODES)), max_size=8), st.lists(some_pod, max_size=12), st.data())
def test_the_ranking_answers_as_if_it_had_asked_every_node(
    changes: list[dict[str, Any] | str], pods: list[dict[str, Any]], data: st.DataObject
) -> None:
    snapshot = ClusterSnapshot()
    rankings: dict[Any, NodeRanking] = {}
    for number, each in enumerate(data.draw(st.permutations([*changes, *pods]))):
        if isinstance(each, str):
            snapshot.remove_node(each)
        elif each["kind"] == "Node":
            snapshot.put_node(each)
        else:
            shape = SHAPES.classify(each)
            ranking = rankings.setdefault(shape, NodeRanking(shape, dice))
            found = ranking.decide(snapshot)
            assert found == decide(snapshot.nodes.values(), shape, dice)
            if isinstance(found, ScheduleResult):
                snapshot.assign(found.node, pod_info(SHAPES, each))
            elif number % 2:
                snapshot.remove_pod(("default", each["metadata"]["name"]))
    for shape, ranking in rankings.items():
        assert ranking.decide(snapshot) == decide(snapshot.nodes.values(), shape, dice)


@given(st.lists(some_node, max_size=4), st.lists(some_pod, max_size=16))
def test_what_is_chosen_fits_and_what_is_not_fits_nowhere(
    nodes: list[dict[str, Any]], pods: list[dict[str, Any]]
) -> None:
    real = {each["metadata"]["name"]: each for each in nodes}
    wanted = {("default", each["metadata"]["name"]): from_server(each) for each in pods}
    there = home(*nodes)
    for key, each in wanted.items():
        there.on_pod(key, each)
    chosen = {bind.pod.key: bind.node for bind in there.schedule_pending(1000)}
    for name, each in real.items():
        on_it = [wanted[key] for key, target in chosen.items() if target == name]
        assert fits(total(pod_requests(one) for one in on_it), allocatable(each)), "overcommitted"
        ports = [port for one in on_it for port in host_ports(one)]
        assert len(ports) <= 1, "two pods on one port"
        for one in on_it:
            tolerations = one["spec"]["tolerations"]
            assert first_untolerated(each["spec"]["taints"], tolerations) is None
            assert not each["spec"].get("unschedulable")
            assert one["spec"]["nodeSelector"].items() <= each["metadata"]["labels"].items()
    refused = {refusal.pod.key for refusal in there.unreported_pods(100.0)}
    assert refused | set(chosen) == set(wanted)
    assert not refused & set(chosen)
    for key in refused:
        assert not isinstance(decide(there.snapshot.nodes.values(), SHAPES.classify(wanted[key]), dice), ScheduleResult)


@given(st.lists(st.tuples(some_pod, st.sampled_from([*NODES, None])), max_size=20), st.lists(some_node, max_size=4))
def test_usage_is_what_the_pods_take_whatever_the_order_of_events(
    history: list[tuple[dict[str, Any], str | None]], nodes: list[dict[str, Any]]
) -> None:
    there = home()
    last: dict[tuple[str, str], dict[str, Any] | None] = {}
    for number, (each, target) in enumerate(history):
        key = ("default", each["metadata"]["name"])
        last[key] = bound_pod(each, target, uid=str(number)) if target else None
        there.on_pod(key, last[key])
        if number < len(nodes):
            there.on_node(nodes[number]["metadata"]["name"], nodes[number])
    settled = [each for each in last.values() if each]
    for name, state in there.snapshot.nodes.items():
        on_it = [each for each in settled if each["spec"]["nodeName"] == name]
        used = total(pod_requests(each) for each in on_it)
        assert {key: state.allocatable.get(key, 0) - used.get(key, 0) for key in state.free} == state.free
        assert len(state.pods) == len(on_it)
        assert Counter(state.ports) == Counter(port for each in on_it for port in host_ports(each))
        assert state.exists or state.pods


def test_priority_goes_first_then_age_then_arrival() -> None:
    there = home(node("a", pods=100, cpu="100"))
    new, old = "2024-01-02T00:00:00Z", "2024-01-01T00:00:00Z"
    for name, priority, created, cpu in [
        ("d", 0, new, "1"),
        ("e", 0, new, "2"),
        ("c", 0, old, "1"),
        ("b", 7, new, "3"),
        ("a", 7, old, "1"),
        ("f", -1, old, "1"),
    ]:
        there.on_pod(("default", name), from_server(pod(name, cpu, priority=priority), created=created))
    assert [bind.pod.key[1] for bind in there.schedule_pending(4)] == ["a", "b", "c", "d"]
    assert [bind.pod.key[1] for bind in there.schedule_pending(4)] == ["e", "f"]


def test_an_assumed_pod_takes_its_place_at_once() -> None:
    there = home(node("a", cpu="1"))
    for name in "pq":
        there.on_pod(("default", name), from_server(pod(name, "600m")))
    first = there.schedule_pending(10)
    assert [bind.pod.key[1] for bind in first] == ["p"]
    assert there.on_pod(KEY, from_server(pod("p", "600m"))) is False, "older than its binding"
    assert there.schedule_pending(10) == []
    assert there.on_pod(KEY, bound_pod(pod("p", "600m"), "a")) is False
    assert there.schedule_pending(10) == []
    assert there.on_pod(KEY, None) is True
    assert [bind.pod.key[1] for bind in there.schedule_pending(10)] == ["q"]


def test_a_failed_binding_is_undone() -> None:
    there = home(node("a", cpu="1"))
    there.on_pod(KEY, from_server(pod("p", "600m")))
    (bind,) = there.schedule_pending(10)
    assert there.schedule_pending(10) == []
    there.binding_failed(bind)
    assert [again.node for again in there.schedule_pending(10)] == ["a"]


def test_a_failed_binding_of_a_pod_that_went_leaves_nothing() -> None:
    there = home(node("a", cpu="1"))
    there.on_pod(KEY, from_server(pod("p", "600m")))
    (bind,) = there.schedule_pending(10)
    there.on_pod(KEY, None)
    there.on_pod(KEY, from_server(pod("p", "700m"), uid="another"))
    there.binding_failed(bind)
    (again,) = there.schedule_pending(10)
    assert again.pod.uid == "another"
    assert there.snapshot.nodes["a"].free["cpu"] == 300


def test_a_pod_that_changed_before_its_binding_failed_waits_as_it_is_now() -> None:
    there = home(node("a", cpu="1"))
    there.on_pod(KEY, from_server(pod("p", "600m")))
    (bind,) = there.schedule_pending(10)
    there.on_pod(KEY, from_server(pod("p", "600m", nodeSelector={"zone": "x"}), generation=2))
    there.binding_failed(bind)
    assert there.schedule_pending(10) == []
    (refusal,) = there.unreported_pods(100.0)
    assert refusal.pod.generation == 2


def test_pods_are_told_once_and_of_other_reasons_only_now_and_then() -> None:
    there = home()
    there.on_pod(KEY, from_server(pod("p")))

    def told(now: float) -> list[str]:
        there.schedule_pending(10)
        found = there.unreported_pods(now)
        for each in found:
            there.mark_reported(each)
        return [f"{each.pod.key[1]}: {each.message}" for each in found]

    assert told(100.0) == ["p: no nodes available to schedule pods"]
    assert told(100.0) == []
    assert there.next_report_after(100.0) is None
    there.on_node("a", node("a", cpu="1m"))
    assert told(100.1) == []
    there.on_pod(("default", "q"), from_server(pod("q")))
    assert told(100.2) == ["q: 0/1 nodes are available: 1 Insufficient cpu."]
    assert there.next_report_after(100.5) == 0.5
    assert there.next_report_after(100.6) is None, "asked for before"
    assert told(101.0) == ["p: 0/1 nodes are available: 1 Insufficient cpu."]
    assert there.next_report_after(101.0) is None


def test_who_waits_hears_nothing_new_while_others_of_its_kind_find_nodes() -> None:
    there = home()
    for name in "pq":
        there.on_pod(("default", name), from_server(pod(name)))
    there.schedule_pending(10)
    for each in there.unreported_pods(100.0):
        there.mark_reported(each)
    there.on_node("a", node("a", cpu="500m"))
    assert len(there.schedule_pending(10)) == 1
    assert there.unreported_pods(110.0) == []
    assert there.next_report_after(110.0) == 1.0
    (refusal,) = there.unreported_pods(111.0)
    assert refusal.message == "0/1 nodes are available: 1 Insufficient cpu."


def test_who_knows_already_is_not_told_after_a_restart() -> None:
    message = "no nodes available to schedule pods"
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    there = home()
    there.on_pod(KEY, from_server(pod("p"), status={"conditions": [{**told, "observedGeneration": 1}]}))
    there.schedule_pending(10)
    assert there.unreported_pods(100.0) == []
    there.on_pod(KEY, from_server(pod("p", nodeSelector={"a": "b"}), generation=2, status={"conditions": [told]}))
    there.schedule_pending(10)
    (refusal,) = there.unreported_pods(100.0)
    there.report_failed(refusal)
    (refusal,) = there.unreported_pods(100.0)
    condition = unschedulable_condition(refusal, "now")
    assert condition == {**told, "observedGeneration": 2}, "the time of the first refusal stays"


def test_only_what_could_help_wakes_those_who_rest() -> None:
    there = home(node("a", cpu="1"))
    there.on_pod(KEY, from_server(pod("p", "2")))
    assert there.schedule_pending(10) == []
    assert there.on_node("a", node("a", cpu="1")) is False, "nothing new"
    assert there.on_pod(("default", "q"), bound_pod(pod("q", "100m"), "a")) is False
    assert there.on_pod(("default", "q"), bound_pod(pod("q", "100m"), "a", status={"phase": "Running"})) is False
    assert there.on_pod(("default", "q"), bound_pod(pod("q", "100m"), "a", status={"phase": "Succeeded"})) is True
    assert there.on_node("b", node("b", cpu="2")) is True
    assert [bind.node for bind in there.schedule_pending(10)] == ["b"]


def test_a_gated_or_terminating_pod_stops_waiting() -> None:
    there = home(node("a"))
    there.on_pod(KEY, from_server(pod("p")))
    there.on_pod(KEY, from_server(pod("p", schedulingGates=[{"name": "g"}]), generation=2))
    assert there.schedule_pending(10) == []
    there.on_pod(KEY, from_server(pod("p"), generation=3))
    assert len(there.schedule_pending(10)) == 1


def test_one_who_slept_through_many_changes_looks_at_everything() -> None:
    there = ClusterSnapshot()
    shape = SHAPES.classify(pod("p"))
    ranking = NodeRanking(shape, dice)
    there.put_node(node("a"))
    assert ranking.decide(there) == ScheduleResult("a")
    for number in range(4 * MIN_LOG_LENGTH):
        there.put_node(node("b", cpu=str(8 + number % 2)))
    there.remove_node("a")
    assert ranking.decide(there) == ScheduleResult("b")


def test_an_empty_cluster_is_forgotten() -> None:
    there = home(node("a"))
    there.on_pod(KEY, bound_pod(pod("p"), "a"))
    there.on_node("a", None)
    assert not there.is_empty
    there.on_pod(KEY, None)
    assert there.is_empty
