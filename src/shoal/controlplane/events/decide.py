"""How long an Event is kept. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

Object = dict[str, Any]

KEPT_SECONDS = 3600.0
"""After its last write, as upstream has it."""


def expires(event: Object, now: float) -> float:
    """Seconds since the epoch. The last write is in managedFields; no write was later than now, whatever they say."""
    metadata = event["metadata"]
    times = [_seconds(metadata["creationTimestamp"])]
    times += [_seconds(entry.get("time")) for entry in metadata.get("managedFields") or ()]
    return min(max(times), now) + KEPT_SECONDS


def _seconds(time: object) -> float:
    try:
        return datetime.fromisoformat(str(time)).timestamp()
    except ValueError:
        return 0.0
