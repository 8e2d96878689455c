"""Decides whether a worker's lease has certainly expired, by the hub's own monotonic clock. Pure.

No time in the Lease is trusted except its duration: what counts is since when the hub has seen this very state of it. A
hub that starts knows nothing and begins anew, which only ever delays a migration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.fleet.moving.settings import Settings
from shoal.kinds import fleet

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    state: str
    """Version of the Lease; empty if there is none."""
    since: float
    """When this version was first seen: the renewal was not later."""


def state_of(lease: Object | None) -> str:
    return f"{lease['metadata']['uid']}/{lease['metadata']['resourceVersion']}" if lease is not None else ""


def seen(before: Seen | None, lease: Object | None, now: float) -> Seen:
    """`now` is when the response arrived, never before the request was sent."""
    state = state_of(lease)
    return before if before is not None and before.state == state else Seen(state, now)


def patience(lease: Object | None, settings: Settings) -> float:
    """Seconds of silence after which the worker can no longer hold anything and its grace period is over."""
    said = ((lease or {}).get("spec") or {}).get("leaseDurationSeconds") or 0
    return max(float(said), fleet.SILENCE_SECONDS) + settings.skew + settings.grace


def ended(known: Seen | None, lease: Object | None, asked: float, settings: Settings) -> bool:
    """`requested_at`: when the Lease was requested, so the result was true then or later."""
    if known is None or known.state != state_of(lease):
        return False
    return asked - known.since >= patience(lease, settings)
