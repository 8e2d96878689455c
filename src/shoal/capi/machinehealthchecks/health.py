"""Checks the health of one Machine and when that result may change. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.capi.conditions import FALSE, TRUE, Condition
from shoal.kinds.clusterapi.capi import CONTROL_PLANE, REMEDIATE_MACHINE, annotations_of, is_deleting, labels_of
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

HEALTH_CHECK_SUCCEEDED = "HealthCheckSucceeded"
NODE_STARTUP_TIMEOUT = 600
REMEDIATE_ANNOTATION_SET = Condition(
    HEALTH_CHECK_SUCCEEDED,
    FALSE,
    "HasRemediateAnnotation",
    f"Health check failed: marked for remediation via {REMEDIATE_MACHINE} annotation",
)


@dataclass(frozen=True, slots=True)
class HealthTarget:
    machine: Object
    node: Object | None
    cluster: Object


@dataclass(frozen=True, slots=True)
class HealthResult:
    """Without a condition the health is not known yet. `requeue_after` is when a Machine that is unknown or healthy
    might become unhealthy.
    """

    condition: Condition | None = None
    requeue_after: float | None = None

    @property
    def is_unhealthy(self) -> bool:
        return self.condition is not None and self.condition.status == FALSE

    @property
    def is_healthy(self) -> bool:
        return self.condition is not None and self.condition.status == TRUE


@dataclass(frozen=True, slots=True)
class CheckResult:
    reason: str = ""
    messages: tuple[str, ...] = ()
    requeue_after: float | None = None


def check_health(checks: Mapping[str, Any], target: HealthTarget, now: float) -> HealthResult:
    machine, cluster = target.machine, target.cluster
    if REMEDIATE_MACHINE in annotations_of(machine):
        return HealthResult(REMEDIATE_ANNOTATION_SET)
    is_control_plane = CONTROL_PLANE in labels_of(machine)
    # Machines are not blamed for a cluster that is not provisioned yet.
    if not condition_is(cluster, "ControlPlaneInitialized") and not is_control_plane:
        return HealthResult()
    if not condition_is(cluster, "InfrastructureReady"):
        return HealthResult()
    of_machine = _check_conditions(machine, "Machine", checks.get("unhealthyMachineConditions") or (), now)
    of_node = _check_node(checks, target, now)
    messages = (*of_machine.messages, *of_node.messages)
    if messages:
        text = "\n".join(f"  * {message}" for message in messages)
        reason = of_machine.reason or of_node.reason
        return HealthResult(Condition(HEALTH_CHECK_SUCCEEDED, FALSE, reason, f"Health check failed:\n{text}"))
    requeue_after = min(
        (each for each in (of_machine.requeue_after, of_node.requeue_after) if each is not None), default=None
    )
    if requeue_after is not None or is_deleting(machine) or target.node is None:
        return HealthResult(requeue_after=requeue_after)
    return HealthResult(Condition(HEALTH_CHECK_SUCCEEDED, TRUE, HEALTH_CHECK_SUCCEEDED))


def _check_node(checks: Mapping[str, Any], target: HealthTarget, now: float) -> CheckResult:
    reference = (target.machine.get("status") or {}).get("nodeRef")
    if target.node is not None:
        return _check_conditions(target.node, "Node", checks.get("unhealthyNodeConditions") or (), now)
    if reference:
        return CheckResult("NodeDeleted", (f"Node {reference['name']} has been deleted",))
    timeout = int(checks.get("nodeStartupTimeoutSeconds", NODE_STARTUP_TIMEOUT))
    if not timeout:
        return CheckResult()
    remaining = _startup_began_at(target) + timeout - now
    if remaining < 0:
        return CheckResult("NodeStartupTimeout", (f"Node failed to report startup in {go_duration(timeout)}",))
    return CheckResult(requeue_after=remaining + 1)


def _startup_began_at(target: HealthTarget) -> float:
    """When the last precondition of a Node was met."""
    moments = [parse_time(target.machine["metadata"].get("creationTimestamp"))]
    for obj, type_ in (
        (target.cluster, "ControlPlaneInitialized"),
        (target.cluster, "InfrastructureReady"),
        (target.machine, "InfrastructureReady"),
    ):
        if condition_is(obj, type_):
            moments.append(_last_transition(obj, type_))
    return max(moment for moment in moments if moment is not None)


def _check_conditions(obj: Object, kind: str, unhealthy: Any, now: float) -> CheckResult:
    messages, waits = [], []
    for each in unhealthy:
        if not condition_is(obj, each["type"], each["status"]):
            continue
        timeout = int(each.get("timeoutSeconds") or 0)
        remaining = (_last_transition(obj, each["type"]) or now) + timeout - now
        if remaining >= 0:
            waits.append(remaining + 1)
            continue
        reason = (get_condition(obj, each["type"]) or {}).get("reason", "")
        text = f"Condition {each['type']} on {kind} is reporting status {each['status']} with reason {reason}"
        messages.append(f"{text} for more than {go_duration(timeout)}")
    return CheckResult(f"Unhealthy{kind}" if messages else "", tuple(messages), min(waits, default=None))


def _last_transition(obj: Object, type_: str) -> float | None:
    return parse_time((get_condition(obj, type_) or {}).get("lastTransitionTime"))


def go_duration(seconds: int) -> str:
    """Formats whole seconds like Go: 5m0s."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
