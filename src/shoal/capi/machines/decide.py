"""Decides the next step of a Machine: owner and label, provider id, status, or one step of its deletion. Pure.

Deletion order: pre-drain hooks, node drain, volume detach, pre-terminate hooks, the infrastructure object, the Node. If
its Cluster is deleted too, the steps about the Node are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from shoal.capi.conditions import only, paused_condition
from shoal.capi.machines import drain
from shoal.capi.machines.nodes import node_patch
from shoal.capi.machines.status import Facts, Progress, machine_status
from shoal.capi.writing import claimed, released
from shoal.kinds.capi import (
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
    initialization,
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
class Snapshot:
    machine: Object
    cluster: Object | None
    infrastructure: Object | None
    node: Object | None
    machine_set: Object | None = None
    deployment: Object | None = None
    last_leader: bool = False
    """Whether it is the last remaining control plane Machine."""
    drain: drain.Drain | None = None
    """Drain state of its Node; None before the first look."""


@dataclass(frozen=True, slots=True)
class Decision:
    patch: Object | None = None
    """Patch of the Machine. The rest is decided again after it."""
    infrastructure: Object | None = None
    """Patch of the infrastructure object."""
    node: Object | None = None
    """Patch of the Node."""
    drain: bool = False
    """Cordon the Node and evict its Pods. The rest is decided again after it."""
    delete: bool = False
    """Whether to delete the infrastructure object."""
    delete_node: bool = False
    """Combined with a patch, its failure is ignored."""
    status: Object | None = None
    """The Machine with the status to write."""
    again: float | None = None


def decide(seen: Snapshot, now: float, stamp: str) -> Decision:
    """`now_rfc3339` is `now` as text."""
    machine = seen.machine
    if is_paused(seen.cluster, machine):
        new = only(machine, paused_condition(True, seen.cluster), stamp)
        return Decision(status=None if new is machine else new)
    if is_deleting(machine):
        return _deletion(seen, now, stamp)
    if seen.cluster is None:
        return Decision()  # enqueued again with its Cluster
    new, again = _status(seen, None, now, stamp)
    node = seen.node
    return Decision(
        patch=_patch(seen),
        infrastructure=_claim(seen),
        node=node_patch(machine, node, seen.infrastructure, seen.machine_set, seen.deployment) if node else None,
        status=None if new is machine else new,
        again=again,
    )


def _patch(seen: Snapshot) -> Object | None:
    machine, cluster = seen.machine, seen.cluster
    alone = cluster is not None and not controller_uid(machine)
    owner = owner_reference(cluster, API_VERSION, CLUSTER, controller=False) if cluster is not None and alone else None
    patch = claimed(machine, finalizer=MACHINE_FINALIZER, owner=owner, labels={CLUSTER_NAME: cluster_name(machine)})
    provider_id = _provider_id(seen.infrastructure)
    if provider_id and machine["spec"].get("providerID") != provider_id:
        patch = {**(patch or {}), "spec": {"providerID": provider_id}}
    return patch


def _provider_id(infrastructure: Object | None) -> str:
    """Valid only once the infrastructure is provisioned."""
    if infrastructure is None or not initialization(infrastructure, "provisioned"):
        return ""
    return str((infrastructure.get("spec") or {}).get("providerID", ""))


def _claim(seen: Snapshot) -> Object | None:
    machine, infrastructure = seen.machine, seen.infrastructure
    if infrastructure is None or is_deleting(infrastructure):
        return None
    owner = owner_reference(machine, API_VERSION, MACHINE, controller=True)
    labels = labels_of(machine) if seen.machine_set is not None else {}
    return claimed(infrastructure, owner=owner, labels={**labels, CLUSTER_NAME: cluster_name(machine)})


def _deletion(seen: Snapshot, now: float, stamp: str) -> Decision:
    machine, with_node = seen.machine, _is_node_kept_in_order(seen)
    begun: Object = dict((machine.get("status") or {}).get("deletion") or {})

    def waiting(reason: str, message: str, again: float | None = None) -> Decision:
        new, _ = _status(seen, Progress(reason, message, begun), now, stamp)
        return Decision(status=None if new is machine else new, again=again)

    hooks = _hooks(machine, PRE_DRAIN_HOOK) if with_node else ""
    if hooks:
        begun.setdefault("waitForPreDrainHookStartTime", stamp)
        return waiting("WaitingForPreDrainHook", f"Waiting for pre-drain hooks to succeed (hooks: {hooks})")
    if with_node and seen.node is not None and not drain.is_drained(machine, seen.infrastructure, now):
        if seen.drain is None:
            return Decision(drain=True)
        started = begun.setdefault("nodeDrainStartTime", stamp)
        if not seen.drain.is_done:
            return waiting("DrainingNode", drain.message(seen.drain, started), drain.look_again(started, now))
    if with_node and seen.node is not None and not drain.is_detached(machine, seen.infrastructure, seen.node, now):
        started = begun.setdefault("waitForNodeVolumeDetachStartTime", stamp)
        message = f"Waiting for Node volumes to be detached (started at {started})"
        return waiting("WaitingForVolumeDetach", message, drain.look_again(started, now))
    hooks = _hooks(machine, PRE_TERMINATE_HOOK)
    if hooks:
        begun.setdefault("waitForPreTerminateHookStartTime", stamp)
        return waiting("WaitingForPreTerminateHook", f"Waiting for pre-terminate hooks to succeed (hooks: {hooks})")
    if seen.infrastructure is not None:
        kind = machine["spec"]["infrastructureRef"]["kind"]
        decision = waiting("WaitingForInfrastructureDeletion", f"Waiting for {kind} to be deleted")
        return replace(decision, delete=not is_deleting(seen.infrastructure))
    if with_node and seen.node is not None and not is_deleting(seen.node):
        late = _node_deletion_expired(machine, now)
        return Decision(delete_node=True, patch=released(machine, MACHINE_FINALIZER) if late else None)
    return Decision(patch=released(machine, MACHINE_FINALIZER))


def _is_node_kept_in_order(seen: Snapshot) -> bool:
    """The Node is drained and deleted only while its cluster lives on; without a control plane neither is possible."""
    cluster = seen.cluster
    alive = cluster is not None and not is_deleting(cluster) and initialization(cluster, "controlPlaneInitialized")
    known = seen.node is not None or "nodeRef" in (seen.machine.get("status") or {})
    return alive and known and not seen.last_leader


def _hooks(machine: Object, prefix: str) -> str:
    return ",".join(sorted(key for key in annotations_of(machine) if key.startswith(prefix)))


def _node_deletion_expired(machine: Object, now: float) -> bool:
    timeout = (machine["spec"].get("deletion") or {}).get("nodeDeletionTimeoutSeconds", NODE_DELETION_TIMEOUT)
    deleted = parse_time(machine["metadata"]["deletionTimestamp"]) or now
    return bool(timeout) and now - deleted >= timeout


def _status(seen: Snapshot, progress: Progress | None, now: float, stamp: str) -> tuple[Object, float | None]:
    facts = Facts(seen.cluster, seen.infrastructure, seen.node, seen.machine_set, seen.deployment)
    return machine_status(seen.machine, facts, progress, now, stamp)
