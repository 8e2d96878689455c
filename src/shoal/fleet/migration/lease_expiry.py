"""Decides whether a worker's lease has certainly expired, by the hub's own monotonic clock. Pure.

No time in the Lease is trusted except its duration: what counts is since when the hub has seen this very state of it. A
hub that starts knows nothing and begins anew, which only ever delays a migration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.fleet.migration.settings import MigrationSettings
from shoal.kinds.fleet import infrav1

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LeaseObservation:
    version: str
    """Version of the Lease; empty if there is none."""
    since: float
    """When this version was first seen: the renewal was not later."""


def lease_version(lease: Object | None) -> str:
    return f"{lease['metadata']['uid']}/{lease['metadata']['resourceVersion']}" if lease is not None else ""


def observe_lease(previous: LeaseObservation | None, lease: Object | None, now: float) -> LeaseObservation:
    """`now` is when the response arrived, never before the request was sent."""
    version = lease_version(lease)
    return previous if previous is not None and previous.version == version else LeaseObservation(version, now)


def required_silence(lease: Object | None, settings: MigrationSettings) -> float:
    """Seconds of silence after which the worker can no longer hold anything and its grace period is over."""
    lease_seconds = ((lease or {}).get("spec") or {}).get("leaseDurationSeconds") or 0
    return max(float(lease_seconds), infrav1.LEASE_GRACE_SECONDS) + settings.skew + settings.grace


def has_expired(
    observation: LeaseObservation | None, lease: Object | None, requested_at: float, settings: MigrationSettings
) -> bool:
    """`requested_at`: when the Lease was requested, so the result was true then or later."""
    if observation is None or observation.version != lease_version(lease):
        return False
    return requested_at - observation.since >= required_silence(lease, settings)
