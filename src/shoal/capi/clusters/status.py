"""Builds the status of a Cluster: phase, counts and the conditions of the v1beta2 contract. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.capi.conditions import (
    AVAILABLE_REASONS,
    FALSE,
    READY_REASONS,
    TRUE,
    UNKNOWN,
    UP_TO_DATE_REASONS,
    Condition,
    ConditionReasons,
    aggregate_condition,
    bool_condition,
    by_type,
    conditions_of,
    merge_messages,
    mirror_condition,
    paused_condition,
    summary_condition,
    with_status,
)
from shoal.capi.replicas import count_with_condition, remediating_condition, version_counts
from shoal.kinds.clusterapi.capi import (
    CONTROL_PLANE,
    control_plane_endpoint,
    controller_uid,
    initialization_flag,
    is_deleting,
    labels_of,
)
from shoal.objects.conditions import condition_is, get_condition

Object = dict[str, Any]

DELETED_REASONS = ("ObjectDeleted", "ObjectDoesNotExist")
"""Reasons that are expected while the object is deleted."""
PROBE_REASONS = ConditionReasons("ProbeSucceeded", "ProbeFailed", "ProbeFailed")
INITIALIZED_REASONS = ConditionReasons("Initialized", "NotInitialized", "NotInitialized")


@dataclass(frozen=True, slots=True)
class ClusterStatusInputs:
    """Objects that a Cluster's status is computed from."""

    infrastructure: Object | None
    control_plane: Object | None
    """The infrastructure object itself, if it serves as both."""
    deployments: Sequence[Object]
    machine_sets: Sequence[Object]
    machines: Sequence[Object]
    is_reachable: bool | None = None


def cluster_status(cluster: Object, inputs: ClusterStatusInputs, deleting: tuple[str, str], now: str) -> Object:
    """The Cluster with its desired status; the identical object if nothing changes."""
    spec = cluster.get("spec") or {}
    infrastructure, control_plane, deployments = inputs.infrastructure, inputs.control_plane, inputs.deployments
    control_plane_machines = [machine for machine in inputs.machines if CONTROL_PLANE in labels_of(machine)]
    workers = [machine for machine in inputs.machines if CONTROL_PLANE not in labels_of(machine)]
    standalone_sets = [each for each in inputs.machine_sets if not controller_uid(each)]
    provisioned = (
        initialization_flag(cluster, "infrastructureProvisioned")
        or initialization_flag(infrastructure, "provisioned")
        or not spec.get("infrastructureRef")
    )
    initialized = initialization_flag(cluster, "controlPlaneInitialized") or _is_initialized(
        spec, control_plane, control_plane_machines
    )
    initialization_state = {"infrastructureProvisioned": provisioned, "controlPlaneInitialized": initialized}
    status = {
        "initialization": {key: True for key, value in initialization_state.items() if value} or None,
        "failureDomains": ((infrastructure or {}).get("status") or {}).get("failureDomains"),
        "controlPlane": _control_plane_counts(control_plane)
        if spec.get("controlPlaneRef")
        else _counts(len(control_plane_machines), control_plane_machines),
        "workers": _counts(_desired_workers([*deployments, *standalone_sets], workers), workers),
        "phase": _phase(cluster, infrastructure, provisioned),
    }
    conditions = [
        *_probe_conditions(inputs.is_reachable),
        _infrastructure_ready_condition(cluster, infrastructure, provisioned),
        _control_plane_initialized_condition(cluster, control_plane, initialized),
        _control_plane_available_condition(cluster, control_plane, initialized),
        _workers_available_condition(deployments),
        *_machine_conditions("ControlPlane", control_plane_machines),
        *_machine_conditions("Worker", workers),
        _any_true_condition("RollingOut", [control_plane, *deployments]),
        _any_true_condition("ScalingUp", [control_plane, *deployments, *standalone_sets]),
        _any_true_condition("ScalingDown", [control_plane, *deployments, *standalone_sets]),
        remediating_condition(inputs.machines, ""),
        _deleting_condition(cluster, deleting),
        paused_condition(False, None),
    ]
    return with_status(cluster, status, [_available_condition(cluster, conditions), *conditions], now)


