"""Builds the status of a MachineSet: counts and the conditions of the v1beta2 contract. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.capi.conditions import paused_condition, with_status
from shoal.capi.replicas import (
    count_with_condition,
    deleting_condition,
    machine_conditions,
    remediating_condition,
    scaling_down_condition,
    scaling_up_condition,
    selector_text,
    version_counts,
)
from shoal.kinds.clusterapi.capi import SET_NAME, is_deleting

Object = dict[str, Any]


def machine_set_status(machine_set: Object, machines: Sequence[Object], has_template: bool, now: str) -> Object:
    """The MachineSet with its desired status; the identical object if nothing changes."""
    deleting = is_deleting(machine_set)
    desired = 0 if deleting else int(machine_set["spec"].get("replicas", 1))
    counts = {
        "selector": selector_text(machine_set["spec"].get("selector"), {SET_NAME: machine_set["metadata"]["name"]}),
        "replicas": len(machines),
        "readyReplicas": count_with_condition(machines, "Ready"),
        "availableReplicas": count_with_condition(machines, "Available"),
        "upToDateReplicas": count_with_condition(machines, "UpToDate"),
        "versions": version_counts(machines),
    }
    kind = machine_set["spec"]["template"]["spec"]["infrastructureRef"]["kind"]
    missing_template = "" if has_template else f"{kind} does not exist"
    conditions = [
        scaling_up_condition(len(machines), desired, "" if deleting else missing_template),
        scaling_down_condition(len(machines), desired),
        *machine_conditions(machines),
        remediating_condition(machines, " by MachineSet"),
        deleting_condition(deleting, len(machines), "Machine"),
        paused_condition(False, None),
    ]
    return with_status(machine_set, counts, conditions, now)
