"""Table tests of draining: which pods leave, in which order, by eviction or deletion."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.clock import rfc3339
from shoal.provision.lifecycle.termination.decide import (
    cordon_patch,
    eviction_backoff,
    is_drainable,
    join_names,
    largest_pods,
    next_drain_step,
    pending_attachments,
    volume_claims_of_staying_pods,
    waits_for_eviction,
)
from shoal.provision.pods import has_do_not_disrupt
from tests.provision.lifecycle.objects import NOW, Object, names, node, pod

TAINT = {"key": "team", "effect": "NoSchedule"}
DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
CRITICAL: dict[str, Any] = {"priorityClassName": "system-node-critical"}


def kept(name: str, said: str, started: float | None = None, **more: Any) -> Object:
    found = pod(name, **more)
    found["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": said}
    if started is not None:
        found["status"]["startTime"] = rfc3339(started)
    return found


def test_a_cordon_is_made_once() -> None:
    patch = cordon_patch(node(TAINT, {"key": "karpenter.sh/disrupted", "effect": "NoExecute"}))
    assert patch is not None
    assert patch["spec"]["taints"] == [TAINT, DISRUPTED]
    assert patch["metadata"]["labels"] == {"node.kubernetes.io/exclude-from-external-load-balancers": "karpenter"}
    assert cordon_patch(node(*patch["spec"]["taints"], labels=patch["metadata"]["labels"])) is None


@pytest.mark.parametrize(
    ("found", "leaves"),
    [
        (pod("plain"), True),
        (pod("daemon", owner="DaemonSet"), True),
        (pod("static", owner="Node"), False),
        (pod("tolerant", tolerations=[{"operator": "Exists"}]), False),
        (pod("going", going=NOW + 10), True),
        (pod("late", going=NOW - 60), True),
        (pod("stuck", going=NOW - 61), False),
        (kept("precious", "true"), True),
        (pod("done") | {"status": {"phase": "Succeeded"}}, False),
        (pod("failed") | {"status": {"phase": "Failed"}}, False),
    ],
)
def test_who_has_to_leave_before_the_machine_does(found: Object, leaves: bool) -> None:
    assert waits_for_eviction(found, NOW) is leaves


def sized(name: str, cpu: str, memory: str = "1Gi") -> Object:
    found = pod(name)
    found["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
    return found


def test_the_largest_leave_first() -> None:
    """Those that come after them fit what is left."""
    pods = [sized("small", "100m"), sized("wide", "1", "4Gi"), sized("large", "1500m"), sized("narrow", "1", "1Gi")]
    assert names(next_drain_step(pods, None, NOW).evict) == ["large", "wide", "narrow", "small"]


def test_small_ones_wait_for_larger_ones_of_other_nodes() -> None:
    mine = [sized("large", "1500m"), sized("middle", "1"), sized("nearly", "1100m"), sized("small", "400m")]
    assert names(largest_pods(mine, [])) == names(mine)
    assert names(largest_pods(mine, [sized("other", "1")])) == ["large", "middle", "nearly"]
    assert names(largest_pods(mine, [*mine, sized("other", "600m")])) == ["large", "nearly"], (
        "1024 is where a rank begins"
    )
    assert names(largest_pods(mine, [sized("other", "8")])) == []


def test_daemons_leave_after_those_they_serve_and_critical_pods_last() -> None:
    pods = [
        pod("critical-daemon", owner="DaemonSet", **CRITICAL),
        pod("critical", priorityClassName="system-cluster-critical"),
        pod("daemon", owner="DaemonSet"),
        pod("plain"),
        pod("static", owner="Node"),
    ]
    turns = []
    while (found := next_drain_step(pods, None, NOW)).remaining:
        turns.append(names(found.evict))
        pods = [each for each in pods if each not in found.evict]
    assert turns == [["plain"], ["daemon"], ["critical"], ["critical-daemon"]]
    waiting = next_drain_step([pod("going", going=NOW + 5), pod("daemon", owner="DaemonSet")], None, NOW)
    assert (waiting.evict, waiting.remaining) == ((), 2), "a group is waited for, not only asked"


def test_a_pod_that_is_not_to_be_disrupted_holds_the_node() -> None:
    found = next_drain_step([kept("precious", "true"), pod("plain"), pod("daemon", owner="DaemonSet")], None, NOW)
    assert (names(found.evict), names(found.blocked), found.remaining) == (["plain"], ["precious"], 3)


@pytest.mark.parametrize(
    ("said", "started", "wanted"),
    [
        ("true", None, True),
        ("false", None, False),
        ("5m", NOW - 299, True),
        ("5m", NOW - 300, False),
        ("5m", None, True),
        ("-5m", NOW, False),
        ("0s", NOW, False),
        ("soon", NOW, False),
    ],
)
def test_do_not_disrupt_is_for_good_or_for_a_while(said: str, started: float | None, wanted: bool) -> None:
    assert has_do_not_disrupt(kept("one", said, started), NOW) is wanted
    assert not has_do_not_disrupt(pod("other"), NOW)


def test_at_the_deadline_pods_are_told_in_time_for_their_own_grace() -> None:
    pods = [pod("long", grace=60), pod("short", grace=10), kept("precious", "true", grace=10), pod("usual")]
    early = next_drain_step(pods, NOW + 100, NOW)
    assert (early.delete, early.requeue_after, len(early.evict)) == ((), 40, 3)
    found = next_drain_step(pods, NOW + 45, NOW)
    assert [(each["metadata"]["name"], grace) for each, grace in found.delete] == [("long", 45)]
    assert (names(found.evict), names(found.blocked), found.requeue_after) == (["short", "usual"], ["precious"], 15)
    late = next_drain_step(pods, NOW - 1, NOW)
    assert [(each["metadata"]["name"], grace) for each, grace in late.delete] == [
        ("long", 1),
        ("short", 1),
        ("precious", 1),
        ("usual", 1),
    ]
    assert late.evict == ()


def test_critical_pods_are_told_with_all_others() -> None:
    found = next_drain_step([pod("plain", grace=0), pod("critical", grace=30, **CRITICAL)], NOW + 20, NOW)
    assert names(each for each, _ in found.delete) == ["critical"]
    assert names(found.evict) == ["plain"]


def test_a_pod_that_goes_too_late_is_told_again_and_only_once() -> None:
    assert names(
        each for each, _ in next_drain_step([pod("slow", going=NOW + 60, grace=60)], NOW + 20, NOW).delete
    ) == ["slow"]
    assert next_drain_step([pod("slow", going=NOW + 20, grace=60)], NOW + 20, NOW).delete == ()
    assert next_drain_step([pod("told", going=NOW + 1, grace=60)], NOW - 5, NOW).delete == ()


def test_a_budget_that_says_no_is_asked_less_and_less_often() -> None:
    assert [round(eviction_backoff(number), 1) for number in (1, 2, 3, 7, 8, 99)] == [0.1, 0.2, 0.4, 6.4, 10, 10]


def attachment(name: str, its_node: str, volume: str | None) -> Object:
    source: Object = {"persistentVolumeName": volume} if volume else {"inlineVolumeSpec": {}}
    return {"metadata": {"name": name}, "spec": {"nodeName": its_node, "source": source}}


def test_volumes_of_those_who_leave_are_waited_for() -> None:
    found = [
        attachment("a", "n", "v1"),
        attachment("b", "n", "v2"),
        attachment("c", "m", "v3"),
        attachment("d", "n", None),
    ]
    assert pending_attachments(found, "n", {}) == ["a", "b"]
    assert pending_attachments(found, "n", {"v2": "claim"}) == ["a"]
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "tmp", "emptyDir": {}},
    ]
    stays = pod("stays", tolerations=[{"operator": "Exists"}], volumes=volumes)
    leaves = pod("leaves", volumes=[{"name": "other", "persistentVolumeClaim": {"claimName": "other"}}])
    assert volume_claims_of_staying_pods([stays, leaves], NOW) == {("default", "data"), ("default", "stays-scratch")}
    assert is_drainable(pod("done") | {"status": {"phase": "Succeeded"}}, NOW), "its volumes are still detached first"
    assert join_names([*"abcdefg"]) == "a, b, c, d, e and 2 other(s)"
