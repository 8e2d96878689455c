"""Computes the status of a ResourceQuota from existing objects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.kinds.core.pod.resource_totals import parse_resource_list
from shoal.kinds.core.quota_usage import (
    ObjectUsage,
    matching_resource_names,
    parse_quota,
    total_usage,
    tracked_resources,
)

Object = dict[str, Any]
GroupPlural = tuple[str, str]
"""Group and plural."""


def quota_resources(quotas: Iterable[Object]) -> set[GroupPlural]:
    """Returns the resources that the quotas constrain."""
    resources: set[GroupPlural] = set()
    for quota in quotas:
        resources |= tracked_resources((quota.get("spec") or {}).get("hard") or ())
    return resources


def quota_status(obj: Object, usages: Mapping[GroupPlural, Iterable[ObjectUsage]], now: float) -> Object:
    """`usages` has an entry for every served resource, empty or not. Others are omitted from `used`."""
    quota = parse_quota(obj)
    used: dict[str, str] = {}
    for (group, plural), objects in usages.items():
        names = matching_resource_names(group, plural, quota.hard)
        usage = total_usage((one for one in objects if quota.matches(one)), names, now)
        used |= {name: str(amount) for name, amount in usage.items()}
    hard = (obj.get("spec") or {}).get("hard") or {}
    return {"hard": hard, "used": {name: used[name] for name in hard if name in used}}


def needs_update(obj: Object, desired: Object) -> bool:
    current = obj.get("status") or {}
    return any(
        parse_resource_list(current.get(field)) != parse_resource_list(desired[field]) for field in ("hard", "used")
    )


def next_change(usages: Mapping[GroupPlural, Iterable[ObjectUsage]], now: float) -> float | None:
    """Returns the seconds until an overdue terminating pod stops counting; None if only an event can change the
    sums.
    """
    times = [
        one.compute_until for objects in usages.values() for one in objects if now < one.compute_until < float("inf")
    ]
    return min(times) - now + 0.001 if times else None
