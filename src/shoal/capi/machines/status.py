"""Builds the status of a Machine: phase, Node and the conditions of the v1beta2 contract. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal.capi.conditions import (
    FALSE,
    READY_REASONS,
    TRUE,
    UNKNOWN,
    Condition,
    bool_condition,
    by_type,
    conditions_of,
    mirror_condition,
    paused_condition,
    summary_condition,
    with_status,
)
from shoal.capi.templates import is_rollout_after_expired, rollout_reasons
from shoal.kinds.clusterapi.capi import initialization_flag, is_deleting
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

NODE_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
DELETED_REASONS = ("ObjectDeleted", "ObjectDoesNotExist", "NodeDeleted", "NodeDoesNotExist")
"""Reasons that are expected while the object is deleted."""
LONG_DELETION_SECONDS = 15 * 60


class DeletionProgress(NamedTuple):
    """Progress of a Machine's deletion: reason and message of its condition, and `status.deletion`."""

    reason: str
    message: str
    times: Object


@dataclass(frozen=True, slots=True)
class MachineStatusInputs:
    """Objects that a Machine's status is computed from."""

    cluster: Object | None
    infrastructure: Object | None
    node: Object | None
    machine_set: Object | None
    deployment: Object | None


def machine_status(
    machine: Object, inputs: MachineStatusInputs, progress: DeletionProgress | None, now: float, now_rfc3339: str
) -> tuple[Object, float | None]:
    """The Machine with its desired status (the identical object if nothing changes), and seconds until it must be
    computed again.
    """
    old = machine.get("status") or {}
    infrastructure, node = inputs.infrastructure, inputs.node
    reported = (infrastructure or {}).get("status") or {}
    provisioned = initialization_flag(machine, "infrastructureProvisioned") or (
        initialization_flag(infrastructure, "provisioned") and bool(machine["spec"].get("providerID"))
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
        "deletion": (progress.times if progress is not None else old.get("deletion")) or None,
    }
    phase = _phase(machine, infrastructure, provisioned, bootstrapped, node_ref)
    status |= {"phase": phase, "lastUpdated": old.get("lastUpdated") if phase == old.get("phase") else now_rfc3339}
    deleting = Condition("Deleting", FALSE, "NotDeleting")
    if is_deleting(machine):
        deleting = Condition("Deleting", TRUE, *progress[:2]) if progress else Condition("Deleting", TRUE, "Deleting")
    conditions = [
        _bootstrap_condition(machine),
        _infrastructure_condition(machine, infrastructure, provisioned),
        *_node_conditions(machine, inputs, node_ref),
        Condition("Updating", FALSE, "NotUpdating"),
        deleting,
        *_up_to_date_conditions(machine, inputs, now),
        paused_condition(False, None),
    ]
    ready = _ready_condition(machine, conditions, now)
    available, requeue_after = _available_condition(machine, ready, now)
    return with_status(machine, status, [ready, available, *conditions], now_rfc3339), requeue_after


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


def _bootstrap_condition(machine: Object) -> Condition:
    reference = (machine["spec"].get("bootstrap") or {}).get("configRef")
    if reference is None:
        return Condition("BootstrapConfigReady", TRUE, "DataSecretProvided")
    message = f"{reference['kind']} does not exist: no bootstrap provider runs here"
    return Condition("BootstrapConfigReady", FALSE, "ObjectDoesNotExist", message)


def _infrastructure_condition(machine: Object, infrastructure: Object | None, provisioned: bool) -> Condition:
    type_, kind = "InfrastructureReady", machine["spec"]["infrastructureRef"]["kind"]
    if infrastructure is not None:
        message = f"{kind} status.initialization.provisioned is {str(provisioned).lower()}"
        return mirror_condition(
            infrastructure, "Ready", type_, bool_condition(type_, provisioned, READY_REASONS, message)
        )
    if not provisioned:
        return Condition(type_, FALSE, "ObjectDoesNotExist", f"{kind} does not exist")
    end = "" if is_deleting(machine) else " while the Machine still exists"
    return Condition(type_, FALSE, "ObjectDeleted", f"{kind} has been deleted{end}")


def _node_conditions(machine: Object, inputs: MachineStatusInputs, node_ref: Object | None) -> list[Condition]:
    if inputs.node is not None:
        return _conditions_from_node(inputs.node)
    status, reason, message = _missing_node_state(machine, inputs, node_ref)
    return [Condition(type_, status, reason, message) for type_ in ("NodeReady", "NodeHealthy")]


def _missing_node_state(machine: Object, inputs: MachineStatusInputs, node_ref: Object | None) -> tuple[str, str, str]:
    if node_ref:
        end = "" if is_deleting(machine) else " while the Machine still exists"
        return FALSE, "NodeDeleted", f"Node {node_ref['name']} has been deleted{end}"
    if is_deleting(machine):
        return UNKNOWN, "NodeDoesNotExist", "Node does not exist"
    if not initialization_flag(inputs.cluster, "infrastructureProvisioned"):
        message = "Waiting for Cluster status.initialization.infrastructureProvisioned to be true"
    elif not initialization_flag(inputs.cluster, "controlPlaneInitialized"):
        message = "Waiting for Cluster control plane to be initialized"
    elif machine["spec"].get("providerID"):
        message = f"Waiting for a Node with spec.providerID {machine['spec']['providerID']} to exist"
    else:
        message = f"Waiting for {machine['spec']['infrastructureRef']['kind']} to report spec.providerID"
    return UNKNOWN, "InspectionFailed", message


