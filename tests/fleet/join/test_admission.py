"""Admission of a worker's writes: its own state and what it has observed, nothing that controls other workers."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from shoal.apiserver.admission.plugins.workerrestriction import cluster_error, lease_error, secret_error, worker_error
from shoal.kinds.fleet import cluster_log, infrav1

Object = dict[str, Any]

WORKER: Object = {
    "metadata": {"name": "w1", "namespace": "shoal-system", "annotations": {infrav1.STORE_ANNOTATION: "s"}},
    "spec": {"capacity": 3, "infrastructure": "external"},
}
CLUSTER: Object = {
    "metadata": {
        "name": "east",
        "namespace": "default",
        "labels": {"a": "b"},
        "finalizers": ["x", infrav1.MANAGED_CLUSTER_FINALIZER],
    },
    "spec": {"nodes": 1},
    "status": {"assignedWorker": "w1", "epoch": 1, "phase": "Provisioning"},
}
SECRET: Object = {
    "metadata": {
        "name": "east-kubeconfig",
        "namespace": "default",
        "labels": {infrav1.CLUSTER_NAME: "east"},
        "ownerReferences": [{"kind": "ManagedCluster", "name": "east", "uid": "u"}],
    },
    "type": infrav1.CLUSTER_SECRET,
    "data": {"value": "eA=="},
}


def changed(obj: Object, **paths: Any) -> Object:
    """Of `metadata__name=…`: two underscores are a dot."""
    made = copy.deepcopy(obj)
    for path, value in paths.items():
        *parents, last = path.split("__")
        place = made
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return made


DECLARED = changed(WORKER, metadata__annotations={infrav1.STORE_ANNOTATION: "s", infrav1.SUPERVISOR_ANNOTATION: "hub"})
UID = "11111111-1111-1111-1111-111111111111"
LOG: Object = {
    "metadata": {
        "name": f"default.east.{UID}.1.2",
        "namespace": "shoal-logs",
        "labels": {cluster_log.SECRET_TYPE: UID},
    },
    "type": cluster_log.SECRET_TYPE,
    "data": {"log": "eA=="},
}
LEGACY_LOG: Object = {
    **LOG,
    "metadata": {**SECRET["metadata"], "name": "east-log-1-2", "labels": {cluster_log.SECRET_TYPE: "east"}},
}
HELD: Object = {"worker": "w1", "epoch": 1, "time": "2026-01-01T00:00:00Z"}
GOING = changed(CLUSTER, metadata__deletionTimestamp="2026-01-01T00:00:00Z")


def test_what_it_writes_every_day() -> None:
    assert worker_error("w1", WORKER, None, False) == ""
    assert worker_error("w1", changed(WORKER, spec__capacity=9), WORKER, False) == ""
    assert worker_error("w1", WORKER, changed(WORKER, metadata__annotations={}), False) == "", "one that was declared"
    labelled = changed(WORKER, metadata__labels={"a": "b"}, spec__taints=[{"key": "k", "effect": "NoSchedule"}])
    assert worker_error("w1", changed(labelled, spec__capacity=1), labelled, False) == "", "people's stay"
    assert worker_error("w1", changed(DECLARED, spec__version="v1.36.4"), DECLARED, False) == ""
    assert lease_error("w1", {"metadata": {"name": "worker-w1"}}, None, False) == ""
    assert cluster_error("w1", changed(CLUSTER, status__phase="Running"), CLUSTER, True) == ""
    assert cluster_error("w1", changed(GOING, metadata__finalizers=["x"]), GOING, False) == ""
    assert secret_error("w1", SECRET, None, False) == ""
    assert secret_error("w1", LOG, None, False) == ""
    assert secret_error("w1", LEGACY_LOG, None, False) == "", "of a worker of an earlier release"
    assert cluster_error("w1", changed(CLUSTER, status__held=HELD), CLUSTER, True) == ""
    assert cluster_error("w1", changed(CLUSTER, status__backup={"worker": "w1", "epoch": 1}), CLUSTER, True) == ""
    former = changed(CLUSTER, status__backup={"worker": "w0", "epoch": 0})
    assert cluster_error("w1", changed(former, status__held=HELD), former, True) == "", "what another said stays"
    assert secret_error("w1", changed(SECRET, data__value="eQ=="), SECRET, False) == ""


@pytest.mark.parametrize(
    ("new", "old", "said"),
    [
        (changed(WORKER, metadata__name="w2"), None, "a worker may access its own Worker only, w1"),
        (changed(WORKER, metadata__labels={"zone": "a"}), None, "may not set the labels"),
        (changed(WORKER, metadata__labels={"zone": "a"}), WORKER, "may not set the labels"),
        (changed(WORKER, metadata__finalizers=["stay"]), WORKER, "may not set the finalizers"),
        (changed(WORKER, metadata__ownerReferences=[{"uid": "u"}]), WORKER, "may not set the ownerReferences"),
        (WORKER, changed(WORKER, spec__taints=[{"key": "k"}]), "may not set its taints"),
        (WORKER, changed(WORKER, spec__drain=True), "may not set its drain"),
        (changed(WORKER, spec__unschedulable=True), WORKER, "may not set its unschedulable"),
        (changed(WORKER, spec__cost="0"), WORKER, "may not set its cost"),
        (changed(WORKER, spec__allocatable={"cpu": "1000"}), None, "may not set its allocatable"),
        (changed(WORKER, spec__capacityLimit=9), WORKER, "may not set its capacityLimit"),
        (WORKER, changed(WORKER, spec__capacityLimit=0), "may not set its capacityLimit"),
        (changed(WORKER, spec__drainBudget=9), WORKER, "may not set its drainBudget"),
        (changed(DECLARED, spec__capacity=9), DECLARED, "the capacity of a declared Worker"),
        (changed(DECLARED, spec__location="moon"), DECLARED, "the location of a declared Worker"),
        (
            changed(WORKER, metadata__annotations={infrav1.STORE_ANNOTATION: "t"}),
            WORKER,
            "is registered by another store",
        ),
        (changed(WORKER, metadata__annotations={}), WORKER, "is registered by another store"),
        (changed(WORKER, metadata__annotations={}), None, "must set the annotation shoal.dev/store"),
        (changed(WORKER, metadata__annotations={infrav1.STORE_ANNOTATION: ""}), None, "must set the annotation"),
        (changed(WORKER, spec__infrastructure="process"), None, "may not set infrastructure process"),
        (changed(WORKER, spec={}), None, "may not set infrastructure process"),
        (changed(WORKER, spec__infrastructure="process"), WORKER, "may not set infrastructure process"),
        (changed(WORKER, spec__infrastructure="kind"), None, "may not change whether"),
        (WORKER, changed(WORKER, spec__infrastructure="kind"), "may not change whether"),
        (
            changed(WORKER, metadata__annotations={infrav1.STORE_ANNOTATION: "s", "a": "b"}),
            WORKER,
            "may set the annotation shoal.dev/store only",
        ),
    ],
)
def test_its_worker(new: Object, old: Object | None, said: str) -> None:
    assert said in worker_error("w1", new, old, False)


def test_its_lease() -> None:
    assert lease_error("w1", {"metadata": {"name": "worker-w2"}}, None, False) == (
        "a worker may access its own Lease only, worker-w1"
    )
    plain: Object = {"metadata": {"name": "worker-w1"}}
    named = changed(plain, metadata__annotations={infrav1.TUNNEL_HUB_ANNOTATION: "https://hub:6443"})
    for new, old in ((named, None), (named, plain), (plain, named)):
        assert lease_error("w1", new, old, False) == "a worker may not set the annotation shoal.dev/tunnel-hub"
    assert lease_error("w1", named, named, False) == ""


@pytest.mark.parametrize(
    ("new", "old", "status", "said"),
    [
        (CLUSTER, None, False, "may not create ManagedClusters"),
        (CLUSTER, changed(CLUSTER, status__assignedWorker="w2"), True, "it is not assigned to this worker"),
        (CLUSTER, changed(CLUSTER, status__assignedWorker="w2"), False, "it is not assigned to this worker"),
        (changed(CLUSTER, status__assignedWorker="w2"), CLUSTER, True, "may not change status.assignedWorker"),
        (changed(CLUSTER, status__epoch=7), CLUSTER, True, "may not change status.epoch"),
        (
            changed(CLUSTER, status__conditions=[{"type": "WorkerReady", "status": "True"}]),
            CLUSTER,
            True,
            "may not change the condition WorkerReady",
        ),
        (changed(CLUSTER, status={}), CLUSTER, True, "may not change status.assignedWorker"),
        (changed(CLUSTER, status__move={"from": "w1"}), CLUSTER, True, "may not change status.move"),
        (changed(CLUSTER, status__restoreFrom={"epoch": 1}), CLUSTER, True, "may not change status.restoreFrom"),
        (changed(CLUSTER, status__formerWorkers=["w1"]), CLUSTER, True, "may not change status.formerWorkers"),
        (changed(CLUSTER, status__held={**HELD, "worker": "w2"}), CLUSTER, True, "status.held only for itself"),
        (changed(CLUSTER, status__held={**HELD, "epoch": 2}), CLUSTER, True, "only for itself and the current epoch"),
        (changed(CLUSTER, status__backup={"worker": "w1", "epoch": 0}), CLUSTER, True, "status.backup only for itself"),
        (changed(CLUSTER, spec__nodes=2), CLUSTER, False, "may not change the spec"),
        (changed(CLUSTER, metadata__labels={}), CLUSTER, False, "may not change the metadata"),
        (changed(CLUSTER, metadata__annotations={"a": "b"}), CLUSTER, False, "may not change the metadata"),
        (changed(CLUSTER, metadata__ownerReferences=[{"uid": "u"}]), CLUSTER, False, "may not change the metadata"),
        (
            changed(CLUSTER, metadata__finalizers=["x"]),
            CLUSTER,
            False,
            "only from a ManagedCluster that is being deleted",
        ),
        (
            changed(GOING, metadata__finalizers=[infrav1.MANAGED_CLUSTER_FINALIZER]),
            GOING,
            False,
            "may remove the finalizer",
        ),
        (changed(GOING, metadata__finalizers=[]), GOING, False, "may remove the finalizer"),
        (
            changed(GOING, metadata__finalizers=["x", infrav1.MANAGED_CLUSTER_FINALIZER, "y"]),
            GOING,
            False,
            "may remove the finalizer",
        ),
    ],
)
def test_its_managed_clusters(new: Object, old: Object | None, status: bool, said: str) -> None:
    assert said in cluster_error("w1", new, old, status)


EARLIER = [{"kind": "ManagedCluster", "name": "west", "uid": "u"}]
TWO = [*SECRET["metadata"]["ownerReferences"], {"kind": "Secret", "name": "x", "uid": "v"}]


@pytest.mark.parametrize(
    ("new", "old", "said"),
    [
        (changed(SECRET, metadata__name="password"), None, "a worker may write kubeconfig and log Secrets only"),
        (changed(SECRET, metadata__name="-kubeconfig"), None, "a worker may write kubeconfig and log Secrets only"),
        (SECRET, changed(SECRET, metadata__ownerReferences=[]), "is not owned by that ManagedCluster"),
        (changed(SECRET, metadata__ownerReferences=[]), None, "must be owned by its ManagedCluster only"),
        (changed(SECRET, metadata__ownerReferences=EARLIER), None, "must be owned by its ManagedCluster only"),
        (changed(SECRET, metadata__ownerReferences=TWO), SECRET, "must be owned by its ManagedCluster only"),
        (
            changed(SECRET, type="bootstrap.kubernetes.io/token"),
            None,
            "a kubeconfig Secret must have type cluster.x-k8s.io/secret",
        ),
        (changed(SECRET, data__other="eA=="), None, "and only the key value"),
        (changed(SECRET, data={}), SECRET, "and only the key value"),
        (changed(SECRET, metadata__labels={"workloads.kcp.dev/cluster": "west"}), None, "and no other"),
        (changed(SECRET, metadata__labels={}), SECRET, "and no other"),
        (changed(SECRET, metadata__annotations={"a": "b"}), SECRET, "must not have annotations or finalizers"),
        (changed(SECRET, metadata__finalizers=["x"]), SECRET, "must not have annotations or finalizers"),
        (LOG, LOG, "a log Secret is immutable"),
        (LEGACY_LOG, LEGACY_LOG, "a log Secret is immutable"),
        (changed(LEGACY_LOG, metadata__ownerReferences=EARLIER), None, "must be owned by its ManagedCluster"),
        (changed(LEGACY_LOG, metadata__ownerReferences=TWO), None, "must be owned by its ManagedCluster"),
        (changed(LEGACY_LOG, metadata__labels={cluster_log.SECRET_TYPE: UID}), None, "and no other"),
        (changed(LOG, metadata__ownerReferences=EARLIER), None, "in namespace shoal-logs must not have owners"),
        (changed(LOG, metadata__labels={cluster_log.SECRET_TYPE: "east"}), None, "and no other"),
        (changed(LOG, metadata__finalizers=["x"]), None, "must not have annotations or finalizers"),
        (changed(LOG, metadata__namespace="default"), None, "a worker may write kubeconfig and log Secrets only"),
        (changed(LOG, metadata__name="east.1.2"), None, "a worker may write kubeconfig and log Secrets only"),
        (changed(LOG, type="Opaque"), None, "a log Secret must have type shoal.dev/cluster-log"),
        (changed(LOG, data={"log": "", "more": ""}), None, "and only the key log"),
        (
            changed(LOG, metadata__labels={}),
            None,
            "a log Secret must have the label shoal.dev/cluster-log and no other",
        ),
        (changed(LOG, metadata__annotations={"a": "b"}), None, "a log Secret must not have annotations"),
        (changed(LOG, metadata__name="east-log-1"), None, "a worker may write kubeconfig and log Secrets only"),
    ],
)
def test_its_secrets(new: Object, old: Object | None, said: str) -> None:
    assert said in secret_error("w1", new, old, False)
