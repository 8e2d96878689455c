"""status of a Cluster: phase, counts, and the conditions of the v1beta2 contract. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    with_status,
)
from shoal.kinds.capi import CONTROL_PLANE, controller_uid, endpoint_of, initialization, is_deleting, labels_of
from shoal.objects.conditions import condition_is, get_condition

Object = dict[str, Any]

INITIALIZED = Reasons("Initialized", "NotInitialized", "NotInitialized")


def cluster_status(
    cluster: Object,
    *,
    infrastructure: Object | None,
    control_plane: Object | None,
    deployments: Sequence[Object],
    sets: Sequence[Object],
    machines: Sequence[Object],
    deleting: tuple[str, str],
    now: str,
) -> Object:
    """The Cluster with its status as it should be; the very same object where it is."""
    spec = cluster.get("spec") or {}
    provisioned = (
        initialization(cluster, "infrastructureProvisioned")
        or initialization(infrastructure, "provisioned")
        or not spec.get("infrastructureRef")
    )
    initialized = initialization(cluster, "controlPlaneInitialized") or initialization(
        control_plane, "controlPlaneInitialized"
    )
    leaders = [machine for machine in machines if CONTROL_PLANE in labels_of(machine)]
    workers = [machine for machine in machines if CONTROL_PLANE not in labels_of(machine)]
    facts = {"infrastructureProvisioned": provisioned, "controlPlaneInitialized": initialized}
    status = {
        "initialization": {key: True for key, value in facts.items() if value} or None,
        "failureDomains": ((infrastructure or {}).get("status") or {}).get("failureDomains"),
        "controlPlane": _counts(len(leaders), leaders),
        "workers": _counts(_desired(deployments, sets, workers), workers),
        "phase": _phase(cluster, infrastructure, provisioned),
    }
    found = [
        _infrastructure_ready(cluster, infrastructure, provisioned),
        holds("ControlPlaneInitialized", initialized, INITIALIZED, "Control plane not yet initialized"),
        _control_plane_available(cluster, control_plane, initialized),
        _workers_available(deployments),
        *_machine_conditions("ControlPlane", leaders),
        *_machine_conditions("Worker", workers),
        _progress("RollingOut", deployments),
        _progress("ScalingUp", deployments),
        _progress("ScalingDown", deployments),
        Condition("Remediating", FALSE, "NotRemediating"),
        _deleting(cluster, deleting),
        paused_condition(False, None),
    ]
    return with_status(cluster, status, [_available(cluster, found), *found], now)


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
    def having(type_: str) -> int:
        return sum(condition_is(machine, type_) for machine in machines)

    return {
        "desiredReplicas": desired,
        "replicas": len(machines),
        "readyReplicas": having("Ready"),
        "availableReplicas": having("Available"),
        "upToDateReplicas": having("UpToDate"),
    }


def _desired(deployments: Sequence[Object], sets: Sequence[Object], workers: Sequence[Object]) -> int:
    """Of what stands for itself: a MachineSet of a MachineDeployment is counted there."""
    alone = [each for each in sets if not controller_uid(each)]
    single = sum(not controller_uid(machine) for machine in workers)
    return sum(int(each["spec"].get("replicas", 1)) for each in [*deployments, *alone]) + single


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


def _control_plane_available(cluster: Object, control_plane: Object | None, initialized: bool) -> Condition:
    type_ = "ControlPlaneAvailable"
    spec = cluster.get("spec") or {}
    kind = (spec.get("controlPlaneRef") or spec.get("infrastructureRef") or {}).get("kind", "control plane")
    if control_plane is None:
        return Condition(type_, UNKNOWN, "ObjectDoesNotExist", f"{kind} does not exist")
    message = f"{kind} status.initialization.controlPlaneInitialized is {str(initialized).lower()}"
    return mirror(control_plane, "Available", type_, holds(type_, initialized, AVAILABLE, message))


def _workers_available(deployments: Sequence[Object]) -> Condition:
    if not deployments:
        return Condition("WorkersAvailable", TRUE, "NoWorkers")
    return aggregate("WorkersAvailable", deployments, "Available", "MachineDeployment", AVAILABLE)


def _machine_conditions(which: str, machines: Sequence[Object]) -> list[Condition]:
    ready, current = f"{which}MachinesReady", f"{which}MachinesUpToDate"
    if not machines:
        return [Condition(ready, TRUE, "NoReplicas"), Condition(current, TRUE, "NoReplicas")]
    # A Machine that stands for itself has no template to be up to date with, and a new one does not know yet.
    known = [machine for machine in machines if get_condition(machine, "UpToDate") is not None]
    return [
        aggregate(ready, machines, "Ready", "Machine", READY),
        aggregate(current, known, "UpToDate", "Machine", UP_TO_DATE),
    ]


def _progress(type_: str, deployments: Sequence[Object]) -> Condition:
    """True while it is so for any MachineDeployment."""
    going = [each for each in deployments if condition_is(each, type_)]
    if not going:
        return Condition(type_, FALSE, f"Not{type_}")
    names = ", ".join(each["metadata"]["name"] for each in going)
    return Condition(type_, TRUE, type_, f"* MachineDeployment{'s' if len(going) > 1 else ''} {names}: {type_}")


def _deleting(cluster: Object, deleting: tuple[str, str]) -> Condition:
    if not is_deleting(cluster):
        return Condition("Deleting", FALSE, "NotDeleting")
    return Condition("Deleting", TRUE, *deleting)


def _available(cluster: Mapping[str, Any], found: Sequence[Condition]) -> Condition:
    gates = (cluster.get("spec") or {}).get("availabilityGates") or ()
    types = ["Deleting", "InfrastructureReady", "ControlPlaneAvailable", "WorkersAvailable"]
    types += [str(gate["conditionType"]) for gate in gates]
    negative = ["Deleting", *(str(gate["conditionType"]) for gate in gates if gate.get("polarity") == "Negative")]
    return summary("Available", own_conditions(cluster) | by_type(found), types, AVAILABLE, negative)
