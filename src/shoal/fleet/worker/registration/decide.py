"""Builds the Worker object and Lease of a worker, and decides which store owns a name. Pure."""

from __future__ import annotations

from typing import Any

from shoal.fleet.worker.settings import WorkerSettings
from shoal.kinds import fleet
from shoal.kinds.versions import SUPPORTED

Object = dict[str, Any]


def worker_object(settings: WorkerSettings, store: str) -> Object:
    return {
        "apiVersion": fleet.API_VERSION,
        "kind": fleet.WORKER,
        "metadata": {"name": settings.name, "namespace": fleet.NAMESPACE, "annotations": {fleet.STORE: store}},
        "spec": worker_spec(settings),
    }


def worker_spec(settings: WorkerSettings) -> Object:
    """Fields that the process knows best; labels and taints are left to people."""
    return {
        "version": settings.version,
        "versions": list(SUPPORTED),
        "capacity": settings.capacity,
        "location": settings.location,
        "infrastructure": settings.infrastructure,
        "provides": list(settings.provides),
    }


def store_of(worker: Object) -> str:
    return str((worker["metadata"].get("annotations") or {}).get(fleet.STORE) or "")


def taken(worker: Object, store: str) -> Object:
    """Returns the patch that claims a Worker without a store; it conflicts if another worker was faster."""
    version = worker["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": version, "annotations": {fleet.STORE: store}}}


def spec_patch(worker: Object, settings: WorkerSettings) -> Object | None:
    """Returns the differing fields; None if there are none. A worker that a hub runs, or that a bundle installed, only
    sets its version, and `versions` if unset.
    """
    spec, said = fleet.spec_of(worker), worker_spec(settings)
    supervised = settings.declared or fleet.SUPERVISOR in (worker["metadata"].get("annotations") or {})
    if supervised or spec.get("infrastructure") == fleet.KIND:
        said = {key: said[key] for key in ("version", "versions") if key == "version" or not spec.get(key)}
    elif spec.get("infrastructure") != fleet.PROCESS:
        del said["infrastructure"]  # Somebody has set it deliberately.
    different = {key: value for key, value in said.items() if spec.get(key) != value}
    return {"spec": different} if different else None


def lease(settings: WorkerSettings, store: str, now: str, *, fences: bool = False) -> Object:
    metadata: Object = {"name": fleet.lease_name(settings.name), "namespace": fleet.NAMESPACE}
    if fences:
        metadata["annotations"] = {fleet.FENCES: "true"}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": store,
            "leaseDurationSeconds": int(fleet.SILENCE_SECONDS),
            "acquireTime": now,
            "renewTime": now,
        },
    }
