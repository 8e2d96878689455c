"""Decides the next step of an EmbeddedMachine: provider id, Node, status, or one step of its deletion. Pure.

A machine is provisioned at once; its Node appears after the startup delay. A Node that is deleted is created again
while the machine exists: the machine is still powered on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.capi.conditions import FALSE, TRUE, Condition, paused_condition, with_condition, with_status
from shoal.capi.metadata_patches import claim_patch, release_patch
from shoal.kinds.clusterapi.capi import initialization_flag, is_deleting, is_paused, node_annotations, node_labels
from shoal.kinds.clusterapi.embedded import (
    DEFAULT_KUBELET_VERSION,
    MACHINE_FINALIZER,
    new_node,
    node_addresses,
    parse_duration,
    provider_id,
)
from shoal.kinds.clusterapi.failure_injection import (
    CRASH,
    CRASHED_NODE_PATCH,
    CREATE,
    InjectedFailure,
    has_crashed,
    injected_failure,
)
from shoal.kinds.clusterapi.machine_sizes import DEFAULT_ZONE
from shoal.objects.duration import parse_time

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EmbeddedMachineSnapshot:
    infrastructure: Object
    machine: Object | None
    """The Machine that owns it."""
    cluster: Object | None
    logical_cluster: Object | None
    """The LogicalCluster its Node belongs to."""
    node: Object | None
    """The Node of the same name in that cluster."""


@dataclass(frozen=True, slots=True)
class EmbeddedMachineDecision:
    patch: Object | None = None
    """Patch of the EmbeddedMachine. The rest is decided again after it."""
    create_node: Object | None = None
    """The Node to create."""
    crash_patch: Object | None = None
    """Patch of the Node of a lost machine."""
    delete_node: bool = False
    """Whether to delete the Node."""
    status: Object | None = None
    requeue_after: float | None = None


def decide(snapshot: EmbeddedMachineSnapshot, now: float, now_rfc3339: str) -> EmbeddedMachineDecision:
    """`now_rfc3339` is `now` as text."""
    obj = snapshot.infrastructure
    if is_paused(snapshot.cluster, obj):
        new = with_condition(obj, paused_condition(True, snapshot.cluster), now_rfc3339)
        return EmbeddedMachineDecision(status=None if new is obj else new)
    if is_deleting(obj):
        return _decide_deletion(snapshot)
    waiting = _waiting_condition(snapshot)
    if waiting is not None:
        return EmbeddedMachineDecision(status=_not_ready_status(obj, waiting, now_rfc3339))
    if snapshot.node is not None and not _owns_node(snapshot):
        message = f"Node {snapshot.node['metadata']['name']} already exists and belongs to another machine"
        return EmbeddedMachineDecision(
            status=_not_ready_status(obj, Condition("Ready", FALSE, "NodeNameTaken", message), now_rfc3339)
        )
    failure = injected_failure(obj, now)
    if failure is not None and (failure.seconds_left <= 0 or failure.kind != CRASH):
        return _failure_decision(snapshot, failure, now_rfc3339)
    patch, delay = _patch(obj), _startup_seconds_left(obj, now)
    missing = snapshot.node is None
    ready = Condition("Ready", TRUE, "Ready")
    if missing and delay > 0:
        message = (
            f"The machine is starting up: its Node is created after the startupDelay of {obj['spec']['startupDelay']}"
        )
        ready = Condition("Ready", FALSE, "StartingUp", message)
    return EmbeddedMachineDecision(
        patch=patch,
        create_node=_new_node(snapshot) if missing and delay <= 0 else None,
        status=_provisioned_status(obj, ready, now_rfc3339),
        requeue_after=delay if missing and delay > 0 else failure.seconds_left if failure is not None else None,
    )


def _failure_decision(
    snapshot: EmbeddedMachineSnapshot, failure: InjectedFailure, now_rfc3339: str
) -> EmbeddedMachineDecision:
    obj, ready = snapshot.infrastructure, Condition("Ready", FALSE, failure.reason, failure.message)
    if failure.kind == CREATE:
        return EmbeddedMachineDecision(
            patch=claim_patch(obj, finalizer=MACHINE_FINALIZER), status=_not_ready_status(obj, ready, now_rfc3339)
        )
    crashed = failure.kind == CRASH and snapshot.node is not None and not has_crashed(snapshot.node)
    return EmbeddedMachineDecision(
        patch=_patch(obj),
        crash_patch=CRASHED_NODE_PATCH if crashed else None,
        status=_provisioned_status(obj, ready, now_rfc3339),
    )


def _decide_deletion(snapshot: EmbeddedMachineSnapshot) -> EmbeddedMachineDecision:
    """A deleting Node may wait for finalizers of others; the machine is off all the same."""
    node_left = snapshot.node is not None and _owns_node(snapshot) and not is_deleting(snapshot.node)
    if node_left and snapshot.logical_cluster is not None and not is_deleting(snapshot.logical_cluster):
        return EmbeddedMachineDecision(delete_node=True)
    return EmbeddedMachineDecision(patch=release_patch(snapshot.infrastructure, MACHINE_FINALIZER))


def _waiting_condition(snapshot: EmbeddedMachineSnapshot) -> Condition | None:
    if snapshot.machine is None or snapshot.cluster is None:
        return Condition(
            "Ready", FALSE, "WaitingForOwner", "Waiting for a Machine of a Cluster that refers to this EmbeddedMachine"
        )
    if not initialization_flag(snapshot.cluster, "infrastructureProvisioned") or snapshot.logical_cluster is None:
        message = "Waiting for Cluster status.initialization.infrastructureProvisioned to be true"
        return Condition("Ready", FALSE, "WaitingForClusterInfrastructure", message)
    if is_deleting(snapshot.logical_cluster):
        return Condition("Ready", FALSE, "WaitingForClusterInfrastructure", "The cluster is being deleted")
    return None


def _owns_node(snapshot: EmbeddedMachineSnapshot) -> bool:
    metadata = snapshot.infrastructure["metadata"]
    current_id = ((snapshot.node or {}).get("spec") or {}).get("providerID")
    return bool(current_id == provider_id(metadata["namespace"], metadata["name"]))


def _patch(obj: Object) -> Object | None:
    patch = claim_patch(obj, finalizer=MACHINE_FINALIZER)
    desired_id = provider_id(obj["metadata"]["namespace"], obj["metadata"]["name"])
    if obj["spec"].get("providerID") != desired_id:
        return {**(patch or {}), "spec": {"providerID": desired_id}}
    return patch


def _startup_seconds_left(obj: Object, now: float) -> float:
    """Seconds until the Node may be created."""
    created = parse_time(obj["metadata"].get("creationTimestamp")) or now
    wait = parse_duration(obj["spec"].get("startupDelay"))
    return created + wait - now if wait else 0.0


def _new_node(snapshot: EmbeddedMachineSnapshot) -> Object:
    assert snapshot.machine is not None
    assert snapshot.logical_cluster is not None
    spec = snapshot.machine["spec"]
    version = (
        spec.get("version") or (snapshot.logical_cluster.get("spec") or {}).get("version") or DEFAULT_KUBELET_VERSION
    )
    return new_node(
        snapshot.infrastructure,
        version,
        labels=node_labels(snapshot.machine["metadata"].get("labels") or {}),
        annotations=node_annotations(snapshot.machine),
        taints=spec.get("taints") or (),
    )


def _provisioned_status(obj: Object, ready: Condition, now: str) -> Object | None:
    metadata, spec = obj["metadata"], obj["spec"]
    status = {
        "initialization": {"provisioned": True},
        "addresses": node_addresses(metadata["namespace"], metadata["name"]),
        "failureDomain": spec.get("zone") or DEFAULT_ZONE,
        "interruptible": True if spec.get("capacityType") == "spot" else None,
    }
    new = with_status(obj, status, [ready, paused_condition(False, None)], now)
    return None if new is obj else new


def _not_ready_status(obj: Object, ready: Condition, now: str) -> Object | None:
    """Fields that were reached before stay in the status, whatever Ready is now."""
    status = {key: value for key, value in (obj.get("status") or {}).items() if key != "conditions"}
    new = with_status(obj, status, [ready, paused_condition(False, None)], now)
    return None if new is obj else new
