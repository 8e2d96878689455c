"""Computes the status of a ResourceQuota from existing objects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.kinds.pod_totals import amounts
from shoal.kinds.quota_usage import Charge, kinds_of, read_quota, total, tracked

Object = dict[str, Any]
KindName = tuple[str, str]
"""Group and plural."""


def watched(quotas: Iterable[Object]) -> set[KindName]:
    """Returns the resources that the quotas constrain."""
    found: set[KindName] = set()
    for quota in quotas:
        found |= kinds_of((quota.get("spec") or {}).get("hard") or ())
    return found


def status(obj: Object, charges: Mapping[KindName, Iterable[Charge]], now: float) -> Object:
    """`usages` has an entry for every served resource, empty or not. Others are omitted from `used`."""
    quota = read_quota(obj)
    used: dict[str, str] = {}
    for (group, plural), found in charges.items():
        names = tracked(group, plural, quota.hard)
        taken = total((one for one in found if quota.covers(one)), names, now)
        used |= {name: str(amount) for name, amount in taken.items()}
    hard = (obj.get("spec") or {}).get("hard") or {}
    return {"hard": hard, "used": {name: used[name] for name in hard if name in used}}


def needs_writing(obj: Object, wanted: Object) -> bool:
    said = obj.get("status") or {}
    return any(amounts(said.get(field)) != amounts(wanted[field]) for field in ("hard", "used"))


def next_change(charges: Mapping[KindName, Iterable[Charge]], now: float) -> float | None:
    """Returns the seconds until an overdue terminating pod stops counting; None if only an event can change the
    sums.
    """
    times = [one.until for found in charges.values() for one in found if now < one.until < float("inf")]
    return min(times) - now + 0.001 if times else None
