"""Decisions of the syncer, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds import workload
from shoal.sync.syncer.decide import Plan, Target, copy_of, covers, fingerprint, plan
from shoal.sync.syncer.travelling import SYNCED_DIGEST, SYNCED_FROM

Object = dict[str, Any]

TARGET = Target("east", "hub-1", "apps/v1", "Deployment", status=True)
FINALIZER = "workloads.kcp.dev/syncer-east"


def test_names_of_workload_clusters() -> None:
    assert workload.name_for("default", "a") == "a"
    assert workload.name_for("team", "a") == "team.a"
    assert workload.managed_by_name("team.a") == [("default", "team.a"), ("team", "a")]
    assert len(workload.managed_value("team", "n" * 60)) == 63
    finalizer = workload.finalizer_of("c" * 63)
    assert len(finalizer.partition("/")[2]) == 63
    assert finalizer != workload.finalizer_of("c" * 62 + "d")


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
        "labels": {workload.ASSIGNED: cluster, "app": "web"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "kept"},
        **({"finalizers": [FINALIZER]} if held else {}),
        **more.pop("metadata", {}),
    }
    return {"metadata": metadata, "spec": {"replicas": 2}, "status": {"replicas": 1}, **more}


def copied(
    obj: Object | None = None, status: Object | None = None, spec: Object | None = None, **metadata: Any
) -> Object:
    made = copy_of(TARGET, obj or on_hub())
    metadata = {**made["metadata"], "uid": "c-1", "generation": 3, **metadata}
    return {**made, "spec": spec or {**made["spec"], "more": 1}, "metadata": metadata, "status": status or {}}


def test_a_copy_is_what_the_user_wrote() -> None:
    made = copy_of(TARGET, on_hub())
    digest = made["metadata"]["annotations"].pop(SYNCED_DIGEST)
    assert made == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "labels": {workload.ASSIGNED: "east", "app": "web"},
            "annotations": {"note": "kept", SYNCED_FROM: "hub-1/h-1"},
        },
        "spec": {"replicas": 2},
    }
    other = copy_of(TARGET, on_hub(spec={"replicas": 3}))
    assert other["metadata"]["annotations"][SYNCED_DIGEST] != digest


FORCED = {"annotations": {workload.FORCE: "true"}}
GOING = {"deletionTimestamp": "now"}
THEIRS = {"metadata": {"name": "web", "uid": "x-1"}, "spec": {}}
OTHER_HUB = {"metadata": {"name": "web", "uid": "x-1", "annotations": {SYNCED_FROM: "hub-2/h-1"}}, "spec": {}}
MADE = copy_of(TARGET, on_hub())


@pytest.mark.parametrize(
    ("obj", "copy", "wanted"),
    [
        (on_hub(held=False), None, Plan(hold=True, apply=MADE)),
        (on_hub(), None, Plan(apply=MADE)),
        (on_hub(), copied(), Plan()),
        (on_hub(), copied(on_hub(spec={"replicas": 9})), Plan(apply=MADE)),
        (on_hub(), copied(spec={"replicas": 9}), Plan(apply=MADE)),
        (on_hub(), copied(labels={}), Plan(apply=MADE)),
        (on_hub(), copied(deletionTimestamp="now"), Plan(wait=True)),
        # Of an earlier object of that name on this hub: taken over.
        (on_hub(), copied(on_hub(metadata={"uid": "h-0"})), Plan(apply=MADE)),
        (on_hub(metadata=GOING), copied(), Plan(delete="c-1")),
        (on_hub(metadata=GOING), copied(deletionTimestamp="now"), Plan(wait=True)),
        (on_hub(metadata=GOING), None, Plan(release=True)),
        (on_hub(metadata=GOING), THEIRS, Plan(release=True)),
        (on_hub(metadata=GOING, held=False), None, Plan()),
        (on_hub("west"), copied(), Plan(delete="c-1")),
        (on_hub("west"), None, Plan(release=True)),
        (on_hub("west", held=False), OTHER_HUB, Plan()),
        # Nothing is known to be wanted of it: it stays.
        (None, copied(), Plan(orphan=True)),
        (None, OTHER_HUB, Plan()),
        (None, None, Plan()),
    ],
)
def test_plans(obj: Object | None, copy: Object | None, wanted: Plan) -> None:
    assert plan(TARGET, obj, copy) == wanted


@pytest.mark.parametrize("copy", [THEIRS, OTHER_HUB])
def test_what_is_not_ours_is_taken_over_by_force_only(copy: Object) -> None:
    refused = plan(TARGET, on_hub(held=False), copy)
    assert refused.problem.startswith("east has an object of this name that does not come from this hub")
    assert refused == Plan(problem=refused.problem)
    assert plan(TARGET, on_hub(metadata=FORCED), copy).apply is not None


def test_a_copy_that_an_apply_leaves_different_is_not_applied_again() -> None:
    stubborn = copied(spec={"replicas": 9})
    assert plan(TARGET, on_hub(), stubborn, settled=fingerprint(stubborn)) == Plan()
    changed = copied(spec={"replicas": 8})
    assert plan(TARGET, on_hub(), changed, settled=fingerprint(stubborn)).apply == MADE


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
    assert plan(TARGET, on_hub(), copied(status=status)).status == wanted


def test_covers() -> None:
    assert covers({"a": {"b": 1}, "l": [{"x": 1}]}, {"a": {"b": 1, "c": 2}, "l": [{"x": 1, "y": 2}], "z": 0})
    assert covers({"a": {}, "b": None, "c": []}, {})
    assert not covers({"l": [1]}, {"l": [1, 2]})
    assert not covers({"a": 1}, {})
    assert not covers({"a": {"b": 1}}, {"a": "text"})
