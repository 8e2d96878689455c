"""Builds the status of a Machine: phase, Node and the conditions of the v1beta2 contract. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal.capi.conditions import (
    FALSE,
    READY,
    TRUE,
    UNKNOWN,
    Condition,
    by_type,
    holds,
    mirror,
    own_conditions,
    paused_condition,
    summary,
    with_status,
)
from shoal.capi.templates import differences, expired
from shoal.kinds.capi import initialization, is_deleting
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

NODE_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
GONE = ("ObjectDeleted", "ObjectDoesNotExist", "NodeDeleted", "NodeDoesNotExist")
"""Reasons that are expected while the object is deleted."""
LONG = 15 * 60


class Progress(NamedTuple):
    """Progress of a Machine's deletion: reason and message of its condition, and `status.deletion`."""

    reason: str
    message: str
    begun: Object


@dataclass(frozen=True, slots=True)
class Facts:
    """Objects that a Machine's status is computed from."""

    cluster: Object | None
    infrastructure: Object | None
    node: Object | None
    machine_set: Object | None
    deployment: Object | None


def machine_status(
    machine: Object, facts: Facts, progress: Progress | None, now: float, stamp: str
) -> tuple[Object, float | None]:
    """The Machine with its desired status (the identical object if nothing changes), and seconds until it must be
    computed again.
    """
    old = machine.get("status") or {}
    infrastructure, node = facts.infrastructure, facts.node
    reported = (infrastructure or {}).get("status") or {}
    provisioned = initialization(machine, "infrastructureProvisioned") or (
        initialization(infrastructure, "provisioned") and bool(machine["spec"].get("providerID"))
    )
    bootstrapped = "configRef" not in (machine["spec"].get("bootstrap") or {})
    node_ref = {"name": node["metadata"]["name"]} if node is not None else old.get("nodeRef")
    initialized = {"infrastructureProvisioned": provisioned, "bootstrapDataSecretCreated": bootstrapped}
    status: Object = {
        "initialization": {key: True for key, value in initialized.items() if value} or None,
        "addresses": reported.get("addresses") or old.get("addresses"),
        "failureDomain": reported.get("failureDomain") or old.get("failureDomain"),
        "nodeRef": node_ref,
        "nodeInfo": ((node or {}).get("status") or {}).get("nodeInfo") or old.get("nodeInfo"),
        "deletion": (progress.begun if progress is not None else old.get("deletion")) or None,
    }
    phase = _phase(machine, infrastructure, provisioned, bootstrapped, node_ref)
    status |= {"phase": phase, "lastUpdated": old.get("lastUpdated") if phase == old.get("phase") else stamp}
    deleting = Condition("Deleting", FALSE, "NotDeleting")
    if is_deleting(machine):
        deleting = Condition("Deleting", TRUE, *progress[:2]) if progress else Condition("Deleting", TRUE, "Deleting")
    found = [
        _bootstrap(machine),
        _infrastructure(machine, infrastructure, provisioned),
        *_node_conditions(machine, facts, node_ref),
        Condition("Updating", FALSE, "NotUpdating"),
        deleting,
        *_up_to_date(machine, facts, now),
        paused_condition(False, None),
    ]
    ready = _ready(machine, found, now)
    available, again = _available(machine, ready, now)
    return with_status(machine, status, [ready, available, *found], stamp), again


def _phase(
    machine: Object, infrastructure: Object | None, provisioned: bool, bootstrapped: bool, node_ref: Object | None
) -> str:
    if is_deleting(machine):
        return "Deleting"
    if provisioned and infrastructure is None:
        return "Failed"
    if provisioned and node_ref:
        return "Running"
    if machine["spec"].get("providerID"):
        return "Provisioned"
    return "Provisioning" if bootstrapped and infrastructure is not None else "Pending"


def _bootstrap(machine: Object) -> Condition:
    reference = (machine["spec"].get("bootstrap") or {}).get("configRef")
    if reference is None:
        return Condition("BootstrapConfigReady", TRUE, "DataSecretProvided")
    message = f"{reference['kind']} does not exist: no bootstrap provider runs here"
    return Condition("BootstrapConfigReady", FALSE, "ObjectDoesNotExist", message)


def _infrastructure(machine: Object, infrastructure: Object | None, provisioned: bool) -> Condition:
    type_, kind = "InfrastructureReady", machine["spec"]["infrastructureRef"]["kind"]
    if infrastructure is not None:
        message = f"{kind} status.initialization.provisioned is {str(provisioned).lower()}"
        return mirror(infrastructure, "Ready", type_, holds(type_, provisioned, READY, message))
    if not provisioned:
        return Condition(type_, FALSE, "ObjectDoesNotExist", f"{kind} does not exist")
    end = "" if is_deleting(machine) else " while the Machine still exists"
    return Condition(type_, FALSE, "ObjectDeleted", f"{kind} has been deleted{end}")


def _node_conditions(machine: Object, facts: Facts, node_ref: Object | None) -> list[Condition]:
    if facts.node is not None:
        return _of_node(facts.node)
    status, reason, message = _without_node(machine, facts, node_ref)
    return [Condition(type_, status, reason, message) for type_ in ("NodeReady", "NodeHealthy")]


