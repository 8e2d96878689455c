"""Conditions of the v1beta2 contract: set, mirror, summarize over types and aggregate over objects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.kinds.capi import MACHINE, initialization
from shoal.objects.conditions import condition_is, get_condition, set_condition

Object = dict[str, Any]

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
NAMES_SHOWN = 3
_WORDS = ("conditions", "observedGeneration", "lastUpdated")


class Condition(NamedTuple):
    type: str
    status: str
    reason: str
    message: str = ""


class Reasons(NamedTuple):
    """Reasons of a condition by status: True, False, Unknown."""

    true: str
    false: str
    unknown: str

    def of(self, status: str) -> str:
        return {TRUE: self.true, FALSE: self.false}.get(status, self.unknown)


READY = Reasons("Ready", "NotReady", "ReadyUnknown")
AVAILABLE = Reasons("Available", "NotAvailable", "AvailableUnknown")
UP_TO_DATE = Reasons("UpToDate", "NotUpToDate", "UpToDateUnknown")


def holds(type_: str, yes: bool, reasons: Reasons, message: str = "") -> Condition:
    """A condition with a known status. The message is used only when it is False."""
    return Condition(type_, TRUE, reasons.true) if yes else Condition(type_, FALSE, reasons.false, message)


def with_status(obj: Object, status: Object, conditions: Iterable[Condition], now: str) -> Object:
    """The object with this status and these conditions; the identical object if nothing changes.

    Conditions of other components stay. Fields of `status` that are None are left out.
    """
    generation = obj["metadata"].get("generation", 0)
    said = {condition["type"]: condition for condition in (obj.get("status") or {}).get("conditions") or ()}
    for type_, state, reason, message in conditions:
        old = said.get(type_)
        new: Object = {**(old or {}), "type": type_, "status": state, "reason": reason, "message": message}
        new["observedGeneration"] = generation
        if old is None or old.get("status") != state or "lastTransitionTime" not in old:
            new["lastTransitionTime"] = now
        said[type_] = new
    fresh = {key: value for key, value in status.items() if value is not None}
    fresh |= {"observedGeneration": generation, "conditions": list(said.values())}
    return obj if fresh == obj.get("status") else {**obj, "status": fresh}


def differ_in_words(old: Object, new: Object) -> bool:
    """Reports whether a status has no news for other reconcilers: only reasons or messages changed, or nothing is
    provisioned yet.
    """
    before, after = old.get("status") or {}, new["status"]
    if not before.get("conditions"):
        if new.get("kind") == MACHINE:
            return not condition_is(new, "Ready")  # its Node does not exist yet
        return not initialization(new, "infrastructureProvisioned") and not initialization(new, "provisioned")
    return _facts(before) == _facts(after)


def _facts(status: Object) -> tuple[Object, dict[str, str]]:
    said = {key: value for key, value in status.items() if key not in _WORDS}
    return said, {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}


def only(obj: Object, condition: Condition, now: str) -> Object:
    """The object with one condition set and nothing else changed."""
    generation = obj["metadata"].get("generation", 0)
    type_, state, reason, message = condition
    return set_condition(obj, type_, state, reason=reason, message=message, observed_generation=generation, now=now)


def paused_condition(paused: bool, cluster: Mapping[str, Any] | None) -> Condition:
    if not paused:
        return Condition("Paused", FALSE, "NotPaused")
    by_cluster = bool(((cluster or {}).get("spec") or {}).get("paused"))
    why = (
        "Cluster spec.paused is set to true" if by_cluster else "the object has the cluster.x-k8s.io/paused annotation"
    )
    return Condition("Paused", TRUE, "Paused", why)


def by_type(found: Iterable[Condition]) -> dict[str, Condition]:
    return {condition.type: condition for condition in found}


def own_conditions(obj: Mapping[str, Any]) -> dict[str, Condition]:
    """The current conditions of an object, whichever component set them."""
    said = (obj.get("status") or {}).get("conditions") or ()
    return by_type(Condition(c["type"], c["status"], c.get("reason", ""), c.get("message", "")) for c in said)


def mirror(source: Mapping[str, Any], type_: str, target: str, fallback: Condition) -> Condition:
    """Another object's condition under a new type; `fallback` if it has none."""
    found = get_condition(source, type_)
    if found is None:
        return fallback
    reason = str(found.get("reason") or fallback.reason)
    return Condition(target, str(found["status"]), reason, str(found.get("message") or ""))


def summary(
    target: str,
    found: Mapping[str, Condition],
    types: Sequence[str],
    reasons: Reasons,
    negative: Sequence[str] = (),
) -> Condition:
    """Summarizes several conditions of one object. Conditions in `negative` are good when False."""
    worst, said = TRUE, []
    for type_ in types:
        condition = found.get(type_) or Condition(type_, UNKNOWN, "NotYetReported", "Condition not yet reported")
        status = _turned(condition.status) if type_ in negative else condition.status
        if status == TRUE:
            continue
        worst = FALSE if FALSE in (worst, status) else UNKNOWN
        said.append(f"* {type_}: {condition.message or condition.reason}")
    return Condition(target, worst, reasons.of(worst), "\n".join(said))


def _turned(status: str) -> str:
    return {TRUE: FALSE, FALSE: TRUE}.get(status, status)


def aggregate(target: str, objects: Sequence[Mapping[str, Any]], type_: str, kind: str, reasons: Reasons) -> Condition:
    """Aggregates the same condition of many objects."""
    bad = [obj for obj in objects if not condition_is(obj, type_)]
    worst = FALSE if any(condition_is(obj, type_, FALSE) for obj in bad) else UNKNOWN if bad else TRUE
    return Condition(target, worst, reasons.of(worst), told(kind, bad, type_))


def told(kind: str, objects: Sequence[Mapping[str, Any]], type_: str) -> str:
    """Messages of one condition over many objects; equal messages are merged."""
    said: dict[str, list[str]] = {}
    for obj in objects:
        message = str((get_condition(obj, type_) or {}).get("message") or "")
        if not message and get_condition(obj, type_) is None:
            message = f"Condition {type_} not yet reported"
        said.setdefault(message or type_, []).append(obj["metadata"]["name"])
    return "\n".join(f"* {named(kind, sorted(names))}:{_below(message)}" for message, names in sorted(said.items()))


def named(kind: str, names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    more = f", ... ({len(names) - NAMES_SHOWN} more)" if len(names) > NAMES_SHOWN else ""
    return f"{kind}{'s' if len(names) > 1 else ''} {shown}{more}"


def _below(message: str) -> str:
    if not message.startswith("* "):
        return f" {message}"
    return "".join(f"\n  {line}" for line in message.splitlines())
