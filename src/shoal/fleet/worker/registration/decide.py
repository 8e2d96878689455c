"""What a worker says about itself at the hub, and who may use a name. Pure."""

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
    """What the process knows best; labels and taints are people's."""
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
    """What makes a Worker that is of no store yet this one's; refused if somebody was faster."""
    version = worker["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": version, "annotations": {fleet.STORE: store}}}


def spec_patch(worker: Object, settings: WorkerSettings) -> Object | None:
    """What differs; None: nothing. One that a hub runs, or whose cluster got it from the hub, says its version only,
    and the versions if nobody did."""
    spec, said = fleet.spec_of(worker), worker_spec(settings)
    supervised = settings.declared or fleet.SUPERVISOR in (worker["metadata"].get("annotations") or {})
    if supervised or spec.get("infrastructure") == fleet.KIND:
        said = {key: said[key] for key in ("version", "versions") if key == "version" or not spec.get(key)}
    elif spec.get("infrastructure") != fleet.PROCESS:
        del said["infrastructure"]  # somebody knows better what it is
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
