"""What MachineSets and MachineDeployments say of their Machines: counts and the conditions both have. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.capi.conditions import FALSE, READY, TRUE, UP_TO_DATE, Condition, aggregate
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.selectors import from_label_selector

Object = dict[str, Any]


def having(machines: Sequence[Object], type_: str) -> int:
    return sum(condition_is(machine, type_) for machine in machines)


def selector_text(selector: Object | None, otherwise: dict[str, str]) -> str:
    """A label selector as the scale subresource shows it; an empty one stands for these labels."""
    chosen = selector if selector and any(selector.values()) else {"matchLabels": otherwise}
    return str(from_label_selector(chosen))


def scaling_up(current: int, desired: int, missing: str) -> Condition:
    if current >= desired:
        message = f"Scaling up would be blocked because {missing}" if missing else ""
        return Condition("ScalingUp", FALSE, "NotScalingUp", message)
    message = f"Scaling up from {current} to {desired} replicas"
    blocked = f" is blocked because:\n* {missing}" if missing else ""
    return Condition("ScalingUp", TRUE, "ScalingUp", message + blocked)


def scaling_down(current: int, desired: int) -> Condition:
    if current <= desired:
        return Condition("ScalingDown", FALSE, "NotScalingDown")
    return Condition("ScalingDown", TRUE, "ScalingDown", f"Scaling down from {current} to {desired} replicas")


def machine_conditions(machines: Sequence[Object]) -> list[Condition]:
    """Of all Machines together. A new one has no UpToDate yet and is not counted against it."""
    known = [machine for machine in machines if get_condition(machine, "UpToDate") is not None]
    ready = Condition("MachinesReady", TRUE, "NoReplicas")
    current = Condition("MachinesUpToDate", TRUE, "NoReplicas")
    return [
        aggregate("MachinesReady", machines, "Ready", "Machine", READY) if machines else ready,
        aggregate("MachinesUpToDate", known, "UpToDate", "Machine", UP_TO_DATE) if known else current,
    ]


def deleting_condition(deleting: bool, left: int, what: str) -> Condition:
    if not deleting:
        return Condition("Deleting", FALSE, "NotDeleting")
    message = f"Deleting {left} {what}{'' if left == 1 else 's'}" if left else "Deletion completed"
    return Condition("Deleting", TRUE, "Deleting", message)