def _conditions_from_node(node: Object) -> list[Condition]:
    ready = get_condition(node, "Ready")
    status = str(ready["status"]) if ready is not None else UNKNOWN
    reason = {TRUE: "NodeReady", FALSE: "NodeNotReady"}.get(status, "NodeReadyUnknown")
    problem = _node_problem(node, "Ready", TRUE)
    node_ready = Condition("NodeReady", status, reason, f"* Node.Ready: {problem[1]}" if problem else "")
    problems = {"Ready": problem} | {type_: _node_problem(node, type_, FALSE) for type_ in NODE_PRESSURES}
    present = {type_: each for type_, each in problems.items() if each is not None}
    worst = FALSE if any(not unknown for unknown, _ in present.values()) else UNKNOWN if present else TRUE
    healthy = {TRUE: "NodeHealthy", FALSE: "NodeNotHealthy"}.get(worst, "NodeHealthyUnknown")
    lines = [f"* Node.{type_}: {message}" for type_, (_, message) in present.items()]
    if len(present) > 1 and len({message for _, message in present.values()}) == 1:
        lines = [f"* Node.AllConditions: {next(iter(present.values()))[1]}"]
    return [node_ready, Condition("NodeHealthy", worst, healthy, "\n".join(lines))]


def _node_problem(node: Object, type_: str, good: str) -> tuple[bool, str] | None:
    """Whether the status is unknown, and the message, of a condition that is not as it should be.

    Simulated Nodes report no pressures: an unreported one counts as absent.
    """
    condition = get_condition(node, type_)
    if condition is None:
        return (True, "Condition not yet reported") if type_ == "Ready" else None
    status = str(condition["status"])
    return None if status == good else (status == UNKNOWN, str(condition.get("message") or f"Condition is {status}"))


def _up_to_date_conditions(machine: Object, inputs: MachineStatusInputs, now: float) -> list[Condition]:
    """Only for Machines of a MachineDeployment."""
    if inputs.machine_set is None or inputs.deployment is None:
        return []
    reasons = rollout_reasons(inputs.machine_set["spec"]["template"], inputs.deployment["spec"]["template"])
    if is_rollout_after_expired(inputs.deployment, inputs.machine_set, now):
        reasons.append("MachineDeployment spec.rollout.after expired")
    if reasons:
        return [Condition("UpToDate", FALSE, "NotUpToDate", "\n".join(f"* {each}" for each in reasons))]
    desired_version, kubelet_version = machine["spec"].get("version"), _kubelet_version(machine, inputs)
    if desired_version and kubelet_version and desired_version != kubelet_version:
        message = f"* Node.status.nodeInfo.kubeletVersion {kubelet_version}, {desired_version} required"
        return [Condition("UpToDate", FALSE, "Updating", message)]
    return [Condition("UpToDate", TRUE, "UpToDate")]


def _kubelet_version(machine: Object, inputs: MachineStatusInputs) -> str:
    """The kubelet version the Node reports, or reported last."""
    info = ((inputs.node or {}).get("status") or {}).get("nodeInfo") or (machine.get("status") or {}).get("nodeInfo")
    return str((info or {}).get("kubeletVersion", ""))


def _ready_condition(machine: Object, conditions: Sequence[Condition], now: float) -> Condition:
    gates = machine["spec"].get("readinessGates") or ()
    current = conditions_of(machine)
    types = ["Deleting", "Updating", "BootstrapConfigReady", "InfrastructureReady", "NodeHealthy"]
    types += ["HealthCheckSucceeded"] if "HealthCheckSucceeded" in current else []
    types += [str(gate["conditionType"]) for gate in gates]
    negative = ["Deleting", "Updating"]
    negative += [str(gate["conditionType"]) for gate in gates if gate.get("polarity") == "Negative"]
    all_conditions = current | by_type(conditions)
    if is_deleting(machine):
        all_conditions["Deleting"] = _short_deleting_condition(machine, all_conditions["Deleting"], now)
        types = [
            type_
            for type_ in types
            if type_ not in all_conditions or all_conditions[type_].reason not in DELETED_REASONS
        ]
    return summary_condition("Ready", all_conditions, types, READY_REASONS, negative)


def _short_deleting_condition(machine: Object, deleting: Condition, now: float) -> Condition:
    """Without details, so that the messages of many Machines are equal and merged."""
    deleted = parse_time(machine["metadata"]["deletionTimestamp"]) or now
    since = " since more than 15m" if now - deleted > LONG_DELETION_SECONDS else ""
    return deleting._replace(message=f"Machine deletion in progress{since}, stage: {deleting.reason}")


def _available_condition(machine: Object, ready: Condition, now: float) -> tuple[Condition, float | None]:
    if ready.status != TRUE:
        return Condition("Available", FALSE, "NotReady"), None
    wait = float(machine["spec"].get("minReadySeconds") or 0)
    since = _true_since(machine, "Ready", now)
    if wait and now - since < wait:
        return Condition("Available", FALSE, "WaitingForMinReadySeconds"), wait - (now - since)
    return Condition("Available", TRUE, "Available"), None


def _true_since(machine: Mapping[str, Any], type_: str, now: float) -> float:
    old = get_condition(machine, type_)
    if old is None or old["status"] != TRUE:
        return now
    moment = parse_time(old.get("lastTransitionTime"))
    return now if moment is None else moment
