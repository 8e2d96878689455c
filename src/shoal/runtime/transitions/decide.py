"""Decides which Events a status change deserves. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

Object = dict[str, Any]

NORMAL, WARNING = "Normal", "Warning"


@dataclass(frozen=True, slots=True)
class Telling:
    """Which status changes of a kind become Events. A condition that leaves True is always reported."""

    summary: frozenset[str] = frozenset()
    """Conditions reported when they become True."""
    news: frozenset[str] = frozenset()
    """Conditions of which every change is reported, for example why an object waits or that it moves."""
    alarming: frozenset[str] = frozenset()
    """Conditions of negative polarity: True is a warning."""
    phases: frozenset[str] = frozenset()
    """Phases reported when entered."""
    bad_phases: frozenset[str] = frozenset()
    place: str = ""
    """Status field that names where the object is assigned."""


class State(NamedTuple):
    phase: str
    place: str
    conditions: tuple[tuple[str, str, str, str], ...]
    """Type, status, reason and message of each."""


class Said(NamedTuple):
    type: str
    reason: str
    message: str


UNKNOWN = State("", "", ())


def state_of(obj: Object, telling: Telling) -> State:
    status = obj.get("status") or {}
    found = tuple(
        (str(each["type"]), str(each.get("status")), str(each.get("reason") or ""), str(each.get("message") or ""))
        for each in status.get("conditions") or ()
    )
    return State(str(status.get("phase") or ""), str(status.get(telling.place) or "") if telling.place else "", found)


def said_of(before: State, now: State, telling: Telling) -> Iterator[Said]:
    if now.place != before.place:
        moved = f"from {before.place} to {now.place}" if before.place and now.place else now.place or before.place
        yield Said(NORMAL, "Assigned" if now.place else "Unassigned", f"{telling.place}: {moved}")
    earlier = {type_: rest for type_, *rest in before.conditions}
    for type_, status, reason, message in now.conditions:
        was, because, text = earlier.get(type_, ("", "", ""))
        if (was, because, text) == (status, reason, message):
            continue
        worse = was == "True" != status and type_ not in telling.alarming
        better = status == "True" != was and type_ in telling.summary
        news = type_ in telling.news and ((was, because) != (status, reason) or status != "True")
        if type_ in telling.alarming and "True" not in (was, status):
            continue
        if worse or better or news:
            bad = (status == "True") if type_ in telling.alarming else status != "True"
            yield Said(WARNING if bad else NORMAL, reason or type_, f"{type_} is {status}: {message}".rstrip(": "))
    if now.phase != before.phase and now.phase in telling.phases | telling.bad_phases:
        kind = WARNING if now.phase in telling.bad_phases else NORMAL
        yield Said(kind, now.phase, f"phase {before.phase} has become {now.phase}" if before.phase else "")
