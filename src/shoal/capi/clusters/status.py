"""Builds the status of a Cluster: phase, counts and the conditions of the v1beta2 contract. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.capi.conditions import (
    AVAILABLE,
    FALSE,
    READY,
    TRUE,
    UNKNOWN,
    UP_TO_DATE,
    Condition,
    Reasons,
    aggregate,
    by_type,
    holds,
    mirror,
    own_conditions,
    paused_condition,
    summary,
    told,
    with_status,
)
from shoal.capi.replicas import having, remediating, versions
from shoal.kinds.capi import CONTROL_PLANE, controller_uid, endpoint_of, initialization, is_deleting, labels_of
from shoal.objects.conditions import condition_is, get_condition

Object = dict[str, Any]

GONE = ("ObjectDeleted", "ObjectDoesNotExist")
"""Reasons that are expected while the object is deleted."""
PROBE = Reasons("ProbeSucceeded", "ProbeFailed", "ProbeFailed")
INITIALIZED = Reasons("Initialized", "NotInitialized", "NotInitialized")


@dataclass(frozen=True, slots=True)
class Facts:
    """Objects that a Cluster's status is computed from."""

    infrastructure: Object | None
    control_plane: Object | None
    """The infrastructure object itself, if it serves as both."""
    deployments: Sequence[Object]
    sets: Sequence[Object]
    machines: Sequence[Object]
    is_reached: bool | None = None


def cluster_status(cluster: Object, facts: Facts, deleting: tuple[str, str], now: str) -> Object:
    """The Cluster with its desired status; the identical object if nothing changes."""
    spec = cluster.get("spec") or {}
    infrastructure, control_plane, deployments = facts.infrastructure, facts.control_plane, facts.deployments
    leaders = [machine for machine in facts.machines if CONTROL_PLANE in labels_of(machine)]
    workers = [machine for machine in facts.machines if CONTROL_PLANE not in labels_of(machine)]
    alone = [each for each in facts.sets if not controller_uid(each)]
    provisioned = (
        initialization(cluster, "infrastructureProvisioned")
        or initialization(infrastructure, "provisioned")
        or not spec.get("infrastructureRef")
    )
    initialized = initialization(cluster, "controlPlaneInitialized") or _is_initialized(spec, control_plane, leaders)
    reached = {"infrastructureProvisioned": provisioned, "controlPlaneInitialized": initialized}
    status = {
        "initialization": {key: True for key, value in reached.items() if value} or None,
        "failureDomains": ((infrastructure or {}).get("status") or {}).get("failureDomains"),
        "controlPlane": _reported(control_plane) if spec.get("controlPlaneRef") else _counts(len(leaders), leaders),
        "workers": _counts(_desired([*deployments, *alone], workers), workers),
        "phase": _phase(cluster, infrastructure, provisioned),
    }
    found = [
        *_probed(facts.is_reached),
        _infrastructure_ready(cluster, infrastructure, provisioned),
        _control_plane_initialized(cluster, control_plane, initialized),
        _control_plane_available(cluster, control_plane, initialized),
        _workers_available(deployments),
        *_machine_conditions("ControlPlane", leaders),
        *_machine_conditions("Worker", workers),
        _progress("RollingOut", [control_plane, *deployments]),
        _progress("ScalingUp", [control_plane, *deployments, *alone]),
        _progress("ScalingDown", [control_plane, *deployments, *alone]),
        remediating(facts.machines, ""),
        _deleting(cluster, deleting),
        paused_condition(False, None),
    ]
    return with_status(cluster, status, [_available(cluster, found), *found], now)


def _is_initialized(spec: Object, control_plane: Object | None, leaders: Sequence[Object]) -> bool:
    """As the control plane object reports. A control plane of Machines only is initialized when one of them has a
    Node.
    """
    if initialization(control_plane, "controlPlaneInitialized"):
        return True
    return "controlPlaneRef" not in spec and any((each.get("status") or {}).get("nodeRef") for each in leaders)


def _reported(control_plane: Object | None) -> Object:
    """Counts as the control plane object reports them; they are optional."""
    spec, status = ((control_plane or {}).get(part) or {} for part in ("spec", "status"))
    fields = ("replicas", "readyReplicas", "availableReplicas", "upToDateReplicas", "versions")
    found = {field: status[field] for field in fields if status.get(field) is not None}
    return {**({"desiredReplicas": spec["replicas"]} if "replicas" in spec else {}), **found}


def _probed(is_reached: bool | None) -> list[Condition]:
    if is_reached is None:
        return []
    return [holds("RemoteConnectionProbe", is_reached, PROBE, "Remote connection not established yet")]


def _phase(cluster: Object, infrastructure: Object | None, provisioned: bool) -> str:
    spec = cluster.get("spec") or {}
    if is_deleting(cluster):
        return "Deleting"
    if provisioned and spec.get("infrastructureRef") and infrastructure is None:
        return "Failed"
    if provisioned and endpoint_of(cluster) is not None:
        return "Provisioned"
    return "Provisioning" if spec.get("infrastructureRef") or spec.get("controlPlaneRef") else "Pending"


