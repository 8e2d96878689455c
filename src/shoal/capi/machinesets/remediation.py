"""Plans remediation: which unhealthy Machines of a MachineSet are replaced now, and the conditions of those that wait.
Pure.

A MachineHealthCheck sets HealthCheckSucceeded and OwnerRemediated to False. The MachineSet deletes such Machines, a few
at a time, and then replaces them like any missing Machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.capi.conditions import FALSE, Condition, only
from shoal.capi.machinedeployments.rollout import resolved
from shoal.capi.replicas import is_to_be_remediated
from shoal.kinds.capi import REMEDIATE_MACHINE, REVISION, annotations_of, is_deleting
from shoal.objects.conditions import condition_is, get_condition, remove_condition

Object = dict[str, Any]

DELETING = Condition("OwnerRemediated", FALSE, "MachineDeleting", "Machine is deleting")
OUTDATED = Condition(
    "OwnerRemediated",
    FALSE,
    "CannotBeRemediated",
    "Machine won't be remediated because it is pending removal due to rollout",
)


@dataclass(frozen=True, slots=True)
class Remediation:
    mark: tuple[Object, ...] = ()
    """Machines with the status to write."""
    delete: tuple[Object, ...] = ()
    """Deleted after those statuses are written."""


def remediation(machine_set: Object, deployment: Object | None, machines: Sequence[Object], now: str) -> Remediation:
    recovered = [remove_condition(machine, "OwnerRemediated") for machine in machines if _is_well_again(machine)]
    wanted = [machine for machine in machines if is_to_be_remediated(machine) and not is_deleting(machine)]
    if not wanted:
        return Remediation(mark=tuple(recovered))
    if deployment is not None and _revision(deployment) != _revision(machine_set):
        return Remediation(mark=(*recovered, *_said(wanted, OUTDATED, now)))
    ordered = sorted(wanted, key=_newest_first, reverse=True)
    ordered.sort(key=lambda machine: REMEDIATE_MACHINE not in annotations_of(machine))
    room, limit = _room(deployment, machines)
    going, waiting = (ordered, []) if room is None else (ordered[:room], ordered[room:])
    message = (
        "Waiting because there are already too many remediations in progress"
        f" (spec.strategy.remediation.maxInFlight is {limit})"
    )
    deferred = Condition("OwnerRemediated", FALSE, "RemediationDeferred", message)
    mark = (*recovered, *_said(going, DELETING, now), *_said(waiting, deferred, now))
    return Remediation(mark=mark, delete=tuple(going))


def _is_well_again(machine: Object) -> bool:
    return (
        not is_deleting(machine)
        and condition_is(machine, "HealthCheckSucceeded")
        and condition_is(machine, "OwnerRemediated", FALSE)
    )


def _revision(obj: Object) -> str:
    return annotations_of(obj).get(REVISION, "")


def _newest_first(machine: Object) -> tuple[str, list[int]]:
    """Newest Machines first: those that failed to start may carry no workload yet. Equal ages are ordered by name."""
    metadata = machine["metadata"]
    return str(metadata.get("creationTimestamp", "")), [-ord(letter) for letter in metadata["name"]]


def _room(deployment: Object | None, machines: Sequence[Object]) -> tuple[int | None, object]:
    """How many more may be remediated at once, and the configured limit. None: no limit."""
    spec = (deployment or {}).get("spec") or {}
    limit = (spec.get("remediation") or {}).get("maxInFlight")
    if limit is None:
        return None, None
    flying = [
        machine
        for machine in machines
        if is_deleting(machine) and (get_condition(machine, "OwnerRemediated") or {}).get("reason") == DELETING.reason
    ]
    return max(resolved(limit, int(spec.get("replicas", 1)), up=True) - len(flying), 0), limit


def _said(machines: Sequence[Object], condition: Condition, now: str) -> list[Object]:
    """Only Machines that the condition changes."""
    found = [(machine, only(machine, condition, now)) for machine in machines]
    return [new for machine, new in found if new is not machine]
