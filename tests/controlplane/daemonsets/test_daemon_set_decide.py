"""Tests of the DaemonSet decision, one step at a time, from tables."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.controlplane.daemonsets.controller import FailedPodsBackoff
from shoal.controlplane.daemonsets.decide import DaemonSetDecision, DaemonSetSnapshot, decide, revisions_to_delete
from shoal.controlplane.daemonsets.eligibility import NodeMatcher, new_pods, target_node, tolerations_of
from shoal.controlplane.daemonsets.rollout import bounds_of

Object = dict[str, Any]

NOW = 1_700_000_000.0
EARLIER, JUST_NOW = "2023-11-14T22:00:00Z", "2023-11-14T22:13:15Z"


def daemon_set(template: Object | None = None, **spec: Any) -> Object:
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "d", "generation": 1},
        "spec": {
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [], **(template or {})}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            **spec,
        },
        "status": {},
    }


def rolling(surge: object, unavailable: object) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}


def node(name: str, *taints: tuple[str, str], **labels: str) -> Object:
    spec = {"taints": [{"key": key, "effect": effect} for key, effect in taints]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def pod(name: str, on: str, state: str = "+", *, bound: bool = True) -> Object:
    """`+` new, `-` old, `~` new and not ready, `!` old and not ready, `^` new and ready a moment ago, `F` failed,
    `S` succeeded, `x` being deleted, `X` failed and being deleted."""
    labels = {"controller-revision-hash": "old" if state in "-!" else "new"}
    metadata: Object = {"name": name, "uid": name, "labels": labels, "creationTimestamp": EARLIER}
    if state in "xX":
        metadata["deletionTimestamp"] = JUST_NOW
    phase = {"F": "Failed", "X": "Failed", "S": "Succeeded"}.get(state, "Running")
    since = JUST_NOW if state == "^" else EARLIER
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": since}] if state in "+-^x" else []
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    spec: Object = {"affinity": affinity} | ({"nodeName": on} if bound else {})
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, "conditions": ready}}


def step(owner: Object, nodes: list[Object], pods: list[Object], **held: float) -> DaemonSetDecision:
    return decide(DaemonSetSnapshot(owner, nodes, pods, "new", held, NOW))


def created_and_deleted(decision: DaemonSetDecision) -> tuple[list[str], list[str]]:
    return decision.create, [one["metadata"]["name"] for one in decision.delete]


@pytest.mark.parametrize(
    ("template", "node_", "wanted"),
    [
        ({}, node("n"), (True, True)),
        ({"nodeName": "n"}, node("n"), (True, True)),
        ({"nodeName": "m"}, node("n"), (False, False)),
        ({"nodeSelector": {"disk": "ssd"}}, node("n", disk="ssd"), (True, True)),
        ({"nodeSelector": {"disk": "ssd"}}, node("n"), (False, False)),
        ({}, node("n", ("own", "NoSchedule")), (False, True)),
        ({}, node("n", ("own", "NoExecute")), (False, False)),
        ({}, node("n", ("own", "PreferNoSchedule")), (True, True)),
        ({"tolerations": [{"key": "own", "operator": "Exists"}]}, node("n", ("own", "NoExecute")), (True, True)),
        ({}, node("n", ("node.kubernetes.io/not-ready", "NoExecute")), (True, True)),
        ({}, node("n", ("node.kubernetes.io/not-ready", "NoSchedule")), (False, True)),
        ({}, node("n", ("node.kubernetes.io/unschedulable", "NoSchedule")), (True, True)),
        ({}, node("n", ("node.kubernetes.io/network-unavailable", "NoSchedule")), (False, True)),
        ({"hostNetwork": True}, node("n", ("node.kubernetes.io/network-unavailable", "NoSchedule")), (True, True)),
    ],
)
def test_where_pods_belong(template: Object, node_: Object, wanted: tuple[bool, bool]) -> None:
    assert NodeMatcher(daemon_set(template)).eligibility_of(node_) == wanted


def test_a_toleration_of_the_template_is_widened_not_doubled() -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
    found = tolerations_of({"tolerations": [own]})
    assert len(found) == 6
    assert found[0] == {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}


def test_a_pod_is_tied_to_its_node_and_keeps_its_other_wishes() -> None:
    preferred: Object = {"preferredDuringSchedulingIgnoredDuringExecution": []}
    owner = daemon_set({"affinity": {"podAffinity": {}, "nodeAffinity": preferred}})
    owner["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "4"}
    one, other = new_pods(owner, ["a", "b"], "new")
    assert (target_node(one), target_node(other)) == ("a", "b")
    assert one["spec"]["affinity"]["podAffinity"] == {}
    assert "preferredDuringSchedulingIgnoredDuringExecution" in one["spec"]["affinity"]["nodeAffinity"]
    assert one["metadata"]["labels"] == {
        "app": "web",
        "controller-revision-hash": "new",
        "pod-template-generation": "4",
    }
    assert one["metadata"]["generateName"] == "web-"


@pytest.mark.parametrize(
    ("pods", "create", "delete"),
    [
        # On nodes a and b, and c with a taint that only lets pods stay, and d where none may be.
        ([], ["a", "b"], []),
        ([pod("1", "a")], ["b"], []),
        ([pod("1", "a"), pod("2", "b"), pod("3", "c"), pod("4", "d")], [], ["4"]),
        ([pod("1", "a", "x"), pod("2", "b")], [], []),
        ([pod("1", "a", "X"), pod("2", "b")], ["a"], []),
        ([pod("1", "a", "F"), pod("2", "b", "S")], [], ["1", "2"]),
        ([pod("1", "a"), pod("2", "b"), pod("3", "b"), pod("0", "b", bound=False)], [], ["3", "0"]),
        ([pod("1", "a"), pod("2", "b"), pod("4", "d", "x")], [], []),
    ],
)
def test_one_on_every_node(pods: list[Object], create: list[str], delete: list[str]) -> None:
    nodes = [node("a"), node("b"), node("c", ("own", "NoSchedule")), node("d", ("own", "NoExecute"))]
    assert created_and_deleted(step(daemon_set(), nodes, pods)) == (create, delete)


def test_a_pod_that_waits_for_a_node_that_is_gone_is_looked_into() -> None:
    pods = [pod("1", "gone", "~", bound=False), pod("2", "gone", "~"), pod("3", "gone", "x", bound=False)]
    decision = step(daemon_set(), [node("a")], [*pods, pod("4", "a")])
    assert [(one["metadata"]["name"], name) for one, name in decision.without_node] == [("1", "gone")]
    assert created_and_deleted(decision) == ([], [])


def test_what_fails_again_waits() -> None:
    nodes, pods = [node("a"), node("b")], [pod("1", "a", "F"), pod("2", "b", "S")]
    decision = step(daemon_set(), nodes, pods, a=7.0, b=3.0)
    assert created_and_deleted(decision) == ([], ["2"])
    assert decision.requeue_after == 7.0
    assert [(one["metadata"]["name"], name) for one, name in decision.finished] == [("2", "b")]


def test_the_pause_doubles_and_is_forgotten() -> None:
    failed, key = FailedPodsBackoff(), ("c", "ns", "web")
    assert failed.remaining(key, 0.0) == {}
    failed.record_deletion(key, "a", 0.0)
    assert failed.remaining(key, 0.5) == {"a": 0.5}
    assert failed.remaining(key, 1.0) == {}
    failed.record_deletion(key, "a", 1.0)
    assert failed.remaining(key, 1.0) == {"a": 2.0}
    for _ in range(20):
        failed.record_deletion(key, "a", 2.0)
    assert failed.remaining(key, 2.0) == {"a": 900.0}
    failed.record_deletion(key, "b", 5000.0)
    failed.record_deletion(key, "a", 5000.0)
    assert failed.remaining(key, 5000.0) == {"a": 1.0, "b": 1.0}
    failed.forget(key)
    assert failed.remaining(key, 5000.0) == {}


@pytest.mark.parametrize(
    ("surge", "unavailable", "nodes", "wanted"),
    [(0, 1, 10, (0, 1)), (0, "25%", 10, (0, 3)), ("10%", 0, 3, (1, 0)), (0, 0, 3, (0, 1)), (0, 0, 0, (0, 0))],
)
def test_bounds(surge: object, unavailable: object, nodes: int, wanted: tuple[int, int]) -> None:
    bounds = bounds_of(daemon_set(updateStrategy=rolling(surge, unavailable)), nodes)
    assert (bounds.max_surge, bounds.max_unavailable) == wanted


@pytest.mark.parametrize(
    ("strategy", "states", "create", "delete"),
    [
        # One pod on each of the nodes n0, n1, …; two states stand for two pods of a node.
        (rolling(0, 1), ["-", "-", "-"], [], ["0"]),
        (rolling(0, 2), ["-", "-", "-"], [], ["0", "1"]),
        (rolling(0, "50%"), ["-", "-", "-"], [], ["0", "1"]),
        (rolling(0, 1), ["x", "-", "-"], [], []),
        (rolling(0, 1), ["~", "-", "-"], [], []),
        (rolling(0, 1), ["+", "-", "-"], [], ["1"]),
        (rolling(0, 1), ["-", "!", "-"], [], ["1"]),
        (rolling(0, 2), ["-", "!", "-"], [], ["1", "0"]),
        (rolling(0, 1), ["!", "!", "!"], [], ["0", "1", "2"]),
        (rolling(0, 1), ["+", "+", "+"], [], []),
        ({"type": "OnDelete"}, ["-", "!", "-"], [], []),
        (rolling(1, 0), ["-", "-", "-"], ["n0"], []),
        (rolling(1, 0), ["-~", "-", "-"], [], []),
        (rolling(2, 0), ["-~", "-", "-"], ["n1"], []),
        (rolling(1, 0), ["-+", "-", "-"], [], ["0"]),
        (rolling(1, 0), ["+", "-", "-"], ["n1"], []),
        (rolling(1, 0), ["-", "!", "-"], ["n1", "n0"], []),
        (rolling(1, 0), ["!+", "-", "-"], [], ["0"]),
        (rolling(1, 0), ["!~", "-", "-"], [], ["0"]),
        (rolling(1, 0), ["x", "+", "+"], ["n0"], []),
        (rolling(1, 0), ["+++", "+", "+"], [], ["0'", "0''"]),
    ],
)
def test_a_rolling_update(strategy: Object, states: list[str], create: list[str], delete: list[str]) -> None:
    nodes = [node(f"n{number}") for number in range(len(states))]
    pods = [
        pod(f"{number}" + "'" * nth, f"n{number}", state)
        for number, each in enumerate(states)
        for nth, state in enumerate(each)
    ]
    assert created_and_deleted(step(daemon_set(updateStrategy=strategy), nodes, pods)) == (create, delete)


def test_a_new_pod_must_have_been_ready_for_long_enough() -> None:
    owner = daemon_set(updateStrategy=rolling(1, 0), minReadySeconds=30)
    assert created_and_deleted(step(owner, [node("a")], [pod("1", "a", "-"), pod("2", "a", "^")])) == ([], [])
    status = step(owner, [node("a")], [pod("2", "a", "^")]).status
    assert (status["numberReady"], status.get("numberAvailable"), status["numberUnavailable"]) == (1, None, 1)


def test_with_surge_a_misplaced_pod_stays_until_there_are_enough_others() -> None:
    owner = daemon_set({"nodeSelector": {"disk": "ssd"}}, updateStrategy=rolling(1, 0))
    nodes = [node("a", disk="ssd"), node("b", ("own", "NoSchedule"), disk="ssd")]
    assert created_and_deleted(step(owner, nodes, [pod("1", "a", "~"), pod("2", "b", "-")])) == ([], [])
    assert created_and_deleted(step(owner, nodes, [pod("1", "a", "+"), pod("2", "b", "-")])) == ([], ["2"])
    assert created_and_deleted(step(owner, nodes, [pod("1", "a", "~"), pod("2", "b", "!")])) == ([], ["2"])


def test_what_the_status_says() -> None:
    nodes = [node("a"), node("b"), node("c"), node("d", ("own", "NoSchedule"))]
    pods = [pod("1", "a"), pod("2", "b", "-"), pod("3", "d"), pod("4", "gone")]
    owner = daemon_set()
    owner["status"] = {"collisionCount": 2, "conditions": [{"type": "Own"}]}
    assert step(owner, nodes, pods).status == {
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 2,
        "numberMisscheduled": 1,
        "numberReady": 2,
        "numberAvailable": 2,
        "numberUnavailable": 1,
        "updatedNumberScheduled": 1,
        "observedGeneration": 1,
        "collisionCount": 2,
        "conditions": [{"type": "Own"}],
    }


def test_many_nodes_are_served_in_portions() -> None:
    nodes = [node(f"n{number}") for number in range(600)]
    assert len(step(daemon_set(), nodes, []).create) == 250


def test_old_revisions_go_when_no_pod_is_at_them() -> None:
    old = [{"metadata": {"name": f"web-{name}", "labels": {"controller-revision-hash": name}}} for name in "abc"]
    pods = [pod("1", "n", "-")]
    pods[0]["metadata"]["labels"]["controller-revision-hash"] = "a"

    def gone(limit: int | None) -> list[str]:
        return [
            one["metadata"]["name"] for one in revisions_to_delete(daemon_set(revisionHistoryLimit=limit), pods, old)
        ]

    assert [gone(0), gone(1), gone(2), gone(3), gone(None)] == [
        ["web-b", "web-c"],
        ["web-b", "web-c"],
        ["web-b"],
        [],
        [],
    ]
