"""Counts and conditions that MachineSets and MachineDeployments share. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from shoal.capi.conditions import FALSE, READY, TRUE, UP_TO_DATE, Condition, aggregate, named
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.selectors import LabelSelector, from_label_selector

Object = dict[str, Any]


def is_unhealthy(machine: Object) -> bool:
    """As a MachineHealthCheck reports."""
    return condition_is(machine, "HealthCheckSucceeded", FALSE)


def is_to_be_remediated(machine: Object) -> bool:
    return is_unhealthy(machine) and condition_is(machine, "OwnerRemediated", FALSE)


def remediating(machines: Sequence[Object], whom: str) -> Condition:
    """`owner_text` names who does not remediate the other unhealthy Machines."""
    wanted = [machine for machine in machines if is_to_be_remediated(machine)]
    if wanted:
        found = aggregate("Remediating", wanted, "OwnerRemediated", "Machine", READY)
        return Condition("Remediating", TRUE, "Remediating", found.message)
    names = sorted(machine["metadata"]["name"] for machine in machines if is_unhealthy(machine))
    verb = "are" if len(names) > 1 else "is"
    message = f"{named('Machine', names)} {verb} not healthy (not to be remediated{whom})" if names else ""
    return Condition("Remediating", FALSE, "NotRemediating", message)


def versions(machines: Sequence[Object]) -> list[Object] | None:
    """Machines counted by version. The kubelet version of the Node wins over the spec's version."""
    found = Counter(_version(machine) for machine in machines)
    return [{"version": version, "replicas": found[version]} for version in sorted(found) if version] or None


def _version(machine: Object) -> str:
    told = ((machine.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion")
    return str(told or machine["spec"].get("version") or "")


def having(machines: Sequence[Object], type_: str) -> int:
    return sum(condition_is(machine, type_) for machine in machines)


def selector(found: Object | None, otherwise: dict[str, str]) -> LabelSelector:
    """A label selector. An empty one means `default_labels`."""
    return from_label_selector(found if found and any(found.values()) else {"matchLabels": otherwise})


def selector_text(found: Object | None, otherwise: dict[str, str]) -> str:
    """As the scale subresource shows it."""
    return str(selector(found, otherwise))


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
    """Aggregated over all Machines. A new one has no UpToDate yet and is not counted against it."""
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
