"""Tests of inter-pod constraints: over any history, NodeRanking returns the same as an evaluation of all nodes."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from shoal.controlplane.scheduler import node_groups
from shoal.controlplane.scheduler.cluster_scheduler import ClusterScheduler
from shoal.controlplane.scheduler.decide import FitError, ScheduleResult, decide
from shoal.controlplane.scheduler.equivalence import EquivalenceClasses
from shoal.controlplane.scheduler.interpod import InterPodScore, InterPodState, normalized_scores
from shoal.controlplane.scheduler.ranking import NodeRanking
from shoal.controlplane.scheduler.snapshot import ClusterSnapshot
from shoal.fit.podaffinity import AFFINITY_MISMATCH, ANTI_AFFINITY_MISMATCH, EXISTING_ANTI_AFFINITY_MISMATCH
from shoal.fit.topology import SKEW_EXCEEDED
from tests.controlplane.scheduler.samples import bound_pod, from_server, node, pod, pod_info

SHAPES = EquivalenceClasses()
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
Object = dict[str, Any]


def dice(name: str) -> int:
    return crc32(name.encode())


def term(app: str, key: str = ZONE, **more: Any) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def near(*terms: Object) -> Object:
    return {"podAffinity": {REQUIRED: list(terms)}}


def far(*terms: Object) -> Object:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def even(app: str, key: str = ZONE, action: str = "DoNotSchedule") -> list[Object]:
    selector = {"matchLabels": {"app": app}}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": selector}]


def zoned(name: str, zone: str, **more: Any) -> Object:
    return node(name, labels={HOST: name, ZONE: zone}, **more)


def home(*nodes: Object) -> ClusterScheduler:
    made = ClusterScheduler(SHAPES, dice)
    for each in nodes:
        made.on_node(each["metadata"]["name"], each)
    return made


def schedule_pods(there: ClusterScheduler, *pods: Object) -> dict[str, str]:
    """Schedules the pods one after the other and returns their nodes."""
    for each in pods:
        there.on_pod(("default", each["metadata"]["name"]), from_server(each))
    return {bind.pod.key[1]: bind.node for bind in there.schedule_pending(100)}


def unschedulable_message(there: ClusterScheduler, wanted: Object) -> str:
    assert schedule_pods(there, wanted) == {}
    (found,) = [each for each in there.unreported_pods(100.0) if each.pod.key[1] == wanted["metadata"]["name"]]
    return found.message


some_term = st.builds(
    term,
    st.sampled_from(["web", "db"]),
    st.sampled_from([ZONE, HOST]),
    namespaceSelector=st.sampled_from([None, {}]),
)
some_affinity = st.one_of(
    st.just({}),
    st.builds(near, some_term),
    st.builds(far, some_term, some_term),
    st.builds(
        lambda weight, each: {"podAntiAffinity": {PREFERRED: [{"weight": weight, "podAffinityTerm": each}]}},
        st.integers(1, 100),
        some_term,
    ),
)
some_spread: st.SearchStrategy[list[Object]] = st.one_of(
    st.just([]),
    st.builds(
        even,
        st.sampled_from(["web", "db"]),
        st.sampled_from([ZONE, HOST]),
        st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    ),
)
some_pod = st.builds(
    pod,
    st.sampled_from("pqrstuvw"),
    cpu=st.sampled_from(["", "300m", "1"]),
    labels=st.sampled_from([{}, {"app": "web"}, {"app": "db"}]),
    affinity=some_affinity,
    topologySpreadConstraints=some_spread,
)
some_node = st.builds(
    node,
    st.sampled_from("abcd"),
    cpu=st.sampled_from(["1", "2"]),
    labels=st.sampled_from([{}, {ZONE: "x"}, {ZONE: "x", HOST: "1"}, {ZONE: "y", HOST: "2"}, {ZONE: "y", HOST: "3"}]),
)


@given(
    st.lists(st.one_of(some_node, st.sampled_from("abcd")), max_size=8),
    st.lists(some_pod, max_size=14),
    st.sampled_from([1, 2, 8]),
    st.data(),
)
def test_the_ranking_answers_as_if_it_had_asked_every_node(
    changes: list[Object | str], pods: list[Object], large: int, data: st.DataObject
) -> None:
    with patch.object(node_groups, "LARGE_GROUP_NODES", large):
        answers_are_the_same(data.draw(st.permutations([*changes, *pods])))


def answers_are_the_same(history: list[Object | str]) -> None:
    snapshot = ClusterSnapshot()
    rankings: dict[Any, NodeRanking] = {}
    for number, each in enumerate(history):
        if isinstance(each, str):
            snapshot.remove_node(each)
        elif each["kind"] == "Node":
            snapshot.put_node(each)
        else:
            shape, peer = SHAPES.classify(each), SHAPES.peer(each)
            if (shape, peer) not in rankings:
                rankings[shape, peer] = NodeRanking(shape, dice, InterPodState(shape, peer))
            found = rankings[shape, peer].decide(snapshot)
            fresh = InterPodState(shape, peer)
            fresh.update(snapshot)
            assert found == decide(snapshot.nodes.values(), shape, dice, fresh)
            if isinstance(found, ScheduleResult):
                snapshot.assign(found.node, pod_info(SHAPES, each))
            elif number % 2:
                snapshot.remove_pod(("default", each["metadata"]["name"]))
    for (shape, peer), ranking in rankings.items():
        fresh = InterPodState(shape, peer)
        fresh.update(snapshot)
        assert ranking.decide(snapshot) == decide(snapshot.nodes.values(), shape, dice, fresh)


@given(st.lists(some_node, max_size=5), st.lists(some_pod, max_size=16))
def test_what_is_chosen_obeys_and_what_is_refused_has_no_place(nodes: list[Object], pods: list[Object]) -> None:
    """Whatever the groups pods wait in, each decision is the one of a look at everything."""
    there = home(*nodes)
    wanted = {("default", each["metadata"]["name"]): from_server(each) for each in pods}
    for key, each in wanted.items():
        there.on_pod(key, each)
    twin = home(*nodes)
    while binds := there.schedule_pending(1):
        (bind,) = binds
        each = wanted[bind.pod.key]
        company = InterPodState(SHAPES.classify(each), SHAPES.peer(each))
        company.update(twin.snapshot)
        answer = decide(twin.snapshot.nodes.values(), SHAPES.classify(each), dice, company)
        assert isinstance(answer, ScheduleResult)
        there_node = twin.snapshot.nodes[bind.node]
        assert not company.reject_reason(there_node.labels)
        twin.snapshot.assign(bind.node, bind.pod.pod_info())
    for refused in there.unreported_pods(100.0):
        each = wanted[refused.pod.key]
        company = InterPodState(SHAPES.classify(each), SHAPES.peer(each))
        company.update(there.snapshot)
        answer = decide(there.snapshot.nodes.values(), SHAPES.classify(each), dice, company)
        assert answer == FitError(refused.message)


def test_replicas_apart_by_host() -> None:
    there = home(zoned("a", "x"), zoned("b", "x"), zoned("c", "y"))
    replicas = [pod(f"w{i}", labels={"app": "web"}, affinity=far(term("web", HOST))) for i in range(4)]
    found = schedule_pods(there, *replicas)
    assert sorted(found.values()) == ["a", "b", "c"]
    (message,) = [each.message for each in there.unreported_pods(100.0)]
    assert message == f"0/3 nodes are available: 3 {ANTI_AFFINITY_MISMATCH}."


def test_a_pod_without_constraints_is_kept_away_by_one_that_is_there() -> None:
    there = home(zoned("a", "x"), zoned("b", "y"))
    loner = pod("db", labels={"app": "db"}, affinity=far(term("web")))
    there.on_pod(("default", "db"), bound_pod(loner, "a"))
    assert schedule_pods(there, pod("web", labels={"app": "web"})) == {"web": "b"}
    there.on_node("b", None)
    assert (
        unschedulable_message(there, pod("late", labels={"app": "web"}))
        == f"0/1 nodes are available: 1 {EXISTING_ANTI_AFFINITY_MISMATCH}."
    )
    assert schedule_pods(there, pod("cache", labels={"app": "cache"})) == {"cache": "a"}


def test_a_pod_that_waits_hears_of_a_new_neighbour_that_does_not_want_it() -> None:
    there = home(zoned("a", "x", cpu="1"))
    waits = pod("web", "2", labels={"app": "web"})
    assert unschedulable_message(there, waits) == "0/1 nodes are available: 1 Insufficient cpu."
    there.on_pod(("default", "db"), bound_pod(pod("db", "", labels={"app": "db"}, affinity=far(term("web"))), "a"))
    there.on_node("a", zoned("a", "x", cpu="4"))
    there.schedule_pending(10)
    (found,) = there.unreported_pods(200.0)
    assert found.message == f"0/1 nodes are available: 1 {EXISTING_ANTI_AFFINITY_MISMATCH}."
    there.on_pod(("default", "db"), None)
    assert [bind.node for bind in there.schedule_pending(10)] == ["a"]


def test_a_pod_that_came_somewhere_helps_who_wants_to_be_near_it() -> None:
    there = home(zoned("a", "x"), zoned("b", "y"))
    wanted = pod("web", labels={"app": "web"}, affinity=near(term("db")))
    assert unschedulable_message(there, wanted) == f"0/2 nodes are available: 2 {AFFINITY_MISMATCH}."
    assert there.on_pod(("default", "db"), bound_pod(pod("db", labels={"app": "db"}), "b")) is True
    assert [bind.node for bind in there.schedule_pending(10)] == ["b"]


def test_a_pod_whose_labels_change_helps_too() -> None:
    there = home(zoned("a", "x"))
    there.on_pod(("default", "db"), bound_pod(pod("db", labels={"app": "web"}), "a"))
    assert unschedulable_message(there, pod("web", labels={"app": "web"}, affinity=far(term("web")))).endswith(
        f"1 {ANTI_AFFINITY_MISMATCH}."
    )
    assert there.on_pod(("default", "db"), bound_pod(pod("db", labels={"app": "db"}), "a")) is True
    assert len(there.schedule_pending(10)) == 1


def test_an_even_spread_and_who_waits_for_it() -> None:
    there = home(zoned("a", "x"), zoned("b", "y", cpu="500m"))
    web = {"app": "web"}
    spread = [pod(f"w{i}", labels=web, topologySpreadConstraints=even("web")) for i in range(4)]
    assert sorted(schedule_pods(there, *spread).values()) == ["a", "a", "b"]
    (found,) = there.unreported_pods(100.0)
    assert found.message == f"0/2 nodes are available: 1 Insufficient cpu, 1 {SKEW_EXCEEDED}."
    there.on_node("c", zoned("c", "y"))
    assert len(there.schedule_pending(10)) == 1


def test_a_pod_that_leaves_does_not_count_any_more() -> None:
    there = home(zoned("a", "x"), zoned("b", "y", cpu="1m"))
    web = pod("old", labels={"app": "web"})
    there.on_pod(("default", "old"), bound_pod(web, "a"))
    wanted = pod("new", labels={"app": "web"}, topologySpreadConstraints=even("web"))
    assert unschedulable_message(there, wanted).startswith("0/2 nodes")
    leaving = bound_pod(web, "a")
    leaving["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    assert there.on_pod(("default", "old"), leaving) is True
    assert [bind.node for bind in there.schedule_pending(10)] == ["a"]


def test_preferences_decide_between_nodes_that_will_do() -> None:
    there = home(zoned("a", "x"), zoned("b", "y"))
    there.on_pod(("default", "db"), bound_pod(pod("db", labels={"app": "db"}), "a"))
    liked = {"podAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": term("db")}]}}
    assert schedule_pods(there, pod("web", affinity=liked)) == {"web": "a"}
    soft = pod("w2", labels={"app": "db"}, topologySpreadConstraints=even("db", action="ScheduleAnyway"))
    assert schedule_pods(there, soft) == {"w2": "b"}


def test_labels_of_namespaces() -> None:
    needs: list[str] = []
    there = ClusterScheduler(SHAPES, dice, needs.append)
    there.on_node("a", zoned("a", "x"))
    selector = {"matchLabels": {"team": "blue"}}
    loner = pod("db", labels={"app": "db"}, affinity=far(term("web", namespaceSelector=selector)))
    loner["metadata"]["namespace"] = "other"
    there.on_pod(("other", "db"), bound_pod(loner, "a"))
    assert needs == ["namespaces"]
    assert schedule_pods(there, pod("one", labels={"app": "web"})) == {"one": "a"}
    there.on_namespace("default", {"metadata": {"name": "default", "labels": {"team": "blue"}}})
    assert unschedulable_message(there, pod("two", labels={"app": "web"})).endswith(
        f"1 {EXISTING_ANTI_AFFINITY_MISMATCH}."
    )
    assert there.on_namespace("default", {"metadata": {"name": "default", "labels": {"team": "red"}}}) is True
    assert len(there.schedule_pending(10)) == 1


def test_pods_of_no_concern_share_a_group_whatever_their_labels() -> None:
    there = home(zoned("a", "x", pods=200, cpu="200"))
    found = schedule_pods(there, *(pod(f"w{i}", labels={"app": "web", "number": str(i)}) for i in range(50)))
    assert len(found) == 50
    assert len(there._queue._groups) == 1


def test_what_moods_are_worth() -> None:
    assert normalized_scores([InterPodScore(0, 0), InterPodScore(0, 0)]) == [200, 200]
    assert normalized_scores([InterPodScore(-10, 4), InterPodScore(10, 1), InterPodScore(0, None)]) == [
        0 + 2 * 25,
        200 + 200,
        100 + 0,
    ]
