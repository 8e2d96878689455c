"""Conditions of the v1beta2 contract: set, mirror, summarize over types and aggregate over objects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.kinds.clusterapi.capi import MACHINE, initialization_flag
from shoal.objects.conditions import condition_is, get_condition, set_condition

Object = dict[str, Any]

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
MAX_NAMES = 3
_TEXT_FIELDS = ("conditions", "observedGeneration", "lastUpdated")


class Condition(NamedTuple):
    type: str
    status: str
    reason: str
    message: str = ""


class ConditionReasons(NamedTuple):
    """Reasons of a condition by status: True, False, Unknown."""

    true: str
    false: str
    unknown: str

    def for_status(self, status: str) -> str:
        return {TRUE: self.true, FALSE: self.false}.get(status, self.unknown)


READY_REASONS = ConditionReasons("Ready", "NotReady", "ReadyUnknown")
AVAILABLE_REASONS = ConditionReasons("Available", "NotAvailable", "AvailableUnknown")
UP_TO_DATE_REASONS = ConditionReasons("UpToDate", "NotUpToDate", "UpToDateUnknown")


def bool_condition(type_: str, yes: bool, reasons: ConditionReasons, message: str = "") -> Condition:
    """A condition with a known status. The message is used only when it is False."""
    return Condition(type_, TRUE, reasons.true) if yes else Condition(type_, FALSE, reasons.false, message)


def with_status(obj: Object, status: Object, conditions: Iterable[Condition], now: str) -> Object:
    """The object with this status and these conditions; the identical object if nothing changes.

    Conditions of other components stay. Fields of `status` that are None are left out.
    """
    generation = obj["metadata"].get("generation", 0)
    merged = {condition["type"]: condition for condition in (obj.get("status") or {}).get("conditions") or ()}
    for type_, state, reason, message in conditions:
        old = merged.get(type_)
        new: Object = {**(old or {}), "type": type_, "status": state, "reason": reason, "message": message}
        new["observedGeneration"] = generation
        if old is None or old.get("status") != state or "lastTransitionTime" not in old:
            new["lastTransitionTime"] = now
        merged[type_] = new
    fresh = {key: value for key, value in status.items() if value is not None}
    fresh |= {"observedGeneration": generation, "conditions": list(merged.values())}
    return obj if fresh == obj.get("status") else {**obj, "status": fresh}


def differs_only_in_text(old: Object, new: Object) -> bool:
    """Reports whether a status has no news for other reconcilers: only reasons or messages changed, or nothing is
    provisioned yet.
    """
    old_status, new_status = old.get("status") or {}, new["status"]
    if not old_status.get("conditions"):
        if new.get("kind") == MACHINE:
            return not condition_is(new, "Ready")  # its Node does not exist yet
        return not initialization_flag(new, "infrastructureProvisioned") and not initialization_flag(new, "provisioned")
    return _comparable_status(old_status) == _comparable_status(new_status)


def _comparable_status(status: Object) -> tuple[Object, dict[str, str]]:
    fields = {key: value for key, value in status.items() if key not in _TEXT_FIELDS}
    return fields, {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}


def with_condition(obj: Object, condition: Condition, now: str) -> Object:
    """The object with one condition set and nothing else changed."""
    generation = obj["metadata"].get("generation", 0)
    type_, state, reason, message = condition
    return set_condition(obj, type_, state, reason=reason, message=message, observed_generation=generation, now=now)


def paused_condition(paused: bool, cluster: Mapping[str, Any] | None) -> Condition:
    if not paused:
        return Condition("Paused", FALSE, "NotPaused")
    by_cluster = bool(((cluster or {}).get("spec") or {}).get("paused"))
    message = (
        "Cluster spec.paused is set to true" if by_cluster else "the object has the cluster.x-k8s.io/paused annotation"
    )
    return Condition("Paused", TRUE, "Paused", message)


def by_type(conditions: Iterable[Condition]) -> dict[str, Condition]:
    return {condition.type: condition for condition in conditions}


def conditions_of(obj: Mapping[str, Any]) -> dict[str, Condition]:
    """The current conditions of an object, whichever component set them."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return by_type(Condition(c["type"], c["status"], c.get("reason", ""), c.get("message", "")) for c in conditions)


def mirror_condition(source: Mapping[str, Any], type_: str, target: str, fallback: Condition) -> Condition:
    """Another object's condition under a new type; `fallback` if it has none."""
    condition = get_condition(source, type_)
    if condition is None:
        return fallback
    reason = str(condition.get("reason") or fallback.reason)
    return Condition(target, str(condition["status"]), reason, str(condition.get("message") or ""))


def summary_condition(
    target: str,
    conditions: Mapping[str, Condition],
    types: Sequence[str],
    reasons: ConditionReasons,
    negative: Sequence[str] = (),
) -> Condition:
    """Summarizes several conditions of one object. Conditions in `negative` are good when False."""
    worst, messages = TRUE, []
    for type_ in types:
        condition = conditions.get(type_) or Condition(type_, UNKNOWN, "NotYetReported", "Condition not yet reported")
        status = _negate(condition.status) if type_ in negative else condition.status
        if status == TRUE:
            continue
        worst = FALSE if FALSE in (worst, status) else UNKNOWN
        messages.append(f"* {type_}: {condition.message or condition.reason}")
    return Condition(target, worst, reasons.for_status(worst), "\n".join(messages))


def _negate(status: str) -> str:
    return {TRUE: FALSE, FALSE: TRUE}.get(status, status)


def aggregate_condition(
    target: str, objects: Sequence[Mapping[str, Any]], type_: str, kind: str, reasons: ConditionReasons
) -> Condition:
    """Aggregates the same condition of many objects."""
    not_true = [obj for obj in objects if not condition_is(obj, type_)]
    worst = FALSE if any(condition_is(obj, type_, FALSE) for obj in not_true) else UNKNOWN if not_true else TRUE
    return Condition(target, worst, reasons.for_status(worst), merge_messages(kind, not_true, type_))


def merge_messages(kind: str, objects: Sequence[Mapping[str, Any]], type_: str) -> str:
    """Messages of one condition over many objects; equal messages are merged."""
    names_by_message: dict[str, list[str]] = {}
    for obj in objects:
        message = str((get_condition(obj, type_) or {}).get("message") or "")
        if not message and get_condition(obj, type_) is None:
            message = f"Condition {type_} not yet reported"
        names_by_message.setdefault(message or type_, []).append(obj["metadata"]["name"])
    return "\n".join(
        f"* {names_text(kind, sorted(names))}:{_indent(message)}" for message, names in sorted(names_by_message.items())
    )


def names_text(kind: str, names: Sequence[str]) -> str:
    visible = ", ".join(names[:MAX_NAMES])
    more = f", ... ({len(names) - MAX_NAMES} more)" if len(names) > MAX_NAMES else ""
    return f"{kind}{'s' if len(names) > 1 else ''} {visible}{more}"


def _indent(message: str) -> str:
    if not message.startswith("* "):
        return f" {message}"
    return "".join(f"\n  {line}" for line in message.splitlines())
