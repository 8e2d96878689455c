"""Which step of a rotation is next, what the status says, and which changes of `spec.keys` are refused."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.controlplane.keyrotation.decide import KeyRotationDecision, KeyRotationSnapshot, decide
from shoal.kinds.fleet.infrav1 import validate_managed_cluster
from shoal.kinds.fleet.keys import validate_keys
from shoal.objects.conditions import get_condition

Object = dict[str, Any]

NOW, LATER = "2026-11-18T12:00:00Z", "2026-11-18T13:00:00Z"


def cluster(generation: int, trust_former: bool = True, status: Object | None = None) -> Object:
    spec = {"keys": {"generation": generation, "trustFormer": trust_former}}
    return {"metadata": {"name": "team"}, "spec": spec, "status": status or {}}


def status_after(obj: Object, generation: int, now: str = NOW, *, has_former: bool = False) -> Object:
    decision = decide(KeyRotationSnapshot(obj, generation, has_former), now)
    assert decision.status is not None
    assert decide(KeyRotationSnapshot(decision.status, generation, has_former), LATER) == KeyRotationDecision()
    return decision.status


def test_a_cluster_that_asks_for_nothing_is_left_alone() -> None:
    untouched = {"metadata": {"name": "team"}, "spec": {}, "status": {}}
    assert decide(KeyRotationSnapshot(untouched, 1, False), NOW) == KeyRotationDecision()
    deleted = cluster(2)
    deleted["metadata"]["deletionTimestamp"] = NOW
    assert decide(KeyRotationSnapshot(deleted, 1, False), NOW) == KeyRotationDecision()


def test_a_rotation_begins_and_is_finished() -> None:
    assert decide(KeyRotationSnapshot(cluster(2), 1, False), NOW) == KeyRotationDecision(rotate_to=2)
    begun = status_after(cluster(2), 2, has_former=True)
    assert begun["status"]["keys"] == {"generation": 2, "trustFormer": True}
    assert get_condition(begun, "KeysRotated") == {
        "type": "KeysRotated",
        "status": "False",
        "reason": "FormerKeysTrusted",
        "message": "keys of generation 2 are in force, and the former keys are still trusted",
        "lastTransitionTime": NOW,
    }
    finishing = cluster(2, trust_former=False, status=begun["status"])
    assert decide(KeyRotationSnapshot(finishing, 2, True), NOW) == KeyRotationDecision(drop_former=True)
    finished = status_after(finishing, 2)
    assert finished["status"]["keys"] == {"generation": 2, "trustFormer": False}
    assert get_condition(finished, "KeysRotated") == {
        "type": "KeysRotated",
        "status": "True",
        "reason": "FormerKeysRefused",
        "message": "only keys of generation 2 are trusted",
        "lastTransitionTime": NOW,
    }
    assert decide(KeyRotationSnapshot(cluster(3, status=finished["status"]), 2, False), NOW).rotate_to == 3


def test_keys_that_do_not_exist_get_the_generation_when_they_are_created() -> None:
    assert status_after(cluster(4), 0)["status"]["keys"] == {"generation": 4, "trustFormer": True}


def test_a_cluster_of_the_first_generation_has_no_condition() -> None:
    assert status_after(cluster(1), 1)["status"] == {"keys": {"generation": 1, "trustFormer": True}}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (cluster(1), cluster(2), ""),
        (cluster(2), cluster(2, False), ""),
        (cluster(2, False), cluster(3), ""),
        (cluster(2), cluster(3, False), ""),
        (cluster(2), cluster(1), "it cannot be lowered from 2 to 1"),
        (cluster(2), {"spec": {}}, "it cannot be lowered from 2 to 1"),
        (cluster(2), cluster(3), "finish the rotation to generation 2 first: set trustFormer to false"),
        (cluster(2, False), cluster(2), "the former keys are destroyed: raise generation as well"),
    ],
)
def test_changes_that_cannot_be_made_are_refused(before: Object, after: Object, message: str) -> None:
    assert [cause.message.partition("Forbidden: ")[2] for cause in validate_keys(after, before)] == (
        [message] if message else []
    )
    assert validate_keys(after, None) == []
    copy = {**after, "metadata": {"name": "east", "annotations": {"shoal.dev/hub-uid": "u"}}}
    assert validate_managed_cluster(copy, before) == [], "a worker follows its hub"
