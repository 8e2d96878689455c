"""Plans remediation: which unhealthy Machines of a MachineSet are replaced now, and the conditions of those that wait.
Pure.

A MachineHealthCheck sets HealthCheckSucceeded and OwnerRemediated to False. The MachineSet deletes such Machines, a few
at a time, and then replaces them like any missing Machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.capi.conditions import FALSE, Condition, with_condition
from shoal.capi.machinedeployments.rollout import resolve_int_or_percent
from shoal.capi.replicas import needs_remediation
from shoal.kinds.clusterapi.capi import REMEDIATE_MACHINE, REVISION, annotations_of, is_deleting
from shoal.objects.conditions import condition_is, get_condition, remove_condition

Object = dict[str, Any]

MACHINE_DELETING = Condition("OwnerRemediated", FALSE, "MachineDeleting", "Machine is deleting")
CANNOT_BE_REMEDIATED = Condition(
    "OwnerRemediated",
    FALSE,
    "CannotBeRemediated",
    "Machine won't be remediated because it is pending removal due to rollout",
)


@dataclass(frozen=True, slots=True)
class RemediationPlan:
    machine_statuses: tuple[Object, ...] = ()
    """Machines with the status to write."""
    delete: tuple[Object, ...] = ()
    """Deleted after those statuses are written."""


def plan_remediation(
    machine_set: Object, deployment: Object | None, machines: Sequence[Object], now: str
) -> RemediationPlan:
    recovered = [remove_condition(machine, "OwnerRemediated") for machine in machines if _has_recovered(machine)]
    unhealthy = [machine for machine in machines if needs_remediation(machine) and not is_deleting(machine)]
    if not unhealthy:
        return RemediationPlan(machine_statuses=tuple(recovered))
    if deployment is not None and _revision(deployment) != _revision(machine_set):
        return RemediationPlan(
            machine_statuses=(*recovered, *_machines_with_condition(unhealthy, CANNOT_BE_REMEDIATED, now))
        )
    ordered = sorted(unhealthy, key=_age_key, reverse=True)
    ordered.sort(key=lambda machine: REMEDIATE_MACHINE not in annotations_of(machine))
    room, limit = _remaining_in_flight(deployment, machines)
    to_delete, deferred_machines = (ordered, []) if room is None else (ordered[:room], ordered[room:])
    message = (
        "Waiting because there are already too many remediations in progress"
        f" (spec.strategy.remediation.maxInFlight is {limit})"
    )
    deferred = Condition("OwnerRemediated", FALSE, "RemediationDeferred", message)
    statuses = (
        *recovered,
        *_machines_with_condition(to_delete, MACHINE_DELETING, now),
        *_machines_with_condition(deferred_machines, deferred, now),
    )
    return RemediationPlan(machine_statuses=statuses, delete=tuple(to_delete))


def _has_recovered(machine: Object) -> bool:
    return (
        not is_deleting(machine)
        and condition_is(machine, "HealthCheckSucceeded")
        and condition_is(machine, "OwnerRemediated", FALSE)
    )


def _revision(obj: Object) -> str:
    return annotations_of(obj).get(REVISION, "")


def _age_key(machine: Object) -> tuple[str, list[int]]:
    """Newest Machines first: those that failed to start may carry no workload yet. Equal ages are ordered by name."""
    metadata = machine["metadata"]
    return str(metadata.get("creationTimestamp", "")), [-ord(letter) for letter in metadata["name"]]


def _remaining_in_flight(deployment: Object | None, machines: Sequence[Object]) -> tuple[int | None, object]:
    """How many more may be remediated at once, and the configured limit. None: no limit."""
    spec = (deployment or {}).get("spec") or {}
    limit = (spec.get("remediation") or {}).get("maxInFlight")
    if limit is None:
        return None, None
    in_flight = [
        machine
        for machine in machines
        if is_deleting(machine)
        and (get_condition(machine, "OwnerRemediated") or {}).get("reason") == MACHINE_DELETING.reason
    ]
    return max(resolve_int_or_percent(limit, int(spec.get("replicas", 1)), round_up=True) - len(in_flight), 0), limit


def _machines_with_condition(machines: Sequence[Object], condition: Condition, now: str) -> list[Object]:
    """Only Machines that the condition changes."""
    pairs = [(machine, with_condition(machine, condition, now)) for machine in machines]
    return [new for machine, new in pairs if new is not machine]
