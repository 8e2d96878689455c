"""Decides the health conditions of selected Machines and which are handed to their owners for remediation. Pure.

If more are unhealthy than `remediation.triggerIf` allows, the cause is likely not the Machines: then none is
remediated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal.capi.conditions import FALSE, TRUE, Condition, only, paused_condition, with_status
from shoal.capi.machinehealthchecks.health import Target, Verdict, verdict
from shoal.capi.writing import claimed
from shoal.kinds.capi import (
    API_VERSION,
    CLUSTER,
    CLUSTER_NAME,
    PAUSED,
    SKIP_REMEDIATION,
    annotations_of,
    is_deleting,
    is_paused,
    labels_of,
    owner_reference,
)
from shoal.objects.conditions import get_condition
from shoal.objects.selectors import from_label_selector

Object = dict[str, Any]

WAITING = Condition("OwnerRemediated", FALSE, "WaitingForRemediation", "Waiting for remediation")


@dataclass(frozen=True, slots=True)
class Snapshot:
    check: Object
    cluster: Object | None
    machines: Sequence[tuple[Object, Object | None]]
    """Machines of the Cluster, each with its Node."""


@dataclass(frozen=True, slots=True)
class Decision:
    patch: Object | None = None
    """Patch of the MachineHealthCheck. The rest is decided again after it."""
    mark: tuple[Object, ...] = ()
    """Machines with the status to write."""
    status: Object | None = None
    """The MachineHealthCheck with the status to write."""
    again: float | None = None


class Allowance(NamedTuple):
    condition: Condition
    left: int


def decide(seen: Snapshot, now: float, stamp: str) -> Decision:
    """`now_rfc3339` is `now` as text."""
    check, cluster = seen.check, seen.cluster
    if cluster is None or is_deleting(check):
        return Decision()
    if is_paused(cluster, check):
        new = only(check, paused_condition(True, cluster), stamp)
        return Decision(status=None if new is check else new)
    owner = owner_reference(cluster, API_VERSION, CLUSTER, controller=False)
    targets = [Target(machine, node, cluster) for machine, node in seen.machines if selects(check, machine)]
    checks = check["spec"].get("checks") or {}
    verdicts = [(target.machine, verdict(checks, target, now)) for target in targets]
    healthy = sum(found.is_healthy for _, found in verdicts)
    allowed = allowance(check, len(targets), len(targets) - healthy)
    remediates = allowed.condition.status == TRUE
    status = {
        "expectedMachines": len(targets),
        "currentHealthy": healthy,
        "remediationsAllowed": allowed.left,
        "targets": sorted(target.machine["metadata"]["name"] for target in targets) or None,
    }
    new = with_status(check, status, [allowed.condition, paused_condition(False, None)], stamp)
    return Decision(
        patch=claimed(check, owner=owner, labels={CLUSTER_NAME: cluster["metadata"]["name"]}),
        mark=tuple(
            marked
            for machine, found in verdicts
            if (marked := _marked(machine, found, remediates, stamp)) is not machine
        ),
        status=None if new is check else new,
        again=min((found.again for _, found in verdicts if found.again is not None), default=None),
    )


def selects(check: Object, machine: Object) -> bool:
    """Paused Machines and those with the skip-remediation annotation are not selected."""
    if PAUSED in annotations_of(machine) or SKIP_REMEDIATION in annotations_of(machine):
        return False
    return from_label_selector(check["spec"]["selector"]).matches(labels_of(machine))


def allowance(check: Object, total: int, unhealthy: int) -> Allowance:
    """`unhealthy` includes Machines whose health is not known yet."""
    remediation = check["spec"].get("remediation") or {}
    trigger = remediation.get("triggerIf") or {}
    if "templateRef" in remediation:
        kind = remediation["templateRef"]["kind"]
        message = f"spec.remediation.templateRef: {kind}: external remediation is not supported; Machines are replaced"
        message += " by their MachineSet when it is not set"
        return Allowance(_forbidden("ExternalRemediationNotSupported", message), 0)
    count = f"(total: {total}, unhealthy: {unhealthy},"
    if "unhealthyInRange" in trigger:
        text = str(trigger["unhealthyInRange"])
        least, most = (int(number) for number in text[1:-1].split("-"))
        if least <= unhealthy <= most:
            return Allowance(Condition("RemediationAllowed", TRUE, "RemediationAllowed"), most - unhealthy)
        message = "Remediation is not allowed, the number of not started or unhealthy machines does not fall within the"
        return Allowance(_forbidden("TooManyUnhealthy", f"{message} range {count} unhealthyRange: {text})"), 0)
    limit = trigger.get("unhealthyLessThanOrEqualTo", "100%")
    most = total * int(str(limit)[:-1]) // 100 if str(limit).endswith("%") else int(limit)
    if unhealthy <= most:
        return Allowance(Condition("RemediationAllowed", TRUE, "RemediationAllowed"), most - unhealthy)
    message = "Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy"
    return Allowance(_forbidden("TooManyUnhealthy", f"{message} {count} maxUnhealthy: {limit})"), 0)


def _forbidden(reason: str, message: str) -> Condition:
    return Condition("RemediationAllowed", FALSE, reason, message)


def _marked(machine: Object, found: Verdict, remediates: bool, now: str) -> Object:
    """The Machine with the check's result. OwnerRemediated is set once; the owner proceeds from there."""
    if found.condition is None or is_deleting(machine):
        return machine
    new = only(machine, found.condition, now)
    if not (found.is_unhealthy and remediates):
        return new
    asked = get_condition(machine, "OwnerRemediated")
    return only(new, WAITING, now) if asked is None or asked["status"] == TRUE else new
