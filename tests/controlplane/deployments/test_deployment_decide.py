"""Tests of the Deployment decision, one rollout step at a time, from tables."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.controlplane.deployments.decide import DeploymentDecision, collision_status, create_failed_status, decide
from shoal.kinds.apps.deployment import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    REVISION,
    REVISION_HISTORY,
    max_surge,
    max_unavailable,
    replica_set_name,
    template_hash,
)
from tests.controlplane.deployments.samples import NOW, STAMP, Object, deployment, replica_set, rolling, template


def sizes(decision: DeploymentDecision) -> dict[str, int]:
    return {one["metadata"]["name"]: one["spec"]["replicas"] for one in decision.update}


def condition(status: Object, kind: str) -> tuple[str, str, str]:
    found = next(c for c in status["conditions"] if c["type"] == kind)
    return found["status"], found["reason"], found["message"]


def with_status(obj: Object, *conditions: Object, **status: Any) -> Object:
    return {**obj, "status": {**status, **({"conditions": list(conditions)} if conditions else {})}}


def progressing(reason: str, status: str = "True", at: str = STAMP) -> Object:
    times = {"lastUpdateTime": at, "lastTransitionTime": at}
    return {"type": "Progressing", "status": status, "reason": reason, "message": "", **times}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "wanted"),
    [
        (10, "25%", "25%", (3, 2)),
        (1, "25%", "25%", (1, 0)),
        (4, 1, 1, (1, 1)),
        (10, "0%", "0%", (0, 1)),
        (0, "25%", "25%", (0, 0)),
        (3, "34%", "33%", (2, 0)),
        (2, 0, 5, (0, 2)),
    ],
)
def test_the_bounds_of_a_rollout(replicas: int, surge: object, unavailable: object, wanted: tuple[int, int]) -> None:
    obj = deployment(replicas, strategy=rolling(surge, unavailable))
    assert (max_surge(obj), max_unavailable(obj)) == wanted


def test_the_first_replica_set() -> None:
    decision = decide(deployment(), [], NOW, STAMP)
    new = decision.create
    assert new is not None
    hashed = template_hash(template(), None)
    assert new["metadata"]["name"] == f"web-{hashed}"
    assert new["metadata"]["labels"] == {"app": "web", "pod-template-hash": hashed}
    assert new["spec"]["selector"] == {"matchLabels": {"app": "web", "pod-template-hash": hashed}}
    assert new["spec"]["template"]["metadata"]["labels"] == {"app": "web", "pod-template-hash": hashed}
    assert new["spec"]["replicas"] == 10
    assert new["metadata"]["annotations"] == {REVISION: "1", DESIRED_REPLICAS: "10", MAX_REPLICAS: "13"}
    assert new["metadata"]["ownerReferences"][0]["controller"] is True
    assert decision.annotations == {REVISION: "1"}
    assert condition(decision.status, "Progressing") == (
        "True",
        "NewReplicaSetCreated",
        f'Created new replica set "{new["metadata"]["name"]}"',
    )
    assert condition(decision.status, "Available")[:2] == ("False", "MinimumReplicasUnavailable")
    assert decision.status["unavailableReplicas"] == 10
    assert decision.requeue_after == 601


def test_hashes_and_names() -> None:
    one = template_hash(template(), None)
    assert one == template_hash({"spec": template()["spec"], "metadata": template()["metadata"]}, None)
    assert len({one, template_hash(template("web:2"), None), template_hash(template(), 1)}) == 3
    assert set(one) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert replica_set_name("d" * 253, one) == f"{'d' * (252 - len(one))}-{one}"


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        # Old and new with their available pods; 10 replicas, at most 13, at least 8 available.
        ((10, 10), (0, 0), {"new": 3}),
        ((10, 10), (3, 0), {"old": 8}),
        ((8, 8), (3, 0), {"new": 5}),
        ((8, 8), (5, 0), {}),
        ((8, 8), (5, 2), {"old": 6}),
        ((6, 6), (5, 5), {"new": 7}),
        ((0, 0), (10, 10), {}),
        # Broken pods of the old one are no loss.
        ((10, 4), (3, 0), {"old": 8}),
        ((8, 4), (3, 3), {"new": 5}),
    ],
)
def test_a_rolling_update_step_by_step(old: tuple[int, int], new: tuple[int, int], wanted: dict[str, int]) -> None:
    sets = [replica_set("old", *old, image="web:0", age=5), replica_set("new", *new, revision=2)]
    assert sizes(decide(deployment(), sets, NOW, STAMP)) == wanted


def test_a_new_template_starts_with_the_surge() -> None:
    decision = decide(deployment(), [replica_set("old", 10, image="web:0")], NOW, STAMP)
    assert decision.create is not None
    assert decision.create["spec"]["replicas"] == 3
    assert decision.create["metadata"]["annotations"][REVISION] == "2"
    assert sizes(decision) == {"old": 8}


def test_rolling_over_starts_with_nothing() -> None:
    sets = [replica_set("a", 8, image="web:0", age=5), replica_set("b", 5, 0, image="web:00", revision=2, age=1)]
    decision = decide(deployment(), sets, NOW, STAMP)
    assert decision.create is not None
    assert decision.create["spec"]["replicas"] == 0
    assert sizes(decision) == {"b": 0}


def test_rollback_gives_the_old_set_the_newest_revision() -> None:
    sets = [replica_set("first", 0, age=5), replica_set("second", 10, image="web:2", revision=2)]
    decision = decide(deployment(), sets, NOW, STAMP)
    assert decision.create is None
    first = next(one for one in decision.update if one["metadata"]["name"] == "first")
    assert first["metadata"]["annotations"][REVISION] == "3"
    assert first["metadata"]["annotations"][REVISION_HISTORY] == "1"
    assert first["spec"]["replicas"] == 3
    assert decision.annotations == {REVISION: "3"}


def test_recreate_waits_until_the_old_pods_are_gone() -> None:
    obj = deployment(strategy={"type": "Recreate"})
    old = replica_set("old", 10, image="web:0")
    first = decide(obj, [old], NOW, STAMP)
    assert (first.create, sizes(first)) == (None, {"old": 0})
    for status in ({"replicas": 2}, {"replicas": 0, "terminatingReplicas": 1}):
        waiting = decide(obj, [replica_set("old", 0, image="web:0", **status)], NOW, STAMP)
        assert (waiting.create, sizes(waiting)) == (None, {})
    last = decide(obj, [replica_set("old", 0, image="web:0")], NOW, STAMP)
    assert last.create is not None
    assert last.create["spec"]["replicas"] == 10


@pytest.mark.parametrize(
    ("replicas", "sets", "wanted"),
    [
        # One that has pods takes it all.
        (20, {"old": 0, "new": 10}, {"new": 20}),
        (0, {"old": 0, "new": 10}, {"new": 0}),
        # In the middle of a rollout each in proportion; the largest takes what rounding left.
        (20, {"old": 8, "new": 5}, {"old": 15, "new": 10}),
        (5, {"old": 8, "new": 5}, {"old": 4, "new": 3}),
        (0, {"old": 8, "new": 5}, {"old": 0, "new": 0}),
    ],
)
def test_scaling_in_proportion(replicas: int, sets: dict[str, int], wanted: dict[str, int]) -> None:
    found = [
        replica_set("old", sets["old"], image="web:0", age=5),
        replica_set("new", sets["new"], sets["new"] // 2, revision=2),
    ]
    decision = decide(deployment(replicas), found, NOW, STAMP)
    assert sizes(decision) == wanted
    for one in decision.update:
        assert one["metadata"]["annotations"][DESIRED_REPLICAS] == str(replicas)
    again = [next((u for u in decision.update if u["metadata"]["name"] == f["metadata"]["name"]), f) for f in found]
    assert sum(one["spec"]["replicas"] for one in again) in (replicas, replicas + max_surge(deployment(replicas)))


def test_a_saturated_new_set_ends_the_others() -> None:
    sets = [replica_set("old", 3, image="web:0", age=5, desired=3), replica_set("new", 10, revision=2)]
    assert sizes(decide(deployment(), sets, NOW, STAMP)) == {"old": 0}


def test_a_pause_stops_the_rollout_and_not_the_scaling() -> None:
    obj = deployment(image="web:2", paused=True)
    decision = decide(obj, [replica_set("old", 10)], NOW, STAMP)
    assert (decision.create, sizes(decision)) == (None, {})
    assert condition(decision.status, "Progressing") == ("Unknown", "DeploymentPaused", "Deployment is paused")
    assert decision.requeue_after is None
    scaled = decide(deployment(12, image="web:2", paused=True), [replica_set("old", 10)], NOW, STAMP)
    assert sizes(scaled) == {"old": 12}
    half = {"replicas": 10, "updatedReplicas": 10, "readyReplicas": 5, "availableReplicas": 5}
    paused = with_status(deployment(), *decision.status["conditions"], **half)
    resumed = decide(paused, [replica_set("old", 10, 5)], NOW, STAMP)
    assert condition(resumed.status, "Progressing") == ("Unknown", "DeploymentResumed", "Deployment is resumed")
    assert resumed.requeue_after == 601


def test_old_sets_beyond_the_history_go_when_all_is_done() -> None:
    obj = with_status(
        deployment(revisionHistoryLimit=1),
        observedGeneration=1,
        replicas=10,
        updatedReplicas=10,
        availableReplicas=10,
    )
    old = [replica_set(name, 0, image=name, revision=number) for number, name in enumerate("abc", 1)]
    old[1]["status"]["replicas"] = 1  # it has a pod left
    decision = decide(obj, [*old, replica_set("new", 10, revision=4)], NOW, STAMP)
    assert [one["metadata"]["name"] for one in decision.delete] == ["a"]
    busy = decide(with_status(obj, replicas=9), [*old, replica_set("new", 10, revision=4)], NOW, STAMP)
    assert busy.delete == ()


def test_a_finished_rollout_says_so_and_is_left_alone() -> None:
    sets = [replica_set("new", 10)]
    first = decide(with_status(deployment(), progressing("NewReplicaSetCreated")), sets, NOW, STAMP)
    assert condition(first.status, "Progressing") == (
        "True",
        "NewReplicaSetAvailable",
        'ReplicaSet "new" has successfully progressed.',
    )
    assert condition(first.status, "Available") == (
        "True",
        "MinimumReplicasAvailable",
        "Deployment has minimum availability.",
    )
    counts = {k: v for k, v in first.status.items() if k != "conditions"}
    assert counts == {
        "observedGeneration": 1,
        "replicas": 10,
        "updatedReplicas": 10,
        "readyReplicas": 10,
        "availableReplicas": 10,
        "terminatingReplicas": 0,
    }
    again = decide({**deployment(), "status": first.status}, sets, NOW + 5, "later")
    assert (again.status, again.update, again.requeue_after) == (first.status, (), None)


def test_without_progress_the_deadline_passes() -> None:
    obj = with_status(deployment(progressDeadlineSeconds=10), progressing("NewReplicaSetCreated"))
    sets = [replica_set("new", 10, 0)]
    counts = {"replicas": 10, "updatedReplicas": 10}
    obj["status"] |= counts
    early = decide(obj, sets, NOW + 9, "early")
    assert condition(early.status, "Progressing")[1] == "NewReplicaSetCreated"
    assert early.requeue_after == 2
    late = decide(obj, sets, NOW + 11, "late")
    assert condition(late.status, "Progressing") == (
        "False",
        "ProgressDeadlineExceeded",
        'ReplicaSet "new" has timed out progressing.',
    )
    assert late.requeue_after is None
    better = decide({**obj, "status": late.status}, [replica_set("new", 10, 5)], NOW + 12, "better")
    assert condition(better.status, "Progressing")[:2] == ("True", "ReplicaSetUpdated")
    without = decide({**obj, "spec": {**obj["spec"], "progressDeadlineSeconds": 2**31 - 1}}, sets, NOW, STAMP)
    assert [c["type"] for c in without.status["conditions"]] == ["Available"]


def test_a_failure_of_a_replica_set_is_shown() -> None:
    failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}
    sets = [replica_set("new", 10, 0, conditions=[{**failed, "lastTransitionTime": STAMP}])]
    decision = decide(deployment(), sets, NOW, "now")
    assert condition(decision.status, "ReplicaFailure") == ("True", "FailedCreate", "quota")
    cured = decide({**deployment(), "status": decision.status}, [replica_set("new", 10)], NOW, "now")
    assert "ReplicaFailure" not in {c["type"] for c in cured.status["conditions"]}


def test_annotations_and_min_ready_seconds_reach_the_new_set() -> None:
    obj = deployment(minReadySeconds=7)
    obj["metadata"]["annotations"] = {"team": "a", REVISION: "1", "shoal.dev/cluster": "x"}
    decision = decide(obj, [replica_set("new", 10)], NOW, STAMP)
    (new,) = decision.update
    assert new["spec"]["minReadySeconds"] == 7
    assert new["metadata"]["annotations"]["team"] == "a"
    assert "shoal.dev/cluster" not in new["metadata"]["annotations"]


def test_a_deployment_that_is_being_deleted_only_counts() -> None:
    obj = deployment(12)
    obj["metadata"]["deletionTimestamp"] = STAMP
    decision = decide(obj, [replica_set("new", 10)], NOW, STAMP)
    assert (decision.create, decision.update, decision.delete) == (None, (), ())
    assert decision.status["replicas"] == 10


def test_what_a_failed_creation_leaves_in_the_status() -> None:
    assert collision_status(deployment())["collisionCount"] == 1
    assert collision_status(with_status(deployment(), collisionCount=1))["collisionCount"] == 2
    said = create_failed_status(deployment(), "web-x", RuntimeError("no"), STAMP)
    assert condition(said, "Progressing") == (
        "False",
        "ReplicaSetCreateError",
        'Failed to create new replica set "web-x": no',
    )
