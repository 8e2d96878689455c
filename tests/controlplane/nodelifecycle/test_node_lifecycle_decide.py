"""Tests of taints by condition and of pod eviction."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.controlplane.nodelifecycle.decide import PodAction, desired_taints, eviction_time, pod_gc, taint_eviction
from shoal.objects.conditions import get_condition
from tests.controlplane.kubelet.samples import NOW, STAMP, ago, node, pod, ready_node

Object = dict[str, Any]
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
OTHER = {"key": "mine", "effect": "NoExecute"}


def tainted_node(status: str, *taints: Object, unschedulable: bool = False) -> Object:
    found = ready_node(status) if status else node()
    found["spec"] = {"taints": list(taints), "unschedulable": unschedulable}
    return found


def pairs(taints: list[Object] | None) -> list[tuple[str, str]] | None:
    return None if taints is None else [(each["key"].rpartition("/")[2], each["effect"]) for each in taints]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (tainted_node("True"), None),
        (tainted_node("True", OTHER), None),
        (tainted_node("False"), [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")]),
        (tainted_node("Unknown"), [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]),
        (tainted_node("True", {"key": NOT_READY, "effect": "NoSchedule"}, OTHER), [("mine", "NoExecute")]),
        (
            tainted_node("Unknown", {"key": NOT_READY, "effect": "NoExecute"}, OTHER),
            [("mine", "NoExecute"), ("unreachable", "NoSchedule"), ("unreachable", "NoExecute")],
        ),
        (tainted_node("True", unschedulable=True), [("unschedulable", "NoSchedule")]),
        (tainted_node("True", {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}), []),
        (tainted_node("", {"key": NOT_READY, "effect": "NoSchedule"}), None),
    ],
)
def test_taints_follow_conditions(given: Object, wanted: list[tuple[str, str]] | None) -> None:
    assert pairs(desired_taints(given, STAMP)) == wanted


def test_new_taints_say_since_when_and_old_ones_keep_that() -> None:
    made = desired_taints(tainted_node("Unknown"), STAMP)
    assert made is not None
    assert all(each["timeAdded"] == STAMP for each in made)
    assert desired_taints(tainted_node("Unknown", *made), ago(-60)) is None


def tolerant(**seconds: int | None) -> Object:
    keys = {"not_ready": NOT_READY, "unreachable": UNREACHABLE, "mine": "mine"}
    tolerations = [
        {"key": keys[name], "operator": "Exists", "effect": "NoExecute"}
        | ({} if given is None else {"tolerationSeconds": given})
        for name, given in seconds.items()
    ]
    return pod(tolerations=tolerations)


LOST = {"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": STAMP}


@pytest.mark.parametrize(
    ("given", "taints", "at"),
    [
        (pod(), [], None),
        (pod(), [LOST], 0.0),
        (tolerant(unreachable=300), [LOST], NOW + 300),
        (tolerant(unreachable=0), [LOST], NOW),
        (tolerant(unreachable=None), [LOST], None),
        (tolerant(unreachable=300), [LOST, OTHER], 0.0),
        (tolerant(unreachable=300, mine=20), [LOST, OTHER], NOW + 70),
        (tolerant(not_ready=300), [LOST], 0.0),
    ],
)
def test_when_patience_ends(given: Object, taints: list[Object], at: float | None) -> None:
    assert eviction_time(given, taints, noticed_at=NOW + 50) == at


def test_patience_begins_when_the_pod_comes() -> None:
    old = {**LOST, "timeAdded": ago(4000)}
    assert eviction_time(tolerant(unreachable=300), [old], NOW) == NOW + 300


def test_a_pod_on_a_lost_node_is_unready_then_goes() -> None:
    given = tolerant(unreachable=300)
    given["status"] |= {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    lost = tainted_node("Unknown", LOST)
    fate = taint_eviction(given, lost, NOW, NOW + 1, STAMP)
    assert (fate.delete, fate.requeue_at) == (False, NOW + 300)
    assert get_condition({"status": fate.status}, "Ready") == {
        "type": "Ready",
        "status": "False",
        "lastTransitionTime": STAMP,
    }
    given["status"] = fate.status
    assert taint_eviction(given, lost, NOW, NOW + 2, STAMP) == PodAction(requeue_at=NOW + 300)
    evicted = taint_eviction(given, lost, NOW, NOW + 300, STAMP)
    assert (evicted.delete, evicted.force, evicted.confirm_node_missing) == (True, False, False)
    found = get_condition({"status": evicted.status}, "DisruptionTarget")
    assert found is not None
    assert (found["reason"], found["message"]) == (
        "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint",
    )  # fmt: skip
    given["metadata"]["deletionTimestamp"] = STAMP
    assert taint_eviction(given, lost, NOW, NOW + 300, STAMP) == PodAction(), "it goes already"


def test_a_pod_of_a_node_that_is_gone_goes() -> None:
    assert pod_gc(pod(), node_deleted=False, now=NOW + 39, now_rfc3339=STAMP) == PodAction(requeue_at=NOW + 40)
    for fate in (pod_gc(pod(), True, NOW, STAMP), pod_gc(pod(), False, NOW + 40, STAMP)):
        assert (fate.delete, fate.force, fate.confirm_node_missing) == (True, True, True)
        assert fate.status is not None
        assert fate.status["phase"] == "Failed"
        assert fate.status["conditions"][0]["reason"] == "DeletionByPodGC"
    done = pod()
    done["status"]["phase"] = "Succeeded"
    assert pod_gc(done, True, NOW, STAMP) == PodAction(delete=True, force=True, confirm_node_missing=True)
    held = pod()
    held["metadata"] |= {"deletionTimestamp": STAMP, "deletionGracePeriodSeconds": 0, "finalizers": ["x"]}
    assert pod_gc(held, True, NOW, STAMP) == PodAction()
