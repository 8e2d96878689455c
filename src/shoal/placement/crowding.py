"""Capacity backoff of a cluster in which replicas found no node, so that they move elsewhere and do not oscillate.
Pure.

Replicas that are unschedulable for too long make the cluster full: it gets no more than run there, until it has
capacity for one more than it had then, or until a delay is over that doubles every time. Then more are tried again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from shoal.kinds.leaves import CROWDED
from shoal.kinds.workload import UNSCHEDULABLE
from shoal.objects.duration import parse_time

Object = dict[str, Any]

FIRST_PAUSE, LONGEST_PAUSE = 300.0, 3600.0


@dataclass(frozen=True, slots=True)
class Crowding:
    since: float | None = None
    """Since when replicas have been unschedulable that may fit elsewhere."""
    most: int | None = None
    """How many ran there when it was found full."""
    fits: int | None = None
    """How many more fitted then according to its nodes; None if unknown."""
    tries: int = 0
    until: float = 0.0
    """When more are tried; the attempts are kept for as long again."""

    def text(self) -> str:
        """Empty if there is nothing to store."""
        found: Object = {"since": _moment(self.since)} if self.since is not None else {}
        found |= {"most": self.most, "fits": self.fits} if self.most is not None else {}
        found |= {"tries": self.tries, "until": _moment(self.until)} if self.tries else {}
        return json.dumps(found, separators=(",", ":")) if found else ""


CALM = Crowding()


def crowding_of(leaf: Object) -> Crowding:
    """Returns the stored backoff; an unreadable one counts as none."""
    text = (leaf["metadata"].get("annotations") or {}).get(CROWDED)
    if text is None:
        return CALM
    try:
        said = json.loads(text)
        tries, until = int(said.get("tries", 0)), parse_time(said.get("until")) or 0.0
        return Crowding(parse_time(said.get("since")), said.get("most"), said.get("fits"), tries, until)
    except (ValueError, AttributeError, TypeError):
        return CALM


def without_node(leaf: Object) -> int:
    """Returns how many replicas are unschedulable, as the syncer reports."""
    said = (leaf["metadata"].get("annotations") or {}).get(UNSCHEDULABLE, "")
    return int(said) if said.isdecimal() else 0


def looked_at(before: Crowding, replicas: int, stuck: int, fits: int | None, now: float, patience: float) -> Crowding:
    """Returns the next state. `unschedulable` of the replicas have no node; `free` is how many more fit there now;
    `timeout` is how long they may be without one.
    """
    if before.most is not None:
        grown = fits is not None and before.fits is not None and fits > before.fits
        if now >= before.until or grown:
            return replace(before, most=None, fits=None, since=now if stuck else None)
        if replicas > before.most:
            # They did not fit elsewhere either. Fewer may run by now.
            return replace(before, since=None, most=min(before.most, replicas - stuck))
    elif not stuck and now >= before.until + pause(before.tries):
        return CALM
    if not stuck:
        return replace(before, since=None)
    since = now if before.since is None else before.since
    if now < since + patience:
        # This also covers counts that the syncer has not updated yet after they moved.
        return replace(before, since=since)
    tries = before.tries + 1
    return Crowding(None, replicas - stuck, fits, tries, now + pause(tries))


def pause(tries: int) -> float:
    return min(FIRST_PAUSE * 2.0 ** (tries - 1), LONGEST_PAUSE) if tries else 0.0


def wakes(crowding: Crowding, now: float, patience: float) -> float | None:
    """Returns the seconds until time alone changes the backoff."""
    moments = [crowding.since + patience] if crowding.since is not None else []
    if crowding.tries:
        moments.append(crowding.until if crowding.most is not None else crowding.until + pause(crowding.tries))
    return min((max(moment - now, 0.0) for moment in moments if moment < float("inf")), default=None)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
