"""Decides the next step of an EmbeddedMachine: provider id, Node, status, or one step of its deletion. Pure.

A machine is provisioned at once; its Node appears after the startup delay. A Node that is deleted is created again
while the machine exists: the machine is still powered on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.capi.conditions import FALSE, TRUE, Condition, only, paused_condition, with_status
from shoal.capi.writing import claimed, released
from shoal.kinds.capi import initialization, is_deleting, is_paused, node_annotations, node_labels
from shoal.kinds.embedded import KUBELET_VERSION, MACHINE_FINALIZER, addresses, node, provider_id, seconds
from shoal.kinds.embedded_failures import CRASH, CREATE, LOST, Failure, failure_of, has_crashed
from shoal.kinds.sizes import ZONE
from shoal.objects.duration import parse_time

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Snapshot:
    infrastructure: Object
    machine: Object | None
    """The Machine that owns it."""
    cluster: Object | None
    logical: Object | None
    """The LogicalCluster its Node belongs to."""
    node: Object | None
    """The Node of the same name in that cluster."""


@dataclass(frozen=True, slots=True)
class Decision:
    patch: Object | None = None
    """Patch of the EmbeddedMachine. The rest is decided again after it."""
    create: Object | None = None
    """The Node to create."""
    crash: Object | None = None
    """Patch of the Node of a lost machine."""
    delete: bool = False
    """Whether to delete the Node."""
    status: Object | None = None
    again: float | None = None


def decide(seen: Snapshot, now: float, stamp: str) -> Decision:
    """`now_rfc3339` is `now` as text."""
    obj = seen.infrastructure
    if is_paused(seen.cluster, obj):
        new = only(obj, paused_condition(True, seen.cluster), stamp)
        return Decision(status=None if new is obj else new)
    if is_deleting(obj):
        return _deletion(seen)
    waiting = _waiting_for(seen)
    if waiting is not None:
        return Decision(status=_said(obj, waiting, stamp))
    if seen.node is not None and not _is_mine(seen):
        message = f"Node {seen.node['metadata']['name']} exists and is another machine's"
        return Decision(status=_said(obj, Condition("Ready", FALSE, "NodeNameTaken", message), stamp))
    failure = failure_of(obj, now)
    if failure is not None and (failure.left <= 0 or failure.kind != CRASH):
        return _failed(seen, failure, stamp)
    patch, delay = _patch(obj), _delay(obj, now)
    missing = seen.node is None
    ready = Condition("Ready", TRUE, "Ready")
    if missing and delay > 0:
        message = f"The machine starts up, its Node comes {obj['spec']['startupDelay']} after its creation"
        ready = Condition("Ready", FALSE, "StartingUp", message)
    return Decision(
        patch=patch,
        create=_node(seen) if missing and delay <= 0 else None,
        status=_provisioned(obj, ready, stamp),
        again=delay if missing and delay > 0 else failure.left if failure is not None else None,
    )


def _failed(seen: Snapshot, failure: Failure, stamp: str) -> Decision:
    obj, ready = seen.infrastructure, Condition("Ready", FALSE, failure.reason, failure.message)
    if failure.kind == CREATE:
        return Decision(patch=claimed(obj, finalizer=MACHINE_FINALIZER), status=_said(obj, ready, stamp))
    crashed = failure.kind == CRASH and seen.node is not None and not has_crashed(seen.node)
    return Decision(patch=_patch(obj), crash=LOST if crashed else None, status=_provisioned(obj, ready, stamp))


def _deletion(seen: Snapshot) -> Decision:
    """A deleting Node may wait for finalizers of others; the machine is off all the same."""
    node_left = seen.node is not None and _is_mine(seen) and not is_deleting(seen.node)
    if node_left and seen.logical is not None and not is_deleting(seen.logical):
        return Decision(delete=True)
    return Decision(patch=released(seen.infrastructure, MACHINE_FINALIZER))


def _waiting_for(seen: Snapshot) -> Condition | None:
    if seen.machine is None or seen.cluster is None:
        return Condition("Ready", FALSE, "WaitingForOwner", "Waiting for a Machine of a Cluster to refer to this")
    if not initialization(seen.cluster, "infrastructureProvisioned") or seen.logical is None:
        message = "Waiting for Cluster status.initialization.infrastructureProvisioned to be true"
        return Condition("Ready", FALSE, "WaitingForClusterInfrastructure", message)
    if is_deleting(seen.logical):
        return Condition("Ready", FALSE, "WaitingForClusterInfrastructure", "The cluster is being deleted")
    return None


def _is_mine(seen: Snapshot) -> bool:
    metadata = seen.infrastructure["metadata"]
    found = ((seen.node or {}).get("spec") or {}).get("providerID")
    return bool(found == provider_id(metadata["namespace"], metadata["name"]))


def _patch(obj: Object) -> Object | None:
    patch = claimed(obj, finalizer=MACHINE_FINALIZER)
    wanted = provider_id(obj["metadata"]["namespace"], obj["metadata"]["name"])
    if obj["spec"].get("providerID") != wanted:
        return {**(patch or {}), "spec": {"providerID": wanted}}
    return patch


def _delay(obj: Object, now: float) -> float:
    """Seconds until the Node may be created."""
    created = parse_time(obj["metadata"].get("creationTimestamp")) or now
    wait = seconds(obj["spec"].get("startupDelay"))
    return created + wait - now if wait else 0.0


def _node(seen: Snapshot) -> Object:
    assert seen.machine is not None
    assert seen.logical is not None
    spec = seen.machine["spec"]
    version = spec.get("version") or (seen.logical.get("spec") or {}).get("version") or KUBELET_VERSION
    return node(
        seen.infrastructure,
        version,
        labels=node_labels(seen.machine["metadata"].get("labels") or {}),
        annotations=node_annotations(seen.machine),
        taints=spec.get("taints") or (),
    )


def _provisioned(obj: Object, ready: Condition, now: str) -> Object | None:
    metadata, spec = obj["metadata"], obj["spec"]
    status = {
        "initialization": {"provisioned": True},
        "addresses": addresses(metadata["namespace"], metadata["name"]),
        "failureDomain": spec.get("zone") or ZONE,
        "interruptible": True if spec.get("capacityType") == "spot" else None,
    }
    new = with_status(obj, status, [ready, paused_condition(False, None)], now)
    return None if new is obj else new


def _said(obj: Object, ready: Condition, now: str) -> Object | None:
    """Fields that were reached before stay in the status, whatever Ready is now."""
    status = {key: value for key, value in (obj.get("status") or {}).items() if key != "conditions"}
    new = with_status(obj, status, [ready, paused_condition(False, None)], now)
    return None if new is obj else new
