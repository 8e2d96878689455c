"""Builds the Worker object and Lease of a worker, and decides which store owns a name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.fleet.worker.settings import WorkerSettings
from shoal.kinds.fleet import infrav1
from shoal.kinds.versions import SUPPORTED_VERSIONS

Object = dict[str, Any]

FLAG_FIELDS = ("capacity", "location")
"""Fields that the flags of a worker set."""


def worker_object(settings: WorkerSettings, store_id: str) -> Object:
    return {
        "apiVersion": infrav1.API_VERSION,
        "kind": infrav1.WORKER,
        "metadata": {
            "name": settings.name,
            "namespace": infrav1.NAMESPACE,
            "annotations": {infrav1.STORE_ANNOTATION: store_id},
        },
        "spec": worker_spec(settings),
    }


def worker_spec(settings: WorkerSettings) -> Object:
    """Fields that the process knows best, and those that its flags set; labels and taints are left to people."""
    given = {"capacity": settings.capacity, "location": settings.location}
    return {
        "version": settings.version,
        "versions": list(SUPPORTED_VERSIONS),
        **{key: value for key, value in given.items() if value is not None},
        "infrastructure": settings.infrastructure,
        "provides": list(settings.infrastructures),
    }


def store_of(worker: Object) -> str:
    return str((worker["metadata"].get("annotations") or {}).get(infrav1.STORE_ANNOTATION) or "")


def store_claim_patch(worker: Object, store_id: str) -> Object:
    """Returns the patch that claims a Worker without a store; it conflicts if another worker was faster."""
    version = worker["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": version, "annotations": {infrav1.STORE_ANNOTATION: store_id}}}


def spec_patch(worker: Object, settings: WorkerSettings, *, starts: bool) -> Object | None:
    """Returns the differing fields; None if there are none. A worker that a hub runs, or that a bundle installed, only
    sets its version, and `versions` if unset. Flags of others count when the worker starts: from then on the object is
    right, whoever changes it.
    """
    spec, desired = infrav1.spec_of(worker), worker_spec(settings)
    if not starts:
        desired = {key: value for key, value in desired.items() if key not in FLAG_FIELDS}
    is_supervised = settings.is_hub_managed or infrav1.SUPERVISOR_ANNOTATION in (
        worker["metadata"].get("annotations") or {}
    )
    if is_supervised or spec.get("infrastructure") == infrav1.KIND_WORKER:
        desired = {key: desired[key] for key in ("version", "versions") if key == "version" or not spec.get(key)}
    elif spec.get("infrastructure") != infrav1.PROCESS_WORKER:
        del desired["infrastructure"]  # Somebody has set it deliberately.
    changed = {key: value for key, value in desired.items() if spec.get(key) != value}
    return {"spec": changed} if changed else None


def lease_object(settings: WorkerSettings, store_id: str, now: str, annotations: Mapping[str, str]) -> Object:
    metadata: Object = {"name": infrav1.lease_name(settings.name), "namespace": infrav1.NAMESPACE}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": store_id,
            "leaseDurationSeconds": int(infrav1.LEASE_GRACE_SECONDS),
            "acquireTime": now,
            "renewTime": now,
        },
    }
