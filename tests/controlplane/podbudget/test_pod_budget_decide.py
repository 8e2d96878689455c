"""Tests of the disruptions that a budget allows."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.controlplane.podbudget.decide import (
    needs_scales,
    pdb_status,
    seconds_until_stale,
    sync_failed_status,
    unmanaged_pods,
)

Object = dict[str, Any]

NOW, STAMP = 1_700_000_000.0, "2023-11-14T22:13:20Z"


def budget(status: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": "b", "generation": 2}, "spec": spec, "status": status or {}}


def pod(name: str, *, ready: bool = True, going: bool = False, owner: str = "o") -> Object:
    references = [{"kind": "ReplicaSet", "name": "r", "uid": owner, "controller": True}] if owner else []
    metadata: Object = {"name": name, "ownerReferences": references}
    if going:
        metadata["deletionTimestamp"] = STAMP
    return {"metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": str(ready)}]}}


def pods(healthy: int, sick: int = 0) -> list[Object]:
    return [pod(f"p{i}") for i in range(healthy)] + [pod(f"s{i}", ready=False) for i in range(sick)]


@pytest.mark.parametrize(
    ("spec", "healthy", "sick", "scale", "numbers"),
    [
        ({"minAvailable": 2}, 3, 0, None, (3, 2, 3, 1)),
        ({"minAvailable": 2}, 2, 1, None, (3, 2, 2, 0)),
        ({"minAvailable": 5}, 3, 0, None, (3, 5, 3, 0)),
        ({"minAvailable": "50%"}, 5, 0, 5, (5, 3, 5, 2)),
        ({"minAvailable": "100%"}, 5, 0, 5, (5, 5, 5, 0)),
        ({"minAvailable": "0%"}, 2, 0, 2, (2, 0, 2, 2)),
        ({"maxUnavailable": 1}, 3, 0, 3, (3, 2, 3, 1)),
        ({"maxUnavailable": 1}, 2, 1, 3, (3, 2, 2, 0)),
        ({"maxUnavailable": 1}, 2, 0, 4, (4, 3, 2, 0)),
        ({"maxUnavailable": "30%"}, 10, 0, 10, (10, 7, 10, 3)),
        ({"maxUnavailable": "25%"}, 3, 0, 3, (3, 2, 3, 1)),
        ({"maxUnavailable": 9}, 3, 0, 3, (3, 0, 3, 3)),
        ({"maxUnavailable": "100%"}, 0, 0, 0, (0, 0, 0, 0)),
        ({"minAvailable": 0}, 0, 0, None, (0, 0, 0, 0)),
        ({}, 3, 0, None, (0, 0, 3, 0)),
    ],
)
def test_the_numbers(spec: Object, healthy: int, sick: int, scale: int | None, numbers: tuple[int, ...]) -> None:
    scales = {} if scale is None else {"o": scale}
    assert needs_scales(budget(**spec)) is (scale is not None)
    status = pdb_status(budget(**spec), pods(healthy, sick), scales, NOW, STAMP).status
    names = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    assert tuple(status[name] for name in names) == numbers
    assert status["observedGeneration"] == 2


def test_scales_of_several_controllers_add_up() -> None:
    found = pdb_status(budget(maxUnavailable="50%"), pods(6), {"a": 4, "b": 2}, NOW, STAMP).status
    assert (found["expectedPods"], found["desiredHealthy"], found["disruptionsAllowed"]) == (6, 3, 3)


def test_the_condition_follows_the_numbers() -> None:
    first = pdb_status(budget(minAvailable=1), pods(2), {}, NOW, STAMP).status
    assert first["conditions"] == [
        {
            "type": "DisruptionAllowed",
            "status": "True",
            "reason": "SufficientPods",
            "message": "",
            "observedGeneration": 2,
            "lastTransitionTime": STAMP,
        }
    ]
    assert pdb_status(budget(first, minAvailable=1), pods(2), {}, NOW + 9, "later").status == first, "nothing is new"
    then = pdb_status(budget(first, minAvailable=2), pods(2), {}, NOW, "later").status["conditions"][0]
    assert (then["status"], then["reason"], then["lastTransitionTime"]) == ("False", "InsufficientPods", "later")


def test_a_pod_that_goes_or_was_granted_to_go_is_not_healthy() -> None:
    given = budget({"disruptedPods": {"p0": STAMP, "gone": STAMP, "g": STAMP}}, minAvailable=1)
    found = pdb_status(given, [*pods(3), pod("g", going=True)], {}, NOW + 30, STAMP)
    assert found.status["disruptedPods"] == {"p0": STAMP}, "only of pods that are still to go"
    assert (found.status["currentHealthy"], found.status["disruptionsAllowed"]) == (2, 1)
    assert (found.recheck_after, found.overdue) == (90.0, ())
    late = pdb_status(given, pods(3), {}, NOW + 121, STAMP)
    assert (late.status["currentHealthy"], late.status.get("disruptedPods"), late.recheck_after) == (3, None, None)
    assert [one["metadata"]["name"] for one in late.overdue] == ["p0"]


def test_what_cannot_be_known_allows_nothing() -> None:
    before = {"disruptionsAllowed": 3, "currentHealthy": 5, "observedGeneration": 1}
    found = sync_failed_status(budget(before, maxUnavailable=1), 'found no controllers for pod "p"', STAMP)
    assert (found["disruptionsAllowed"], found["currentHealthy"]) == (0, 5)
    condition = found["conditions"][0]
    assert (condition["status"], condition["reason"]) == ("False", "SyncFailed")
    assert condition["message"] == 'found no controllers for pod "p"'


def test_pods_without_controller_matter_where_scales_do() -> None:
    loose = [pod("a", owner=""), pod("b")]
    assert [one["metadata"]["name"] for one in unmanaged_pods(budget(maxUnavailable=1), loose)] == ["a"]
    assert unmanaged_pods(budget(minAvailable=1), loose) == []


@pytest.mark.parametrize(
    ("condition", "more", "left"),
    [
        ({"status": "True", "reason": "EvictionByEvictionAPI"}, {}, 60.0),
        ({"status": "False"}, {}, None),
        ({"status": "True", "reason": "TerminationByKubelet"}, {}, None),
        ({"status": "True"}, {"phase": "Failed"}, None),
    ],
)
def test_notes_of_disruptions_that_did_not_come(condition: Object, more: Object, left: float | None) -> None:
    told = {"type": "DisruptionTarget", "lastTransitionTime": STAMP, **condition}
    given = {"metadata": {"name": "p"}, "status": {"conditions": [told], **more}}
    assert seconds_until_stale(given, NOW + 60) == left
    assert seconds_until_stale({**given, "metadata": {"name": "p", "deletionTimestamp": STAMP}}, NOW) is None
