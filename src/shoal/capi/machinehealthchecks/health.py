"""Checks the health of one Machine and when that result may change. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.capi.conditions import FALSE, TRUE, Condition
from shoal.kinds.capi import CONTROL_PLANE, REMEDIATE_MACHINE, annotations_of, is_deleting, labels_of
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

TYPE = "HealthCheckSucceeded"
NODE_STARTUP_TIMEOUT = 600
ANNOTATED = Condition(
    TYPE,
    FALSE,
    "HasRemediateAnnotation",
    f"Health check failed: marked for remediation via {REMEDIATE_MACHINE} annotation",
)


@dataclass(frozen=True, slots=True)
class Target:
    machine: Object
    node: Object | None
    cluster: Object


@dataclass(frozen=True, slots=True)
class Verdict:
    """Without a condition the health is not known yet. `requeue_after` is when a Machine that is unknown or healthy
    might become unhealthy.
    """

    condition: Condition | None = None
    again: float | None = None

    @property
    def is_unhealthy(self) -> bool:
        return self.condition is not None and self.condition.status == FALSE

    @property
    def is_healthy(self) -> bool:
        return self.condition is not None and self.condition.status == TRUE


@dataclass(frozen=True, slots=True)
class Finding:
    reason: str = ""
    messages: tuple[str, ...] = ()
    again: float | None = None


def verdict(checks: Mapping[str, Any], target: Target, now: float) -> Verdict:
    machine, cluster = target.machine, target.cluster
    if REMEDIATE_MACHINE in annotations_of(machine):
        return Verdict(ANNOTATED)
    leads = CONTROL_PLANE in labels_of(machine)
    # Machines are not blamed for a cluster that is not provisioned yet.
    if not condition_is(cluster, "ControlPlaneInitialized") and not leads:
        return Verdict()
    if not condition_is(cluster, "InfrastructureReady"):
        return Verdict()
    of_machine = _conditions(machine, "Machine", checks.get("unhealthyMachineConditions") or (), now)
    of_node = _node(checks, target, now)
    messages = (*of_machine.messages, *of_node.messages)
    if messages:
        said = "\n".join(f"  * {message}" for message in messages)
        reason = of_machine.reason or of_node.reason
        return Verdict(Condition(TYPE, FALSE, reason, f"Health check failed:\n{said}"))
    again = min((each for each in (of_machine.again, of_node.again) if each is not None), default=None)
    if again is not None or is_deleting(machine) or target.node is None:
        return Verdict(again=again)
    return Verdict(Condition(TYPE, TRUE, TYPE))


def _node(checks: Mapping[str, Any], target: Target, now: float) -> Finding:
    reference = (target.machine.get("status") or {}).get("nodeRef")
    if target.node is not None:
        return _conditions(target.node, "Node", checks.get("unhealthyNodeConditions") or (), now)
    if reference:
        return Finding("NodeDeleted", (f"Node {reference['name']} has been deleted",))
    timeout = int(checks.get("nodeStartupTimeoutSeconds", NODE_STARTUP_TIMEOUT))
    if not timeout:
        return Finding()
    left = _begun(target) + timeout - now
    if left < 0:
        return Finding("NodeStartupTimeout", (f"Node failed to report startup in {go_duration(timeout)}",))
    return Finding(again=left + 1)


def _begun(target: Target) -> float:
    """When the last precondition of a Node was met."""
    moments = [parse_time(target.machine["metadata"].get("creationTimestamp"))]
    for obj, type_ in (
        (target.cluster, "ControlPlaneInitialized"),
        (target.cluster, "InfrastructureReady"),
        (target.machine, "InfrastructureReady"),
    ):
        if condition_is(obj, type_):
            moments.append(_since(obj, type_))
    return max(moment for moment in moments if moment is not None)


def _conditions(obj: Object, kind: str, unwanted: Any, now: float) -> Finding:
    messages, waits = [], []
    for each in unwanted:
        if not condition_is(obj, each["type"], each["status"]):
            continue
        timeout = int(each.get("timeoutSeconds") or 0)
        left = (_since(obj, each["type"]) or now) + timeout - now
        if left >= 0:
            waits.append(left + 1)
            continue
        reason = (get_condition(obj, each["type"]) or {}).get("reason", "")
        said = f"Condition {each['type']} on {kind} is reporting status {each['status']} with reason {reason}"
        messages.append(f"{said} for more than {go_duration(timeout)}")
    return Finding(f"Unhealthy{kind}" if messages else "", tuple(messages), min(waits, default=None))


def _since(obj: Object, type_: str) -> float | None:
    return parse_time((get_condition(obj, type_) or {}).get("lastTransitionTime"))


def go_duration(seconds: int) -> str:
    """Formats whole seconds like Go: 5m0s."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
