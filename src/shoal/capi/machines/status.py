"""status of a Machine: phase, Node, and the conditions of the v1beta2 contract. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Facts:
    """What a Machine's status tells of, besides itself."""

    cluster: Object | None
    infrastructure: Object | None
    node: Object | None
    machine_set: Object | None
    deployment: Object | None


def machine_status(
    machine: Object, facts: Facts, deleting: tuple[str, str], now: float, stamp: str
) -> tuple[Object, float | None]:
    """The Machine with its status as it should be (the very same where it is), and when to look again."""
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
        "deletion": old.get("deletion"),
    }
    phase = _phase(machine, infrastructure, provisioned, bootstrapped, node_ref)
    status |= {"phase": phase, "lastUpdated": old.get("lastUpdated") if phase == old.get("phase") else stamp}
    found = [
        _bootstrap(machine),
        _infrastructure(machine, infrastructure, provisioned),
        *_node_conditions(machine, facts, node_ref),
        Condition("Updating", FALSE, "NotUpdating"),
        Condition("Deleting", TRUE, *deleting) if is_deleting(machine) else Condition("Deleting", FALSE, "NotDeleting"),
        *_up_to_date(machine, facts, now),
        paused_condition(False, None),
    ]
    ready = _ready(machine, found)
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
    elif machine["spec"].get("providerID"):
        message = f"Waiting for a Node with spec.providerID {machine['spec']['providerID']} to exist"
    else:
        message = f"Waiting for {machine['spec']['infrastructureRef']['kind']} to report spec.providerID"
    return UNKNOWN, "InspectionFailed", message


def _of_node(node: Object) -> list[Condition]:
    ready = get_condition(node, "Ready") or {"status": UNKNOWN, "message": "Condition not yet reported"}
    status = str(ready["status"])
    reason = {TRUE: "NodeReady", FALSE: "NodeNotReady"}.get(status, "NodeReadyUnknown")
    said = f"* Node.Ready: {ready.get('message') or 'Condition is ' + status}" if status != TRUE else ""
    worst, lines = status, [said] if said else []
    for type_ in NODE_PRESSURES:
        found = get_condition(node, type_)
        if found is None or found["status"] == FALSE:
            continue
        worst = FALSE if found["status"] == TRUE else (worst if worst == FALSE else UNKNOWN)
        lines.append(f"* Node.{type_}: {found.get('message') or 'Condition is ' + found['status']}")
    healthy = {TRUE: "NodeHealthy", FALSE: "NodeNotHealthy"}.get(worst, "NodeHealthyUnknown")
    return [Condition("NodeReady", status, reason, said), Condition("NodeHealthy", worst, healthy, "\n".join(lines))]


def _up_to_date(machine: Object, facts: Facts, now: float) -> list[Condition]:
    """Of Machines of a MachineDeployment; others have nothing to be up to date with."""
    if facts.machine_set is None or facts.deployment is None:
        return []
    why = differences(facts.machine_set["spec"]["template"], facts.deployment["spec"]["template"])
    if expired(facts.deployment, facts.machine_set, now):
        why.append("MachineDeployment spec.rollout.after expired")
    if why:
        return [Condition("UpToDate", FALSE, "NotUpToDate", "\n".join(f"* {each}" for each in why))]
    return [Condition("UpToDate", TRUE, "UpToDate")]


def _ready(machine: Object, found: Sequence[Condition]) -> Condition:
    gates = machine["spec"].get("readinessGates") or ()
    own = own_conditions(machine)
    types = ["Deleting", "Updating", "BootstrapConfigReady", "InfrastructureReady", "NodeHealthy"]
    types += ["HealthCheckSucceeded"] if "HealthCheckSucceeded" in own else []
    types += [str(gate["conditionType"]) for gate in gates]
    negative = ["Deleting", "Updating"]
    negative += [str(gate["conditionType"]) for gate in gates if gate.get("polarity") == "Negative"]
    return summary("Ready", own | by_type(found), types, READY, negative)


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
