"""What a Machine needs next: its owner and label, its provider id, its status, or one step of its deletion. Pure.

Deletion honours the pre-drain and pre-terminate hooks and deletes the infrastructure object; it drains nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.capi.conditions import only, paused_condition
from shoal.capi.machines.status import Facts, machine_status
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
    node_annotations,
    node_labels,
    owner_reference,
)

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Snapshot:
    machine: Object
    cluster: Object | None
    infrastructure: Object | None
    node: Object | None
    machine_set: Object | None = None
    deployment: Object | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    patch: Object | None = None
    """Of the Machine. The rest is decided anew after it."""
    infrastructure: Object | None = None
    """Patch of the infrastructure object."""
    node: Object | None = None
    """Patch of the Node."""
    delete: bool = False
    """The infrastructure object."""
    status: Object | None = None
    """The Machine with the status to write."""
    again: float | None = None


def decide(seen: Snapshot, now: float, stamp: str) -> Decision:
    """`stamp` is `now` as text."""
    machine = seen.machine
    if is_paused(seen.cluster, machine):
        new = only(machine, paused_condition(True, seen.cluster), stamp)
        return Decision(status=None if new is machine else new)
    if is_deleting(machine):
        return _deletion(seen, now, stamp)
    if seen.cluster is None:
        return Decision()  # it comes back with its Cluster
    new, again = _status(seen, ("", ""), now, stamp)
    return Decision(
        patch=_patch(seen),
        infrastructure=_claim(seen),
        node=_node(seen),
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
    """Believed once the infrastructure is provisioned."""
    if infrastructure is None or not initialization(infrastructure, "provisioned"):
        return ""
    return str((infrastructure.get("spec") or {}).get("providerID", ""))


def _claim(seen: Snapshot) -> Object | None:
    machine, infrastructure = seen.machine, seen.infrastructure
    if infrastructure is None or is_deleting(infrastructure):
        return None
    owner = owner_reference(machine, API_VERSION, MACHINE, controller=True)
    return claimed(infrastructure, owner=owner, labels={CLUSTER_NAME: cluster_name(machine)})


def _node(seen: Snapshot) -> Object | None:
    """What the Node says about its Machine, where it does not say it yet."""
    if seen.node is None or is_deleting(seen.node):
        return None
    metadata = seen.node["metadata"]
    wanted = {
        "labels": node_labels(seen.machine["metadata"].get("labels") or {}),
        "annotations": node_annotations(seen.machine),
    }
    patch = {
        field: {key: value for key, value in values.items() if (metadata.get(field) or {}).get(key) != value}
        for field, values in wanted.items()
    }
    missing = {field: values for field, values in patch.items() if values}
    return {"metadata": missing} if missing else None


def _deletion(seen: Snapshot, now: float, stamp: str) -> Decision:
    hooks = sorted(key for key in annotations_of(seen.machine) if key.startswith((PRE_DRAIN_HOOK, PRE_TERMINATE_HOOK)))
    if hooks:
        drain = hooks[0].startswith(PRE_DRAIN_HOOK)
        reason = "WaitingForPreDrainHook" if drain else "WaitingForPreTerminateHook"
        what = "pre-drain" if drain else "pre-terminate"
        return _waiting(seen, reason, f"Waiting for {what} hooks to succeed (hooks: {','.join(hooks)})", now, stamp)
    if seen.infrastructure is not None:
        kind = seen.machine["spec"]["infrastructureRef"]["kind"]
        waiting = _waiting(seen, "WaitingForInfrastructureDeletion", f"Waiting for {kind} to be deleted", now, stamp)
        return Decision(delete=not is_deleting(seen.infrastructure), status=waiting.status)
    return Decision(patch=released(seen.machine, MACHINE_FINALIZER))


def _waiting(seen: Snapshot, reason: str, message: str, now: float, stamp: str) -> Decision:
    new, _ = _status(seen, (reason, message), now, stamp)
    return Decision(status=None if new is seen.machine else new)


def _status(seen: Snapshot, deleting: tuple[str, str], now: float, stamp: str) -> tuple[Object, float | None]:
    facts = Facts(seen.cluster, seen.infrastructure, seen.node, seen.machine_set, seen.deployment)
    return machine_status(seen.machine, facts, deleting, now, stamp)
