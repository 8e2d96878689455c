"""Decides the next step of a Cluster: ownership of referenced objects, endpoint, status, or one step of its deletion.

Pure. Deletion order: MachineDeployments, MachineSets, Machines, control plane, infrastructure, the Cluster itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.capi.clusters.status import ClusterStatusInputs, cluster_status
from shoal.capi.conditions import paused_condition, with_condition
from shoal.capi.metadata_patches import claim_patch, release_patch
from shoal.kinds.clusterapi.capi import (
    API_VERSION,
    CLUSTER,
    CLUSTER_FINALIZER,
    CLUSTER_NAME,
    control_plane_endpoint,
    initialization_flag,
    is_deleting,
    is_paused,
    owner_reference,
)

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    cluster: Object
    infrastructure: Object | None
    control_plane: Object | None
    """The object of controlPlaneRef. None without one, and if it names the infrastructure object itself."""
    deployments: Sequence[Object]
    machine_sets: Sequence[Object]
    machines: Sequence[Object]
    is_reachable: bool | None = None
    """Whether the workload cluster responds. None: no provider can tell."""


@dataclass(frozen=True, slots=True)
class ClusterDecision:
    patch: Object | None = None
    """Patch of the Cluster. The rest is decided again after it."""
    patch_infrastructure: Object | None = None
    """Patch of the infrastructure object."""
    patch_control_plane: Object | None = None
    """Patch of the control plane object."""
    delete: tuple[Object, ...] = ()
    status: Object | None = None
    """The Cluster with the status to write."""


def decide(snapshot: ClusterSnapshot, now: str) -> ClusterDecision:
    cluster = snapshot.cluster
    if is_paused(cluster, cluster):
        return ClusterDecision(
            status=_if_changed(cluster, with_condition(cluster, paused_condition(True, cluster), now))
        )
    if is_deleting(cluster):
        return _decide_deletion(snapshot, now)
    patch = claim_patch(cluster, finalizer=CLUSTER_FINALIZER) or {}
    endpoint = _endpoint(snapshot)
    if control_plane_endpoint(cluster) is None and endpoint is not None:
        patch = {**patch, "spec": {"controlPlaneEndpoint": endpoint}}
    return ClusterDecision(
        patch=patch or None,
        patch_infrastructure=_ownership_patch(snapshot.infrastructure, cluster),
        patch_control_plane=_ownership_patch(snapshot.control_plane, cluster),
        status=_if_changed(cluster, _status(snapshot, "", "", now)),
    )


def _endpoint(snapshot: ClusterSnapshot) -> Object | None:
    if initialization_flag(snapshot.infrastructure, "provisioned") and control_plane_endpoint(snapshot.infrastructure):
        return control_plane_endpoint(snapshot.infrastructure)
    initialized = initialization_flag(snapshot.control_plane, "controlPlaneInitialized")
    return control_plane_endpoint(snapshot.control_plane) if initialized else None


def _ownership_patch(obj: Object | None, cluster: Object) -> Object | None:
    if obj is None or is_deleting(obj):
        return None
    owner = owner_reference(cluster, API_VERSION, CLUSTER, controller=False)
    return claim_patch(obj, owner=owner, labels={CLUSTER_NAME: cluster["metadata"]["name"]})


def _decide_deletion(snapshot: ClusterSnapshot, now: str) -> ClusterDecision:
    """One stage at a time; the next begins when no object of this one is left."""
    cluster, spec = snapshot.cluster, snapshot.cluster.get("spec") or {}
    stages: tuple[tuple[str, str, Sequence[Object | None]], ...] = (
        ("WaitingForWorkersDeletion", "MachineDeployments", snapshot.deployments),
        ("WaitingForWorkersDeletion", "MachineSets", snapshot.machine_sets),
        ("WaitingForWorkersDeletion", "Worker Machines", snapshot.machines),
        ("WaitingForControlPlaneDeletion", _kind(spec, "controlPlaneRef"), [snapshot.control_plane]),
        ("WaitingForInfrastructureDeletion", _kind(spec, "infrastructureRef"), [snapshot.infrastructure]),
    )
    for reason, what, objects in stages:
        remaining = [obj for obj in objects if obj is not None]
        if remaining:
            workers = reason == "WaitingForWorkersDeletion"
            message = f"* {what}: {_names(remaining)}" if workers else f"Waiting for {what} to be deleted"
            status = _status(snapshot, reason, message, now)
            to_delete = tuple(obj for obj in remaining if not is_deleting(obj))
            return ClusterDecision(delete=to_delete, status=_if_changed(cluster, status))
    return ClusterDecision(patch=release_patch(cluster, CLUSTER_FINALIZER))


def _kind(spec: Object, field: str) -> str:
    return str((spec.get(field) or {}).get("kind", ""))


def _names(objects: Sequence[Object]) -> str:
    return ", ".join(obj["metadata"]["name"] for obj in objects)


def _status(snapshot: ClusterSnapshot, reason: str, message: str, now: str) -> Object:
    spec = snapshot.cluster.get("spec") or {}
    has_separate_control_plane = spec.get("controlPlaneRef") and spec["controlPlaneRef"] != spec.get(
        "infrastructureRef"
    )
    inputs = ClusterStatusInputs(
        infrastructure=snapshot.infrastructure,
        control_plane=snapshot.control_plane if has_separate_control_plane else snapshot.infrastructure,
        deployments=snapshot.deployments,
        machine_sets=snapshot.machine_sets,
        machines=snapshot.machines,
        is_reachable=snapshot.is_reachable,
    )
    return cluster_status(snapshot.cluster, inputs, (reason, message), now)


def _if_changed(cluster: Object, new: Object) -> Object | None:
    return None if new is cluster else new
