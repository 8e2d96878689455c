"""Whether a worker's lease has ended for certain, by the hub's own monotonic clock. Pure.

Nothing that a Lease says about time is believed but for how long it lasts: what counts is since when the hub has seen
this very state of it. A hub that starts knows nothing and begins anew, which only ever delays a move.
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
    """Which state of the Lease; empty: there is none."""
    since: float
    """When it was first seen: the renewal was not later."""


def state_of(lease: Object | None) -> str:
    return f"{lease['metadata']['uid']}/{lease['metadata']['resourceVersion']}" if lease is not None else ""


def seen(before: Seen | None, lease: Object | None, now: float) -> Seen:
    """`now` is when the answer was there, never before it was asked for."""
    state = state_of(lease)
    return before if before is not None and before.state == state else Seen(state, now)


def patience(lease: Object | None, settings: Settings) -> float:
    """Seconds of silence after which the worker cannot hold anything any more, and has had its grace."""
    said = ((lease or {}).get("spec") or {}).get("leaseDurationSeconds") or 0
    return max(float(said), fleet.SILENCE_SECONDS) + settings.skew + settings.grace


def ended(known: Seen | None, lease: Object | None, asked: float, settings: Settings) -> bool:
    """`asked`: when the Lease was asked for, so that what is found was true then or later."""
    if known is None or known.state != state_of(lease):
        return False
    return asked - known.since >= patience(lease, settings)
