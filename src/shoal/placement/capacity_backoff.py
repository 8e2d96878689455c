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

from shoal.kinds.workload.leaf import CAPACITY_BACKOFF_ANNOTATION
from shoal.kinds.workload.workloadcluster import UNSCHEDULABLE_ANNOTATION
from shoal.objects.duration import parse_time

Object = dict[str, Any]

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 300.0, 3600.0


@dataclass(frozen=True, slots=True)
class CapacityBackoff:
    unschedulable_since: float | None = None
    """Since when replicas have been unschedulable that may fit elsewhere."""
    max_replicas: int | None = None
    """How many ran there when it was found full."""
    free_at_backoff: int | None = None
    """How many more fitted then according to its nodes; None if unknown."""
    attempts: int = 0
    retry_at: float = 0.0
    """When more are tried; the attempts are kept for as long again."""

    def to_annotation(self) -> str:
        """Empty if there is nothing to store."""
        stored: Object = {"since": _timestamp(self.unschedulable_since)} if self.unschedulable_since is not None else {}
        stored |= {"most": self.max_replicas, "fits": self.free_at_backoff} if self.max_replicas is not None else {}
        stored |= {"tries": self.attempts, "until": _timestamp(self.retry_at)} if self.attempts else {}
        return json.dumps(stored, separators=(",", ":")) if stored else ""


NO_BACKOFF = CapacityBackoff()


def backoff_of(leaf: Object) -> CapacityBackoff:
    """Returns the stored backoff; an unreadable one counts as none."""
    text = (leaf["metadata"].get("annotations") or {}).get(CAPACITY_BACKOFF_ANNOTATION)
    if text is None:
        return NO_BACKOFF
    try:
        stored = json.loads(text)
        attempts, retry_at = int(stored.get("tries", 0)), parse_time(stored.get("until")) or 0.0
        return CapacityBackoff(
            parse_time(stored.get("since")), stored.get("most"), stored.get("fits"), attempts, retry_at
        )
    except (ValueError, AttributeError, TypeError):
        return NO_BACKOFF


def unschedulable_count(leaf: Object) -> int:
    """Returns how many replicas are unschedulable, as the syncer reports."""
    count_text = (leaf["metadata"].get("annotations") or {}).get(UNSCHEDULABLE_ANNOTATION, "")
    return int(count_text) if count_text.isdecimal() else 0


def observe(
    previous: CapacityBackoff, replicas: int, unschedulable: int, free: int | None, now: float, timeout: float
) -> CapacityBackoff:
    """Returns the next state. `unschedulable` of the replicas have no node; `free` is how many more fit there now;
    `timeout` is how long they may be without one.
    """
    if previous.max_replicas is not None:
        has_grown = free is not None and previous.free_at_backoff is not None and free > previous.free_at_backoff
        if now >= previous.retry_at or has_grown:
            return replace(
                previous, max_replicas=None, free_at_backoff=None, unschedulable_since=now if unschedulable else None
            )
        if replicas > previous.max_replicas:
            # They did not fit elsewhere either. Fewer may run by now.
            return replace(
                previous, unschedulable_since=None, max_replicas=min(previous.max_replicas, replicas - unschedulable)
            )
    elif not unschedulable and now >= previous.retry_at + retry_delay(previous.attempts):
        return NO_BACKOFF
    if not unschedulable:
        return replace(previous, unschedulable_since=None)
    unschedulable_since = now if previous.unschedulable_since is None else previous.unschedulable_since
    if now < unschedulable_since + timeout:
        # This also covers counts that the syncer has not updated yet after they moved.
        return replace(previous, unschedulable_since=unschedulable_since)
    attempts = previous.attempts + 1
    return CapacityBackoff(None, replicas - unschedulable, free, attempts, now + retry_delay(attempts))


def retry_delay(attempts: int) -> float:
    return min(FIRST_RETRY_SECONDS * 2.0 ** (attempts - 1), MAX_RETRY_SECONDS) if attempts else 0.0


def seconds_until_change(backoff: CapacityBackoff, now: float, timeout: float) -> float | None:
    """Returns the seconds until time alone changes the backoff."""
    changes_at = [backoff.unschedulable_since + timeout] if backoff.unschedulable_since is not None else []
    if backoff.attempts:
        changes_at.append(
            backoff.retry_at if backoff.max_replicas is not None else backoff.retry_at + retry_delay(backoff.attempts)
        )
    return min((max(moment - now, 0.0) for moment in changes_at if moment < float("inf")), default=None)


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
