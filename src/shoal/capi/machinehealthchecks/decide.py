"""Decides the health conditions of selected Machines and which are handed to their owners for remediation. Pure.

If more are unhealthy than `remediation.triggerIf` allows, the cause is likely not the Machines: then none is
remediated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal.capi.conditions import FALSE, TRUE, Condition, paused_condition, with_condition, with_status
from shoal.capi.machinehealthchecks.health import HealthResult, HealthTarget, check_health
from shoal.capi.metadata_patches import claim_patch
from shoal.kinds.clusterapi.capi import (
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

WAITING_FOR_REMEDIATION = Condition("OwnerRemediated", FALSE, "WaitingForRemediation", "Waiting for remediation")


@dataclass(frozen=True, slots=True)
class HealthCheckSnapshot:
    check: Object
    cluster: Object | None
    machines: Sequence[tuple[Object, Object | None]]
    """Machines of the Cluster, each with its Node."""


@dataclass(frozen=True, slots=True)
class HealthCheckDecision:
    patch: Object | None = None
    """Patch of the MachineHealthCheck. The rest is decided again after it."""
    machine_statuses: tuple[Object, ...] = ()
    """Machines with the status to write."""
    status: Object | None = None
    """The MachineHealthCheck with the status to write."""
    requeue_after: float | None = None


class RemediationAllowance(NamedTuple):
    condition: Condition
    remaining: int


def decide(snapshot: HealthCheckSnapshot, now: float, now_rfc3339: str) -> HealthCheckDecision:
    """`now_rfc3339` is `now` as text."""
    check, cluster = snapshot.check, snapshot.cluster
    if cluster is None or is_deleting(check):
        return HealthCheckDecision()
    if is_paused(cluster, check):
        new = with_condition(check, paused_condition(True, cluster), now_rfc3339)
        return HealthCheckDecision(status=None if new is check else new)
    owner = owner_reference(cluster, API_VERSION, CLUSTER, controller=False)
    targets = [HealthTarget(machine, node, cluster) for machine, node in snapshot.machines if selects(check, machine)]
    checks = check["spec"].get("checks") or {}
    results = [(target.machine, check_health(checks, target, now)) for target in targets]
    healthy = sum(result.is_healthy for _, result in results)
    allowed = remediation_allowance(check, len(targets), len(targets) - healthy)
    may_remediate = allowed.condition.status == TRUE
    status = {
        "expectedMachines": len(targets),
        "currentHealthy": healthy,
        "remediationsAllowed": allowed.remaining,
        "targets": sorted(target.machine["metadata"]["name"] for target in targets) or None,
    }
    new = with_status(check, status, [allowed.condition, paused_condition(False, None)], now_rfc3339)
    return HealthCheckDecision(
        patch=claim_patch(check, owner=owner, labels={CLUSTER_NAME: cluster["metadata"]["name"]}),
        machine_statuses=tuple(
            new_machine
            for machine, result in results
            if (new_machine := _machine_with_result(machine, result, may_remediate, now_rfc3339)) is not machine
        ),
        status=None if new is check else new,
        requeue_after=min(
            (result.requeue_after for _, result in results if result.requeue_after is not None), default=None
        ),
    )


def selects(check: Object, machine: Object) -> bool:
    """Paused Machines and those with the skip-remediation annotation are not selected."""
    if PAUSED in annotations_of(machine) or SKIP_REMEDIATION in annotations_of(machine):
        return False
    return from_label_selector(check["spec"]["selector"]).matches(labels_of(machine))


def remediation_allowance(check: Object, total: int, unhealthy: int) -> RemediationAllowance:
    """`unhealthy` includes Machines whose health is not known yet."""
    remediation = check["spec"].get("remediation") or {}
    trigger = remediation.get("triggerIf") or {}
    if "templateRef" in remediation:
        kind = remediation["templateRef"]["kind"]
        message = f"spec.remediation.templateRef: {kind}: external remediation is not supported; Machines are replaced"
        message += " by their MachineSet when it is not set"
        return RemediationAllowance(_not_allowed("ExternalRemediationNotSupported", message), 0)
    count = f"(total: {total}, unhealthy: {unhealthy},"
    if "unhealthyInRange" in trigger:
        text = str(trigger["unhealthyInRange"])
        minimum, maximum = (int(number) for number in text[1:-1].split("-"))
        if minimum <= unhealthy <= maximum:
            return RemediationAllowance(
                Condition("RemediationAllowed", TRUE, "RemediationAllowed"), maximum - unhealthy
            )
        message = "Remediation is not allowed, the number of not started or unhealthy machines does not fall within the"
        return RemediationAllowance(
            _not_allowed("TooManyUnhealthy", f"{message} range {count} unhealthyRange: {text})"), 0
        )
    limit = trigger.get("unhealthyLessThanOrEqualTo", "100%")
    maximum = total * int(str(limit)[:-1]) // 100 if str(limit).endswith("%") else int(limit)
    if unhealthy <= maximum:
        return RemediationAllowance(Condition("RemediationAllowed", TRUE, "RemediationAllowed"), maximum - unhealthy)
    message = "Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy"
    return RemediationAllowance(_not_allowed("TooManyUnhealthy", f"{message} {count} maxUnhealthy: {limit})"), 0)


def _not_allowed(reason: str, message: str) -> Condition:
    return Condition("RemediationAllowed", FALSE, reason, message)


def _machine_with_result(machine: Object, result: HealthResult, may_remediate: bool, now: str) -> Object:
    """The Machine with the check's result. OwnerRemediated is set once; the owner proceeds from there."""
    if result.condition is None or is_deleting(machine):
        return machine
    new = with_condition(machine, result.condition, now)
    if not (result.is_unhealthy and may_remediate):
        return new
    remediation = get_condition(machine, "OwnerRemediated")
    return (
        with_condition(new, WAITING_FOR_REMEDIATION, now)
        if remediation is None or remediation["status"] == TRUE
        else new
    )
