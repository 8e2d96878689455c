"""Expiry time of an Event. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

Object = dict[str, Any]

EVENT_TTL_SECONDS = 3600.0
"""Counted from the last write, as upstream does."""


def expiry_time(event: Object, now: float) -> float:
    """Returns seconds since the epoch. The last write is read from managedFields; times after `now` are capped to
    `now`.
    """
    metadata = event["metadata"]
    times = [_timestamp(metadata["creationTimestamp"])]
    times += [_timestamp(entry.get("time")) for entry in metadata.get("managedFields") or ()]
    return min(max(times), now) + EVENT_TTL_SECONDS


def _timestamp(time: object) -> float:
    try:
        return datetime.fromisoformat(str(time)).timestamp()
    except ValueError:
        return 0.0
