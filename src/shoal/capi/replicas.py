"""Counts and conditions that MachineSets and MachineDeployments share. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from shoal.capi.conditions import (
    FALSE,
    READY_REASONS,
    TRUE,
    UP_TO_DATE_REASONS,
    Condition,
    aggregate_condition,
    names_text,
)
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.selectors import LabelSelector, from_label_selector

Object = dict[str, Any]


def is_unhealthy(machine: Object) -> bool:
    """As a MachineHealthCheck reports."""
    return condition_is(machine, "HealthCheckSucceeded", FALSE)


def needs_remediation(machine: Object) -> bool:
    return is_unhealthy(machine) and condition_is(machine, "OwnerRemediated", FALSE)


def remediating_condition(machines: Sequence[Object], owner_text: str) -> Condition:
    """`owner_text` names who does not remediate the other unhealthy Machines."""
    unhealthy = [machine for machine in machines if needs_remediation(machine)]
    if unhealthy:
        aggregated = aggregate_condition("Remediating", unhealthy, "OwnerRemediated", "Machine", READY_REASONS)
        return Condition("Remediating", TRUE, "Remediating", aggregated.message)
    names = sorted(machine["metadata"]["name"] for machine in machines if is_unhealthy(machine))
    verb = "are" if len(names) > 1 else "is"
    message = f"{names_text('Machine', names)} {verb} not healthy (not to be remediated{owner_text})" if names else ""
    return Condition("Remediating", FALSE, "NotRemediating", message)


def version_counts(machines: Sequence[Object]) -> list[Object] | None:
    """Machines counted by version. The kubelet version of the Node wins over the spec's version."""
    counts = Counter(_version(machine) for machine in machines)
    return [{"version": version, "replicas": counts[version]} for version in sorted(counts) if version] or None


def _version(machine: Object) -> str:
    kubelet_version = ((machine.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion")
    return str(kubelet_version or machine["spec"].get("version") or "")


def count_with_condition(machines: Sequence[Object], type_: str) -> int:
    return sum(condition_is(machine, type_) for machine in machines)


def effective_selector(label_selector: Object | None, default_labels: dict[str, str]) -> LabelSelector:
    """A label selector. An empty one means `default_labels`."""
    return from_label_selector(
        label_selector if label_selector and any(label_selector.values()) else {"matchLabels": default_labels}
    )


def selector_text(label_selector: Object | None, default_labels: dict[str, str]) -> str:
    """As the scale subresource shows it."""
    return str(effective_selector(label_selector, default_labels))


def missing_template_reason(kind: str, *, has_template: bool, has_provider: bool) -> str:
    """Why no Machine can be made of the infrastructure template. Empty: it exists."""
    if has_template:
        return ""
    # The template may well exist: nobody here would make machines of it.
    return f"{kind} does not exist" if has_provider else f"no infrastructure provider of {kind} runs here"


def scaling_up_condition(current: int, desired: int, missing_template: str) -> Condition:
    if current >= desired:
        message = f"Scaling up would be blocked because {missing_template}" if missing_template else ""
        return Condition("ScalingUp", FALSE, "NotScalingUp", message)
    message = f"Scaling up from {current} to {desired} replicas"
    blocked = f" is blocked because:\n* {missing_template}" if missing_template else ""
    return Condition("ScalingUp", TRUE, "ScalingUp", message + blocked)


def scaling_down_condition(current: int, desired: int) -> Condition:
    if current <= desired:
        return Condition("ScalingDown", FALSE, "NotScalingDown")
    return Condition("ScalingDown", TRUE, "ScalingDown", f"Scaling down from {current} to {desired} replicas")


def machine_conditions(machines: Sequence[Object]) -> list[Condition]:
    """Aggregated over all Machines. A new one has no UpToDate yet and is not counted against it."""
    with_condition = [machine for machine in machines if get_condition(machine, "UpToDate") is not None]
    ready = Condition("MachinesReady", TRUE, "NoReplicas")
    current = Condition("MachinesUpToDate", TRUE, "NoReplicas")
    return [
        aggregate_condition("MachinesReady", machines, "Ready", "Machine", READY_REASONS) if machines else ready,
        aggregate_condition("MachinesUpToDate", with_condition, "UpToDate", "Machine", UP_TO_DATE_REASONS)
        if with_condition
        else current,
    ]


def deleting_condition(deleting: bool, remaining: int, what: str) -> Condition:
    if not deleting:
        return Condition("Deleting", FALSE, "NotDeleting")
    message = f"Deleting {remaining} {what}{'' if remaining == 1 else 's'}" if remaining else "Deletion completed"
    return Condition("Deleting", TRUE, "Deleting", message)
