"""Tests of taints by condition and of pod eviction."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.controlplane.nodes.lifecycle.decide import Fate, eviction_time, orphan_fate, pod_fate, wanted_taints
from shoal.objects.conditions import get_condition
from tests.controlplane.nodes.samples import NOW, STAMP, ago, node, pod, ready_node

Object = dict[str, Any]
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
OTHER = {"key": "mine", "effect": "NoExecute"}


def tainted(status: str, *taints: Object, unschedulable: bool = False) -> Object:
    found = ready_node(status) if status else node()
    found["spec"] = {"taints": list(taints), "unschedulable": unschedulable}
    return found


def pairs(taints: list[Object] | None) -> list[tuple[str, str]] | None:
    return None if taints is None else [(each["key"].rpartition("/")[2], each["effect"]) for each in taints]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (tainted("True"), None),
        (tainted("True", OTHER), None),
        (tainted("False"), [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")]),
        (tainted("Unknown"), [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]),
        (tainted("True", {"key": NOT_READY, "effect": "NoSchedule"}, OTHER), [("mine", "NoExecute")]),
        (
            tainted("Unknown", {"key": NOT_READY, "effect": "NoExecute"}, OTHER),
            [("mine", "NoExecute"), ("unreachable", "NoSchedule"), ("unreachable", "NoExecute")],
        ),
        (tainted("True", unschedulable=True), [("unschedulable", "NoSchedule")]),
        (tainted("True", {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}), []),
        (tainted("", {"key": NOT_READY, "effect": "NoSchedule"}), None),
    ],
)
def test_taints_follow_conditions(given: Object, wanted: list[tuple[str, str]] | None) -> None:
    assert pairs(wanted_taints(given, STAMP)) == wanted


def test_new_taints_say_since_when_and_old_ones_keep_that() -> None:
    made = wanted_taints(tainted("Unknown"), STAMP)
    assert made is not None
    assert all(each["timeAdded"] == STAMP for each in made)
    assert wanted_taints(tainted("Unknown", *made), ago(-60)) is None


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
    assert eviction_time(given, taints, noticed=NOW + 50) == at


def test_patience_begins_when_the_pod_comes() -> None:
    old = {**LOST, "timeAdded": ago(4000)}
    assert eviction_time(tolerant(unreachable=300), [old], NOW) == NOW + 300


def test_a_pod_on_a_lost_node_is_unready_then_goes() -> None:
    given = tolerant(unreachable=300)
    given["status"] |= {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    lost = tainted("Unknown", LOST)
    fate = pod_fate(given, lost, NOW, NOW + 1, STAMP)
    assert (fate.delete, fate.at) == (False, NOW + 300)
    assert get_condition({"status": fate.status}, "Ready") == {
        "type": "Ready",
        "status": "False",
        "lastTransitionTime": STAMP,
    }
    given["status"] = fate.status
    assert pod_fate(given, lost, NOW, NOW + 2, STAMP) == Fate(at=NOW + 300)
    evicted = pod_fate(given, lost, NOW, NOW + 300, STAMP)
    assert (evicted.delete, evicted.now, evicted.check) == (True, False, False)
    found = get_condition({"status": evicted.status}, "DisruptionTarget")
    assert found is not None
    assert (found["reason"], found["message"]) == (
        "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint",
    )  # fmt: skip
    given["metadata"]["deletionTimestamp"] = STAMP
    assert pod_fate(given, lost, NOW, NOW + 300, STAMP) == Fate(), "it goes already"


def test_a_pod_of_a_node_that_is_gone_goes() -> None:
    assert orphan_fate(pod(), seen_going=False, now=NOW + 39, stamp=STAMP) == Fate(at=NOW + 40)
    for fate in (orphan_fate(pod(), True, NOW, STAMP), orphan_fate(pod(), False, NOW + 40, STAMP)):
        assert (fate.delete, fate.now, fate.check) == (True, True, True)
        assert fate.status is not None
        assert fate.status["phase"] == "Failed"
        assert fate.status["conditions"][0]["reason"] == "DeletionByPodGC"
    done = pod()
    done["status"]["phase"] = "Succeeded"
    assert orphan_fate(done, True, NOW, STAMP) == Fate(delete=True, now=True, check=True)
    held = pod()
    held["metadata"] |= {"deletionTimestamp": STAMP, "deletionGracePeriodSeconds": 0, "finalizers": ["x"]}
    assert orphan_fate(held, True, NOW, STAMP) == Fate()
