"""Builds the status of a MachineDeployment: counts and the conditions of the v1beta2 contract. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.capi.conditions import AVAILABLE, FALSE, TRUE, Condition, holds, paused_condition, with_status
from shoal.capi.machinedeployments.rollout import limits_of
from shoal.capi.replicas import (
    deleting_condition,
    machine_conditions,
    remediating,
    scaling_down,
    scaling_up,
    selector_text,
    versions,
)
from shoal.kinds.capi import CLUSTER_NAME, DEPLOYMENT_NAME, is_deleting
from shoal.objects.conditions import get_condition

Object = dict[str, Any]


def machine_deployment_status(
    deployment: Object, sets: Sequence[Object], machines: Sequence[Object], has_template: bool, now: str
) -> Object:
    """The MachineDeployment with its desired status; the identical object if nothing changes."""
    spec, deleting = deployment["spec"], is_deleting(deployment)
    own = {DEPLOYMENT_NAME: deployment["metadata"]["name"], CLUSTER_NAME: spec["clusterName"]}
    counts = {
        field: sum(int((each.get("status") or {}).get(field, 0)) for each in sets)
        for field in ("replicas", "readyReplicas", "availableReplicas", "upToDateReplicas")
    }
    desired = 0 if deleting else int(spec.get("replicas", 1))
    missing = "" if has_template else f"{spec['template']['spec']['infrastructureRef']['kind']} does not exist"
    found = [
        _available(deployment, counts["availableReplicas"]),
        _rolling_out(machines),
        scaling_up(counts["replicas"], desired, "" if deleting else missing),
        scaling_down(counts["replicas"], desired),
        *machine_conditions(machines),
        remediating(machines, " by MachineDeployment/MachineSet"),
        deleting_condition(deleting, len(sets), "MachineSet"),
        paused_condition(False, None),
    ]
    status: Object = {**counts, "versions": versions(machines), "selector": selector_text(spec.get("selector"), own)}
    status["phase"] = _phase(deleting, counts["replicas"], desired)
    return with_status(deployment, status, found, now)


def is_complete(deployment: Object) -> bool:
    """As far as status shows: all Machines are up to date and available, and their number is the desired one."""
    status, replicas = deployment.get("status") or {}, int(deployment["spec"].get("replicas", 1))
    fields = ("replicas", "availableReplicas", "upToDateReplicas")
    return all(status.get(field) == replicas for field in fields) and (
        status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    )


def _phase(deleting: bool, current: int, desired: int) -> str:
    if deleting or current > desired:
        return "ScalingDown"
    return "ScalingUp" if current < desired else "Running"


def _available(deployment: Object, available: int) -> Condition:
    limits = limits_of(deployment["spec"])
    least = limits.replicas - limits.unavailable
    message = f"{available} available replicas, at least {least} required"
    if not limits.on_delete:
        message += f" (spec.rollout.strategy.rollingUpdate.maxUnavailable is {limits.unavailable},"
        message += f" spec.replicas is {limits.replicas})"
    if is_deleting(deployment):
        message = "Deletion in progress"
    return holds("Available", available >= least, AVAILABLE, message)


def _rolling_out(machines: Sequence[Object]) -> Condition:
    reasons: set[str] = set()
    count = 0
    for machine in machines:
        found = get_condition(machine, "UpToDate")
        if found is not None and found["status"] == FALSE:
            count += 1
            reasons |= set(str(found.get("message") or "").splitlines())
    if not count:
        return Condition("RollingOut", FALSE, "NotRollingOut")
    ordered = sorted(reasons, key=lambda reason: (not reason.startswith("* Version"), reason))
    message = "\n".join([f"Rolling out {count} not up-to-date replicas", *ordered])
    return Condition("RollingOut", TRUE, "RollingOut", message)
