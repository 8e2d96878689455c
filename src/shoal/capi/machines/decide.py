"""Decides the next step of a Machine: owner and label, provider id, status, or one step of its deletion. Pure.

Deletion order: pre-drain hooks, node drain, volume detach, pre-terminate hooks, the infrastructure object, the Node. If
its Cluster is deleted too, the steps about the Node are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from shoal.capi.conditions import paused_condition, with_condition
from shoal.capi.machines import drain
from shoal.capi.machines.nodes import node_patch
from shoal.capi.machines.status import DeletionProgress, MachineStatusInputs, machine_status
from shoal.capi.metadata_patches import claim_patch, release_patch
from shoal.kinds.clusterapi.capi import (
    API_VERSION,
    CLUSTER,
    CLUSTER_NAME,
    MACHINE,
    MACHINE_FINALIZER,
    PRE_DRAIN_HOOK,
    PRE_TERMINATE_HOOK,
    annotations_of,
    cluster_name,
    controller_uid,
    initialization_flag,
    is_deleting,
    is_paused,
    labels_of,
    owner_reference,
)
from shoal.objects.duration import parse_time

Object = dict[str, Any]

NODE_DELETION_TIMEOUT = 10
"""Default for how many seconds the deletion of a Node is attempted."""


@dataclass(frozen=True, slots=True)
class MachineSnapshot:
    machine: Object
    cluster: Object | None
    infrastructure: Object | None
    node: Object | None
    machine_set: Object | None = None
    deployment: Object | None = None
    is_last_control_plane: bool = False
    """Whether it is the last remaining control plane Machine."""
    drain: drain.DrainState | None = None
    """Drain state of its Node; None before the first look."""


@dataclass(frozen=True, slots=True)
class MachineDecision:
    patch: Object | None = None
    """Patch of the Machine. The rest is decided again after it."""
    patch_infrastructure: Object | None = None
    """Patch of the infrastructure object."""
    patch_node: Object | None = None
    """Patch of the Node."""
    drain: bool = False
    """Cordon the Node and evict its Pods. The rest is decided again after it."""
    delete_infrastructure: bool = False
    """Whether to delete the infrastructure object."""
    delete_node: bool = False
    """Combined with a patch, its failure is ignored."""
    status: Object | None = None
    """The Machine with the status to write."""
    requeue_after: float | None = None


def decide(snapshot: MachineSnapshot, now: float, now_rfc3339: str) -> MachineDecision:
    """`now_rfc3339` is `now` as text."""
    machine = snapshot.machine
    if is_paused(snapshot.cluster, machine):
        new = with_condition(machine, paused_condition(True, snapshot.cluster), now_rfc3339)
        return MachineDecision(status=None if new is machine else new)
    if is_deleting(machine):
        return _decide_deletion(snapshot, now, now_rfc3339)
    if snapshot.cluster is None:
        return MachineDecision()  # enqueued again with its Cluster
    new, requeue_after = _status(snapshot, None, now, now_rfc3339)
    node = snapshot.node
    return MachineDecision(
        patch=_patch(snapshot),
        patch_infrastructure=_infrastructure_patch(snapshot),
        patch_node=node_patch(machine, node, snapshot.infrastructure, snapshot.machine_set, snapshot.deployment)
        if node
        else None,
        status=None if new is machine else new,
        requeue_after=requeue_after,
    )


def _patch(snapshot: MachineSnapshot) -> Object | None:
    machine, cluster = snapshot.machine, snapshot.cluster
    alone = cluster is not None and not controller_uid(machine)
    owner = owner_reference(cluster, API_VERSION, CLUSTER, controller=False) if cluster is not None and alone else None
    patch = claim_patch(machine, finalizer=MACHINE_FINALIZER, owner=owner, labels={CLUSTER_NAME: cluster_name(machine)})
    provider_id = _provider_id(snapshot.infrastructure)
    if provider_id and machine["spec"].get("providerID") != provider_id:
        patch = {**(patch or {}), "spec": {"providerID": provider_id}}
    return patch


def _provider_id(infrastructure: Object | None) -> str:
    """Valid only once the infrastructure is provisioned."""
    if infrastructure is None or not initialization_flag(infrastructure, "provisioned"):
        return ""
    return str((infrastructure.get("spec") or {}).get("providerID", ""))


def _infrastructure_patch(snapshot: MachineSnapshot) -> Object | None:
    machine, infrastructure = snapshot.machine, snapshot.infrastructure
    if infrastructure is None or is_deleting(infrastructure):
        return None
    owner = owner_reference(machine, API_VERSION, MACHINE, controller=True)
    labels = labels_of(machine) if snapshot.machine_set is not None else {}
    return claim_patch(infrastructure, owner=owner, labels={**labels, CLUSTER_NAME: cluster_name(machine)})


def _decide_deletion(snapshot: MachineSnapshot, now: float, now_rfc3339: str) -> MachineDecision:
    machine, with_node = snapshot.machine, _needs_node_cleanup(snapshot)
    deletion_times: Object = dict((machine.get("status") or {}).get("deletion") or {})

    def wait_decision(reason: str, message: str, requeue_after: float | None = None) -> MachineDecision:
        new, _ = _status(snapshot, DeletionProgress(reason, message, deletion_times), now, now_rfc3339)
        return MachineDecision(status=None if new is machine else new, requeue_after=requeue_after)

    hooks = _hooks(machine, PRE_DRAIN_HOOK) if with_node else ""
    if hooks:
        deletion_times.setdefault("waitForPreDrainHookStartTime", now_rfc3339)
        return wait_decision("WaitingForPreDrainHook", f"Waiting for pre-drain hooks to succeed (hooks: {hooks})")
    if with_node and snapshot.node is not None and not drain.is_drain_over(machine, snapshot.infrastructure, now):
        if snapshot.drain is None:
            return MachineDecision(drain=True)
        started = deletion_times.setdefault("nodeDrainStartTime", now_rfc3339)
        if not snapshot.drain.is_done:
            return wait_decision(
                "DrainingNode", drain.drain_message(snapshot.drain, started), drain.poll_interval(started, now)
            )
    if (
        with_node
        and snapshot.node is not None
        and not drain.is_volume_detach_over(machine, snapshot.infrastructure, snapshot.node, now)
    ):
        started = deletion_times.setdefault("waitForNodeVolumeDetachStartTime", now_rfc3339)
        message = f"Waiting for Node volumes to be detached (started at {started})"
        return wait_decision("WaitingForVolumeDetach", message, drain.poll_interval(started, now))
    hooks = _hooks(machine, PRE_TERMINATE_HOOK)
    if hooks:
        deletion_times.setdefault("waitForPreTerminateHookStartTime", now_rfc3339)
        return wait_decision(
            "WaitingForPreTerminateHook", f"Waiting for pre-terminate hooks to succeed (hooks: {hooks})"
        )
    if snapshot.infrastructure is not None:
        kind = machine["spec"]["infrastructureRef"]["kind"]
        decision = wait_decision("WaitingForInfrastructureDeletion", f"Waiting for {kind} to be deleted")
        return replace(decision, delete_infrastructure=not is_deleting(snapshot.infrastructure))
    if with_node and snapshot.node is not None and not is_deleting(snapshot.node):
        is_late = _node_deletion_expired(machine, now)
        return MachineDecision(delete_node=True, patch=release_patch(machine, MACHINE_FINALIZER) if is_late else None)
    return MachineDecision(patch=release_patch(machine, MACHINE_FINALIZER))


def _needs_node_cleanup(snapshot: MachineSnapshot) -> bool:
    """The Node is drained and deleted only while its cluster lives on; without a control plane neither is possible."""
    cluster = snapshot.cluster
    alive = cluster is not None and not is_deleting(cluster) and initialization_flag(cluster, "controlPlaneInitialized")
    has_node = snapshot.node is not None or "nodeRef" in (snapshot.machine.get("status") or {})
    return alive and has_node and not snapshot.is_last_control_plane


def _hooks(machine: Object, prefix: str) -> str:
    return ",".join(sorted(key for key in annotations_of(machine) if key.startswith(prefix)))


def _node_deletion_expired(machine: Object, now: float) -> bool:
    timeout = (machine["spec"].get("deletion") or {}).get("nodeDeletionTimeoutSeconds", NODE_DELETION_TIMEOUT)
    deleted = parse_time(machine["metadata"]["deletionTimestamp"]) or now
    return bool(timeout) and now - deleted >= timeout


def _status(
    snapshot: MachineSnapshot, progress: DeletionProgress | None, now: float, now_rfc3339: str
) -> tuple[Object, float | None]:
    inputs = MachineStatusInputs(
        snapshot.cluster, snapshot.infrastructure, snapshot.node, snapshot.machine_set, snapshot.deployment
    )
    return machine_status(snapshot.machine, inputs, progress, now, now_rfc3339)
