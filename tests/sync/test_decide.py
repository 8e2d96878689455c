"""Decisions of the syncer, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.workload import workloadcluster
from shoal.sync.syncer.decide import SyncPlan, SyncTarget, covers, downstream_object, fingerprint, plan_sync
from shoal.sync.syncer.transform import SYNCED_DIGEST, SYNCED_FROM

Object = dict[str, Any]

TARGET = SyncTarget("east", "hub-1", "apps/v1", "Deployment", has_status=True)
FINALIZER = "workloads.kcp.dev/syncer-east"


def test_names_of_workload_clusters() -> None:
    assert workloadcluster.workload_cluster_name("default", "a") == "a"
    assert workloadcluster.workload_cluster_name("team", "a") == "team.a"
    assert workloadcluster.candidate_managed_clusters("team.a") == [("default", "team.a"), ("team", "a")]
    assert len(workloadcluster.managed_cluster_label_value("team", "n" * 60)) == 63
    finalizer = workloadcluster.syncer_finalizer("c" * 63)
    assert len(finalizer.partition("/")[2]) == 63
    assert finalizer != workloadcluster.syncer_finalizer("c" * 62 + "d")


def on_hub(cluster: str = "east", held: bool = True, **more: Any) -> Object:
    metadata = {
        "name": "web",
        "namespace": "default",
        "uid": "h-1",
        "generation": 7,
        "resourceVersion": "5",
        "creationTimestamp": "then",
        "ownerReferences": [{"uid": "o"}],
        "managedFields": [{}],
        "labels": {workloadcluster.CLUSTER_LABEL: cluster, "app": "web"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "kept"},
        **({"finalizers": [FINALIZER]} if held else {}),
        **more.pop("metadata", {}),
    }
    return {"metadata": metadata, "spec": {"replicas": 2}, "status": {"replicas": 1}, **more}


def copied(
    obj: Object | None = None, status: Object | None = None, spec: Object | None = None, **metadata: Any
) -> Object:
    made = downstream_object(TARGET, obj or on_hub())
    metadata = {**made["metadata"], "uid": "c-1", "generation": 3, **metadata}
    return {**made, "spec": spec or {**made["spec"], "more": 1}, "metadata": metadata, "status": status or {}}


def test_a_copy_is_what_the_user_wrote() -> None:
    made = downstream_object(TARGET, on_hub())
    digest = made["metadata"]["annotations"].pop(SYNCED_DIGEST)
    assert made == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "labels": {workloadcluster.CLUSTER_LABEL: "east", "app": "web"},
            "annotations": {"note": "kept", SYNCED_FROM: "hub-1/h-1"},
        },
        "spec": {"replicas": 2},
    }
    other = downstream_object(TARGET, on_hub(spec={"replicas": 3}))
    assert other["metadata"]["annotations"][SYNCED_DIGEST] != digest


FORCED = {"annotations": {workloadcluster.FORCE_ANNOTATION: "true"}}
GOING = {"deletionTimestamp": "now"}
THEIRS = {"metadata": {"name": "web", "uid": "x-1"}, "spec": {}}
OTHER_HUB = {"metadata": {"name": "web", "uid": "x-1", "annotations": {SYNCED_FROM: "hub-2/h-1"}}, "spec": {}}
MADE = downstream_object(TARGET, on_hub())


@pytest.mark.parametrize(
    ("obj", "copy", "wanted"),
    [
        (on_hub(held=False), None, SyncPlan(add_finalizer=True, apply=MADE)),
        (on_hub(), None, SyncPlan(apply=MADE)),
        (on_hub(), copied(), SyncPlan()),
        (on_hub(), copied(on_hub(spec={"replicas": 9})), SyncPlan(apply=MADE)),
        (on_hub(), copied(spec={"replicas": 9}), SyncPlan(apply=MADE)),
        (on_hub(), copied(labels={}), SyncPlan(apply=MADE)),
        (on_hub(), copied(deletionTimestamp="now"), SyncPlan(wait=True)),
        # Of an earlier object of that name on this hub: taken over.
        (on_hub(), copied(on_hub(metadata={"uid": "h-0"})), SyncPlan(apply=MADE)),
        (on_hub(metadata=GOING), copied(), SyncPlan(delete="c-1")),
        (on_hub(metadata=GOING), copied(deletionTimestamp="now"), SyncPlan(wait=True)),
        (on_hub(metadata=GOING), None, SyncPlan(remove_finalizer=True)),
        (on_hub(metadata=GOING), THEIRS, SyncPlan(remove_finalizer=True)),
        (on_hub(metadata=GOING, held=False), None, SyncPlan()),
        (on_hub("west"), copied(), SyncPlan(delete="c-1")),
        (on_hub("west"), None, SyncPlan(remove_finalizer=True)),
        (on_hub("west", held=False), OTHER_HUB, SyncPlan()),
        # Nothing is known to be wanted of it: it stays.
        (None, copied(), SyncPlan(orphan=True)),
        (None, OTHER_HUB, SyncPlan()),
        (None, None, SyncPlan()),
    ],
)
def test_plans(obj: Object | None, copy: Object | None, wanted: SyncPlan) -> None:
    assert plan_sync(TARGET, obj, copy) == wanted


@pytest.mark.parametrize("copy", [THEIRS, OTHER_HUB])
def test_what_is_not_ours_is_taken_over_by_force_only(copy: Object) -> None:
    refused = plan_sync(TARGET, on_hub(held=False), copy)
    assert refused.problem.startswith("east has an object with this name that was not synced from this hub")
    assert refused == SyncPlan(problem=refused.problem)
    assert plan_sync(TARGET, on_hub(metadata=FORCED), copy).apply is not None


def test_a_copy_that_an_apply_leaves_different_is_not_applied_again() -> None:
    stubborn = copied(spec={"replicas": 9})
    assert plan_sync(TARGET, on_hub(), stubborn, settled_fingerprint=fingerprint(stubborn)) == SyncPlan()
    changed = copied(spec={"replicas": 8})
    assert plan_sync(TARGET, on_hub(), changed, settled_fingerprint=fingerprint(stubborn)).apply == MADE


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({}, None),
        ({"replicas": 1}, None),
        ({"replicas": 2}, {"replicas": 2}),
        ({"replicas": 2, "observedGeneration": 3}, {"replicas": 2, "observedGeneration": 7}),
        # Not of the state that was last applied: the hub's number is not reached.
        ({"replicas": 2, "observedGeneration": 2}, {"replicas": 2}),
    ],
)
def test_status_comes_up_in_the_hubs_numbers(status: Object, wanted: Object | None) -> None:
    assert plan_sync(TARGET, on_hub(), copied(status=status)).status == wanted


def test_covers() -> None:
    assert covers({"a": {"b": 1}, "l": [{"x": 1}]}, {"a": {"b": 1, "c": 2}, "l": [{"x": 1, "y": 2}], "z": 0})
    assert covers({"a": {}, "b": None, "c": []}, {})
    assert not covers({"l": [1]}, {"l": [1, 2]})
    assert not covers({"a": 1}, {})
    assert not covers({"a": {"b": 1}}, {"a": "text"})