def _is_initialized(spec: Object, control_plane: Object | None, control_plane_machines: Sequence[Object]) -> bool:
    """As the control plane object reports. A control plane of Machines only is initialized when one of them has a
    Node.
    """
    if initialization_flag(control_plane, "controlPlaneInitialized"):
        return True
    return "controlPlaneRef" not in spec and any(
        (each.get("status") or {}).get("nodeRef") for each in control_plane_machines
    )


def _control_plane_counts(control_plane: Object | None) -> Object:
    """Counts as the control plane object reports them; they are optional."""
    spec, status = ((control_plane or {}).get(part) or {} for part in ("spec", "status"))
    fields = ("replicas", "readyReplicas", "availableReplicas", "upToDateReplicas", "versions")
    counts = {field: status[field] for field in fields if status.get(field) is not None}
    return {**({"desiredReplicas": spec["replicas"]} if "replicas" in spec else {}), **counts}


def _probe_conditions(is_reachable: bool | None) -> list[Condition]:
    if is_reachable is None:
        return []
    return [
        bool_condition("RemoteConnectionProbe", is_reachable, PROBE_REASONS, "Remote connection not established yet")
    ]


def _phase(cluster: Object, infrastructure: Object | None, provisioned: bool) -> str:
    spec = cluster.get("spec") or {}
    if is_deleting(cluster):
        return "Deleting"
    if provisioned and spec.get("infrastructureRef") and infrastructure is None:
        return "Failed"
    if provisioned and control_plane_endpoint(cluster) is not None:
        return "Provisioned"
    return "Provisioning" if spec.get("infrastructureRef") or spec.get("controlPlaneRef") else "Pending"


def _counts(desired: int, machines: Sequence[Object]) -> Object:
    counts = {
        "desiredReplicas": desired,
        "replicas": len(machines),
        "readyReplicas": count_with_condition(machines, "Ready"),
        "availableReplicas": count_with_condition(machines, "Available"),
        "upToDateReplicas": count_with_condition(machines, "UpToDate"),
    }
    by_version = version_counts(machines)
    return {**counts, "versions": by_version} if by_version else counts


def _desired_workers(owners: Sequence[Object], workers: Sequence[Object]) -> int:
    """Standalone owners and Machines; a MachineSet of a MachineDeployment is counted there."""
    single = sum(not controller_uid(machine) for machine in workers)
    return sum(int(each["spec"].get("replicas", 1)) for each in owners) + single


def _infrastructure_ready_condition(cluster: Object, infrastructure: Object | None, provisioned: bool) -> Condition:
    reference = (cluster.get("spec") or {}).get("infrastructureRef")
    if reference is None:
        return Condition("InfrastructureReady", TRUE, "Ready")
    kind = reference["kind"]
    if infrastructure is not None:
        message = f"{kind} status.initialization.provisioned is {str(provisioned).lower()}"
        fallback = bool_condition("InfrastructureReady", provisioned, READY_REASONS, message)
        return mirror_condition(infrastructure, "Ready", "InfrastructureReady", fallback)
    if provisioned and not is_deleting(cluster):
        message = f"{kind} has been deleted while the cluster still exists"
        return Condition("InfrastructureReady", FALSE, "ObjectDeleted", message)
    if provisioned:
        return Condition("InfrastructureReady", FALSE, "ObjectDeleted", f"{kind} has been deleted")
    return Condition("InfrastructureReady", FALSE, "ObjectDoesNotExist", f"{kind} does not exist")