def _without_node(machine: Object, facts: Facts, node_ref: Object | None) -> tuple[str, str, str]:
    if node_ref:
        end = "" if is_deleting(machine) else " while the Machine still exists"
        return FALSE, "NodeDeleted", f"Node {node_ref['name']} has been deleted{end}"
    if is_deleting(machine):
        return UNKNOWN, "NodeDoesNotExist", "Node does not exist"
    if not initialization(facts.cluster, "infrastructureProvisioned"):
        message = "Waiting for Cluster status.initialization.infrastructureProvisioned to be true"
    elif not initialization(facts.cluster, "controlPlaneInitialized"):
        message = "Waiting for Cluster control plane to be initialized"
    elif machine["spec"].get("providerID"):
        message = f"Waiting for a Node with spec.providerID {machine['spec']['providerID']} to exist"
    else:
        message = f"Waiting for {machine['spec']['infrastructureRef']['kind']} to report spec.providerID"
    return UNKNOWN, "InspectionFailed", message


def _of_node(node: Object) -> list[Condition]:
    ready = get_condition(node, "Ready")
    status = str(ready["status"]) if ready is not None else UNKNOWN
    reason = {TRUE: "NodeReady", FALSE: "NodeNotReady"}.get(status, "NodeReadyUnknown")
    said = _bad(node, "Ready", TRUE)
    own = Condition("NodeReady", status, reason, f"* Node.Ready: {said[1]}" if said else "")
    found = {"Ready": said} | {type_: _bad(node, type_, FALSE) for type_ in NODE_PRESSURES}
    bad = {type_: each for type_, each in found.items() if each is not None}
    worst = FALSE if any(not unknown for unknown, _ in bad.values()) else UNKNOWN if bad else TRUE
    healthy = {TRUE: "NodeHealthy", FALSE: "NodeNotHealthy"}.get(worst, "NodeHealthyUnknown")
    lines = [f"* Node.{type_}: {message}" for type_, (_, message) in bad.items()]
    if len(bad) > 1 and len({message for _, message in bad.values()}) == 1:
        lines = [f"* Node.AllConditions: {next(iter(bad.values()))[1]}"]
    return [own, Condition("NodeHealthy", worst, healthy, "\n".join(lines))]


def _bad(node: Object, type_: str, good: str) -> tuple[bool, str] | None:
    """Whether the status is unknown, and the message, of a condition that is not as it should be.

    Simulated Nodes report no pressures: an unreported one counts as absent.
    """
    found = get_condition(node, type_)
    if found is None:
        return (True, "Condition not yet reported") if type_ == "Ready" else None
    status = str(found["status"])
    return None if status == good else (status == UNKNOWN, str(found.get("message") or f"Condition is {status}"))


def _up_to_date(machine: Object, facts: Facts, now: float) -> list[Condition]:
    """Only for Machines of a MachineDeployment."""
    if facts.machine_set is None or facts.deployment is None:
        return []
    why = differences(facts.machine_set["spec"]["template"], facts.deployment["spec"]["template"])
    if expired(facts.deployment, facts.machine_set, now):
        why.append("MachineDeployment spec.rollout.after expired")
    if why:
        return [Condition("UpToDate", FALSE, "NotUpToDate", "\n".join(f"* {each}" for each in why))]
    wanted, has = machine["spec"].get("version"), _kubelet(machine, facts)
    if wanted and has and wanted != has:
        message = f"* Node.status.nodeInfo.kubeletVersion {has}, {wanted} required"
        return [Condition("UpToDate", FALSE, "Updating", message)]
    return [Condition("UpToDate", TRUE, "UpToDate")]


def _kubelet(machine: Object, facts: Facts) -> str:
    """The kubelet version the Node reports, or reported last."""
    info = ((facts.node or {}).get("status") or {}).get("nodeInfo") or (machine.get("status") or {}).get("nodeInfo")
    return str((info or {}).get("kubeletVersion", ""))


def _ready(machine: Object, found: Sequence[Condition], now: float) -> Condition:
    gates = machine["spec"].get("readinessGates") or ()
    own = own_conditions(machine)
    types = ["Deleting", "Updating", "BootstrapConfigReady", "InfrastructureReady", "NodeHealthy"]
    types += ["HealthCheckSucceeded"] if "HealthCheckSucceeded" in own else []
    types += [str(gate["conditionType"]) for gate in gates]
    negative = ["Deleting", "Updating"]
    negative += [str(gate["conditionType"]) for gate in gates if gate.get("polarity") == "Negative"]
    known = own | by_type(found)
    if is_deleting(machine):
        known["Deleting"] = _short(machine, known["Deleting"], now)
        types = [type_ for type_ in types if type_ not in known or known[type_].reason not in GONE]
    return summary("Ready", known, types, READY, negative)


def _short(machine: Object, deleting: Condition, now: float) -> Condition:
    """Without details, so that the messages of many Machines are equal and merged."""
    deleted = parse_time(machine["metadata"]["deletionTimestamp"]) or now
    since = " since more than 15m" if now - deleted > LONG else ""
    return deleting._replace(message=f"Machine deletion in progress{since}, stage: {deleting.reason}")


def _available(machine: Object, ready: Condition, now: float) -> tuple[Condition, float | None]:
    if ready.status != TRUE:
        return Condition("Available", FALSE, "NotReady"), None
    wait = float(machine["spec"].get("minReadySeconds") or 0)
    since = _since(machine, "Ready", now)
    if wait and now - since < wait:
        return Condition("Available", FALSE, "WaitingForMinReadySeconds"), wait - (now - since)
    return Condition("Available", TRUE, "Available"), None


def _since(machine: Mapping[str, Any], type_: str, now: float) -> float:
    old = get_condition(machine, type_)
    if old is None or old["status"] != TRUE:
        return now
    moment = parse_time(old.get("lastTransitionTime"))
    return now if moment is None else moment
