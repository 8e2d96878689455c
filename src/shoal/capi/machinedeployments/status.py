"""Builds the status of a MachineDeployment: counts and the conditions of the v1beta2 contract. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.capi.conditions import (
    AVAILABLE_REASONS,
    FALSE,
    TRUE,
    Condition,
    bool_condition,
    paused_condition,
    with_status,
)
from shoal.capi.machinedeployments.rollout import rollout_limits
from shoal.capi.replicas import (
    deleting_condition,
    machine_conditions,
    remediating_condition,
    scaling_down_condition,
    scaling_up_condition,
    selector_text,
    version_counts,
)
from shoal.kinds.clusterapi.capi import CLUSTER_NAME, DEPLOYMENT_NAME, is_deleting
from shoal.objects.conditions import get_condition

Object = dict[str, Any]


def machine_deployment_status(
    deployment: Object, machine_sets: Sequence[Object], machines: Sequence[Object], missing_template: str, now: str
) -> Object:
    """The MachineDeployment with its desired status; the identical object if nothing changes."""
    spec, deleting = deployment["spec"], is_deleting(deployment)
    default_labels = {DEPLOYMENT_NAME: deployment["metadata"]["name"], CLUSTER_NAME: spec["clusterName"]}
    counts = {
        field: sum(int((each.get("status") or {}).get(field, 0)) for each in machine_sets)
        for field in ("replicas", "readyReplicas", "availableReplicas", "upToDateReplicas")
    }
    desired = 0 if deleting else int(spec.get("replicas", 1))
    conditions = [
        _available_condition(deployment, counts["availableReplicas"]),
        _rolling_out_condition(machines),
        scaling_up_condition(counts["replicas"], desired, "" if deleting else missing_template),
        scaling_down_condition(counts["replicas"], desired),
        *machine_conditions(machines),
        remediating_condition(machines, " by MachineDeployment/MachineSet"),
        deleting_condition(deleting, len(machine_sets), "MachineSet"),
        paused_condition(False, None),
    ]
    status: Object = {
        **counts,
        "versions": version_counts(machines),
        "selector": selector_text(spec.get("selector"), default_labels),
    }
    status["phase"] = _phase(deleting, counts["replicas"], desired)
    return with_status(deployment, status, conditions, now)


def is_rollout_complete(deployment: Object) -> bool:
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


def _available_condition(deployment: Object, available: int) -> Condition:
    limits = rollout_limits(deployment["spec"])
    min_available = limits.replicas - limits.max_unavailable
    message = f"{available} available replicas, at least {min_available} required"
    if not limits.on_delete:
        message += f" (spec.rollout.strategy.rollingUpdate.maxUnavailable is {limits.max_unavailable},"
        message += f" spec.replicas is {limits.replicas})"
    if is_deleting(deployment):
        message = "Deletion in progress"
    return bool_condition("Available", available >= min_available, AVAILABLE_REASONS, message)


def _rolling_out_condition(machines: Sequence[Object]) -> Condition:
    reasons: set[str] = set()
    count = 0
    for machine in machines:
        condition = get_condition(machine, "UpToDate")
        if condition is not None and condition["status"] == FALSE:
            count += 1
            reasons |= set(str(condition.get("message") or "").splitlines())
    if not count:
        return Condition("RollingOut", FALSE, "NotRollingOut")
    ordered = sorted(reasons, key=lambda reason: (not reason.startswith("* Version"), reason))
    message = "\n".join([f"Rolling out {count} not up-to-date replicas", *ordered])
    return Condition("RollingOut", TRUE, "RollingOut", message)