def _counts(desired: int, machines: Sequence[Object]) -> Object:
    counts = {
        "desiredReplicas": desired,
        "replicas": len(machines),
        "readyReplicas": having(machines, "Ready"),
        "availableReplicas": having(machines, "Available"),
        "upToDateReplicas": having(machines, "UpToDate"),
    }
    counted = versions(machines)
    return {**counts, "versions": counted} if counted else counts


def _desired(alone: Sequence[Object], workers: Sequence[Object]) -> int:
    """Standalone owners and Machines; a MachineSet of a MachineDeployment is counted there."""
    single = sum(not controller_uid(machine) for machine in workers)
    return sum(int(each["spec"].get("replicas", 1)) for each in alone) + single


def _infrastructure_ready(cluster: Object, infrastructure: Object | None, provisioned: bool) -> Condition:
    reference = (cluster.get("spec") or {}).get("infrastructureRef")
    if reference is None:
        return Condition("InfrastructureReady", TRUE, "Ready")
    kind = reference["kind"]
    if infrastructure is not None:
        message = f"{kind} status.initialization.provisioned is {str(provisioned).lower()}"
        fallback = holds("InfrastructureReady", provisioned, READY, message)
        return mirror(infrastructure, "Ready", "InfrastructureReady", fallback)
    if provisioned and not is_deleting(cluster):
        message = f"{kind} has been deleted while the cluster still exists"
        return Condition("InfrastructureReady", FALSE, "ObjectDeleted", message)
    if provisioned:
        return Condition("InfrastructureReady", FALSE, "ObjectDeleted", f"{kind} has been deleted")
    return Condition("InfrastructureReady", FALSE, "ObjectDoesNotExist", f"{kind} does not exist")


def _control_plane_initialized(cluster: Object, control_plane: Object | None, initialized: bool) -> Condition:
    kind = ((cluster.get("spec") or {}).get("controlPlaneRef") or {}).get("kind")
    if kind and control_plane is None and not initialized:
        return Condition("ControlPlaneInitialized", UNKNOWN, "ObjectDoesNotExist", f"{kind} does not exist")
    return holds("ControlPlaneInitialized", initialized, INITIALIZED, "Control plane not yet initialized")


def _control_plane_available(cluster: Object, control_plane: Object | None, initialized: bool) -> Condition:
    type_ = "ControlPlaneAvailable"
    spec = cluster.get("spec") or {}
    kind = (spec.get("controlPlaneRef") or spec.get("infrastructureRef") or {}).get("kind", "control plane")
    if control_plane is not None:
        message = f"{kind} status.initialization.controlPlaneInitialized is {str(initialized).lower()}"
        return mirror(control_plane, "Available", type_, holds(type_, initialized, AVAILABLE, message))
    if not initialized:
        return Condition(type_, FALSE, "ObjectDoesNotExist", f"{kind} does not exist")
    end = "" if is_deleting(cluster) else " while the cluster still exists"
    return Condition(type_, FALSE, "ObjectDeleted", f"{kind} has been deleted{end}")


def _workers_available(deployments: Sequence[Object]) -> Condition:
    if not deployments:
        return Condition("WorkersAvailable", TRUE, "NoWorkers")
    return aggregate("WorkersAvailable", deployments, "Available", "MachineDeployment", AVAILABLE)


def _machine_conditions(which: str, machines: Sequence[Object]) -> list[Condition]:
    ready, current = f"{which}MachinesReady", f"{which}MachinesUpToDate"
    if not machines:
        return [Condition(ready, TRUE, "NoReplicas"), Condition(current, TRUE, "NoReplicas")]
    # A standalone Machine has no template to be up to date with, and a new one has no condition yet.
    known = [machine for machine in machines if get_condition(machine, "UpToDate") is not None]
    return [
        aggregate(ready, machines, "Ready", "Machine", READY),
        aggregate(current, known, "UpToDate", "Machine", UP_TO_DATE),
    ]


def _progress(type_: str, objects: Sequence[Object | None]) -> Condition:
    """True if the condition is True for any object."""
    going = [obj for obj in objects if obj is not None and condition_is(obj, type_)]
    if not going:
        return Condition(type_, FALSE, f"Not{type_}")
    kinds = sorted({str(obj["kind"]) for obj in going})
    lines = [told(kind, [obj for obj in going if obj["kind"] == kind], type_) for kind in kinds]
    return Condition(type_, TRUE, type_, "\n".join(lines))


def _deleting(cluster: Object, deleting: tuple[str, str]) -> Condition:
    if not is_deleting(cluster):
        return Condition("Deleting", FALSE, "NotDeleting")
    return Condition("Deleting", TRUE, *deleting)


def _available(cluster: Mapping[str, Any], found: Sequence[Condition]) -> Condition:
    gates = (cluster.get("spec") or {}).get("availabilityGates") or ()
    known = own_conditions(cluster) | by_type(found)
    types = ["Deleting", "InfrastructureReady", "ControlPlaneAvailable", "WorkersAvailable"]
    if "RemoteConnectionProbe" in known:
        types.insert(1, "RemoteConnectionProbe")
    types += [str(gate["conditionType"]) for gate in gates]
    negative = ["Deleting", *(str(gate["conditionType"]) for gate in gates if gate.get("polarity") == "Negative")]
    if is_deleting(cluster):
        types = [type_ for type_ in types if type_ not in known or known[type_].reason not in GONE]
    return summary("Available", known, types, AVAILABLE, negative)
