"""Decides the next step of a Cluster: ownership of referenced objects, endpoint, status, or one step of its deletion.

Pure. Deletion order: MachineDeployments, MachineSets, Machines, control plane, infrastructure, the Cluster itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.capi.clusters.status import Facts, cluster_status
from shoal.capi.conditions import only, paused_condition
from shoal.capi.writing import claimed, released
from shoal.kinds.capi import (
    API_VERSION,
    CLUSTER,
    CLUSTER_FINALIZER,
    CLUSTER_NAME,
    endpoint_of,
    initialization,
    is_deleting,
    is_paused,
    owner_reference,
)

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Snapshot:
    cluster: Object
    infrastructure: Object | None
    control_plane: Object | None
    """The object of controlPlaneRef. None without one, and if it names the infrastructure object itself."""
    deployments: Sequence[Object]
    sets: Sequence[Object]
    machines: Sequence[Object]
    is_reached: bool | None = None
    """Whether the workload cluster responds. None: no provider can tell."""


@dataclass(frozen=True, slots=True)
class Decision:
    patch: Object | None = None
    """Patch of the Cluster. The rest is decided again after it."""
    infrastructure: Object | None = None
    """Patch of the infrastructure object."""
    control_plane: Object | None = None
    """Patch of the control plane object."""
    delete: tuple[Object, ...] = ()
    status: Object | None = None
    """The Cluster with the status to write."""


def decide(seen: Snapshot, now: str) -> Decision:
    cluster = seen.cluster
    if is_paused(cluster, cluster):
        return Decision(status=_changed(cluster, only(cluster, paused_condition(True, cluster), now)))
    if is_deleting(cluster):
        return _deletion(seen, now)
    patch = claimed(cluster, finalizer=CLUSTER_FINALIZER) or {}
    endpoint = _endpoint(seen)
    if endpoint_of(cluster) is None and endpoint is not None:
        patch = {**patch, "spec": {"controlPlaneEndpoint": endpoint}}
    return Decision(
        patch=patch or None,
        infrastructure=_claim(seen.infrastructure, cluster),
        control_plane=_claim(seen.control_plane, cluster),
        status=_changed(cluster, _status(seen, "", "", now)),
    )


def _endpoint(seen: Snapshot) -> Object | None:
    if initialization(seen.infrastructure, "provisioned") and endpoint_of(seen.infrastructure):
        return endpoint_of(seen.infrastructure)
    initialized = initialization(seen.control_plane, "controlPlaneInitialized")
    return endpoint_of(seen.control_plane) if initialized else None


def _claim(obj: Object | None, cluster: Object) -> Object | None:
    if obj is None or is_deleting(obj):
        return None
    owner = owner_reference(cluster, API_VERSION, CLUSTER, controller=False)
    return claimed(obj, owner=owner, labels={CLUSTER_NAME: cluster["metadata"]["name"]})


def _deletion(seen: Snapshot, now: str) -> Decision:
    """One stage at a time; the next begins when no object of this one is left."""
    cluster, spec = seen.cluster, seen.cluster.get("spec") or {}
    stages: tuple[tuple[str, str, Sequence[Object | None]], ...] = (
        ("WaitingForWorkersDeletion", "MachineDeployments", seen.deployments),
        ("WaitingForWorkersDeletion", "MachineSets", seen.sets),
        ("WaitingForWorkersDeletion", "Worker Machines", seen.machines),
        ("WaitingForControlPlaneDeletion", _kind(spec, "controlPlaneRef"), [seen.control_plane]),
        ("WaitingForInfrastructureDeletion", _kind(spec, "infrastructureRef"), [seen.infrastructure]),
    )
    for reason, what, objects in stages:
        left = [obj for obj in objects if obj is not None]
        if left:
            workers = reason == "WaitingForWorkersDeletion"
            message = f"* {what}: {_names(left)}" if workers else f"Waiting for {what} to be deleted"
            status = _status(seen, reason, message, now)
            going = tuple(obj for obj in left if not is_deleting(obj))
            return Decision(delete=going, status=_changed(cluster, status))
    return Decision(patch=released(cluster, CLUSTER_FINALIZER))


def _kind(spec: Object, field: str) -> str:
    return str((spec.get(field) or {}).get("kind", ""))


def _names(objects: Sequence[Object]) -> str:
    return ", ".join(obj["metadata"]["name"] for obj in objects)


def _status(seen: Snapshot, reason: str, message: str, now: str) -> Object:
    spec = seen.cluster.get("spec") or {}
    elsewhere = spec.get("controlPlaneRef") and spec["controlPlaneRef"] != spec.get("infrastructureRef")
    facts = Facts(
        infrastructure=seen.infrastructure,
        control_plane=seen.control_plane if elsewhere else seen.infrastructure,
        deployments=seen.deployments,
        sets=seen.sets,
        machines=seen.machines,
        is_reached=seen.is_reached,
    )
    return cluster_status(seen.cluster, facts, (reason, message), now)


def _changed(cluster: Object, new: Object) -> Object | None:
    return None if new is cluster else new