def _control_plane_initialized_condition(cluster: Object, control_plane: Object | None, initialized: bool) -> Condition:
    kind = ((cluster.get("spec") or {}).get("controlPlaneRef") or {}).get("kind")
    if kind and control_plane is None and not initialized:
        return Condition("ControlPlaneInitialized", UNKNOWN, "ObjectDoesNotExist", f"{kind} does not exist")
    return bool_condition(
        "ControlPlaneInitialized", initialized, INITIALIZED_REASONS, "Control plane not yet initialized"
    )


def _control_plane_available_condition(cluster: Object, control_plane: Object | None, initialized: bool) -> Condition:
    type_ = "ControlPlaneAvailable"
    spec = cluster.get("spec") or {}
    kind = (spec.get("controlPlaneRef") or spec.get("infrastructureRef") or {}).get("kind", "control plane")
    if control_plane is not None:
        message = f"{kind} status.initialization.controlPlaneInitialized is {str(initialized).lower()}"
        return mirror_condition(
            control_plane, "Available", type_, bool_condition(type_, initialized, AVAILABLE_REASONS, message)
        )
    if not initialized:
        return Condition(type_, FALSE, "ObjectDoesNotExist", f"{kind} does not exist")
    end = "" if is_deleting(cluster) else " while the cluster still exists"
    return Condition(type_, FALSE, "ObjectDeleted", f"{kind} has been deleted{end}")


def _workers_available_condition(deployments: Sequence[Object]) -> Condition:
    if not deployments:
        return Condition("WorkersAvailable", TRUE, "NoWorkers")
    return aggregate_condition("WorkersAvailable", deployments, "Available", "MachineDeployment", AVAILABLE_REASONS)


def _machine_conditions(which: str, machines: Sequence[Object]) -> list[Condition]:
    ready, current = f"{which}MachinesReady", f"{which}MachinesUpToDate"
    if not machines:
        return [Condition(ready, TRUE, "NoReplicas"), Condition(current, TRUE, "NoReplicas")]
    # A standalone Machine has no template to be up to date with, and a new one has no condition yet.
    with_condition = [machine for machine in machines if get_condition(machine, "UpToDate") is not None]
    return [
        aggregate_condition(ready, machines, "Ready", "Machine", READY_REASONS),
        aggregate_condition(current, with_condition, "UpToDate", "Machine", UP_TO_DATE_REASONS),
    ]


def _any_true_condition(type_: str, objects: Sequence[Object | None]) -> Condition:
    """True if the condition is True for any object."""
    active = [obj for obj in objects if obj is not None and condition_is(obj, type_)]
    if not active:
        return Condition(type_, FALSE, f"Not{type_}")
    kinds = sorted({str(obj["kind"]) for obj in active})
    lines = [merge_messages(kind, [obj for obj in active if obj["kind"] == kind], type_) for kind in kinds]
    return Condition(type_, TRUE, type_, "\n".join(lines))


def _deleting_condition(cluster: Object, deleting: tuple[str, str]) -> Condition:
    if not is_deleting(cluster):
        return Condition("Deleting", FALSE, "NotDeleting")
    return Condition("Deleting", TRUE, *deleting)


def _available_condition(cluster: Mapping[str, Any], conditions: Sequence[Condition]) -> Condition:
    gates = (cluster.get("spec") or {}).get("availabilityGates") or ()
    all_conditions = conditions_of(cluster) | by_type(conditions)
    types = ["Deleting", "InfrastructureReady", "ControlPlaneAvailable", "WorkersAvailable"]
    if "RemoteConnectionProbe" in all_conditions:
        types.insert(1, "RemoteConnectionProbe")
    types += [str(gate["conditionType"]) for gate in gates]
    negative = ["Deleting", *(str(gate["conditionType"]) for gate in gates if gate.get("polarity") == "Negative")]
    if is_deleting(cluster):
        types = [
            type_
            for type_ in types
            if type_ not in all_conditions or all_conditions[type_].reason not in DELETED_REASONS
        ]
    return summary_condition("Available", all_conditions, types, AVAILABLE_REASONS, negative)
