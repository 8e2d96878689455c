"""Decides which Events a status change deserves. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

Object = dict[str, Any]

NORMAL, WARNING = "Normal", "Warning"


@dataclass(frozen=True, slots=True)
class EventRule:
    """Which status changes of a kind become Events. A condition that leaves True is always reported."""

    on_true: frozenset[str] = frozenset()
    """Conditions reported when they become True."""
    on_change: frozenset[str] = frozenset()
    """Conditions of which every change is reported, for example why an object waits or that it moves."""
    negative_polarity: frozenset[str] = frozenset()
    """Conditions of negative polarity: True is a warning."""
    success_reasons: frozenset[str] = frozenset()
    """Reasons that are no warning whatever the status, for example of a condition that ends well."""
    phases: frozenset[str] = frozenset()
    """Phases reported when entered."""
    warning_phases: frozenset[str] = frozenset()
    assignment_field: str = ""
    """Status field that names where the object is assigned."""


class StatusSnapshot(NamedTuple):
    phase: str
    assignment: str
    conditions: tuple[tuple[str, str, str, str], ...]
    """Type, status, reason and message of each."""


class StatusEvent(NamedTuple):
    type: str
    reason: str
    message: str


EMPTY_STATUS = StatusSnapshot("", "", ())


def status_snapshot(obj: Object, rule: EventRule) -> StatusSnapshot:
    status = obj.get("status") or {}
    conditions = tuple(
        (str(each["type"]), str(each.get("status")), str(each.get("reason") or ""), str(each.get("message") or ""))
        for each in status.get("conditions") or ()
    )
    return StatusSnapshot(
        str(status.get("phase") or ""),
        str(status.get(rule.assignment_field) or "") if rule.assignment_field else "",
        conditions,
    )


def events_between(old: StatusSnapshot, new: StatusSnapshot, rule: EventRule) -> Iterator[StatusEvent]:
    if new.assignment != old.assignment:
        change = (
            f"from {old.assignment} to {new.assignment}"
            if old.assignment and new.assignment
            else new.assignment or old.assignment
        )
        yield StatusEvent(NORMAL, "Assigned" if new.assignment else "Unassigned", f"{rule.assignment_field}: {change}")
    earlier = {type_: rest for type_, *rest in old.conditions}
    for type_, status, reason, message in new.conditions:
        old_status, old_reason, old_message = earlier.get(type_, ("", "", ""))
        if (old_status, old_reason, old_message) == (status, reason, message):
            continue
        is_worse = old_status == "True" != status and type_ not in rule.negative_polarity
        is_better = status == "True" != old_status and type_ in rule.on_true
        is_news = type_ in rule.on_change and ((old_status, old_reason) != (status, reason) or status != "True")
        if type_ in rule.negative_polarity and "True" not in (old_status, status):
            continue
        if is_worse or is_better or is_news:
            is_bad = (status == "True") == (type_ in rule.negative_polarity) and reason not in rule.success_reasons
            yield StatusEvent(
                WARNING if is_bad else NORMAL, reason or type_, f"{type_} is {status}: {message}".rstrip(": ")
            )
    if new.phase != old.phase and new.phase in rule.phases | rule.warning_phases:
        event_type = WARNING if new.phase in rule.warning_phases else NORMAL
        yield StatusEvent(event_type, new.phase, f"phase changed from {old.phase} to {new.phase}" if old.phase else "")
