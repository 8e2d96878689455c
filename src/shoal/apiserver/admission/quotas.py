"""ResourceQuota: rejects a write that would exceed a quota of its namespace.

Usage is counted from the objects in the cache. That is exact, because writes in a namespace with a quota are serialised
(`write.locks`): each sees what the previous one stored.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import orjson

from shoal.apiserver.cache import Table
from shoal.apiserver.core import Call, Core
from shoal.kinds.quota_usage import (
    ONE,
    Charge,
    Quota,
    changes_charge,
    charge,
    exceeded,
    increase,
    read_quota,
    total,
    tracked,
    unspecified,
)

Object = dict[str, Any]

MEASURED = ("pods", "services", "persistentvolumeclaims")
"""Core kinds with more usage than their count. All others are only counted."""


def is_measured(call: Call) -> bool:
    return not call.resource.group and call.resource.plural in MEASURED


def is_charged(core: Core, call: Call) -> bool:
    """Reports whether a quota of the namespace covers the resource. Costs one lookup in a cluster without any quota."""
    table = core.cache.kind("", "resourcequotas").tables.get(call.target.cluster)
    if table is None or not table.entries:
        return False
    group, plural = call.resource.group, call.resource.plural
    return any(tracked(group, plural, quota.hard) for quota in _quotas(table, call.namespace))


def admit(core: Core, call: Call, new: Object, old: Object | None) -> None:
    table = core.cache.kind("", "resourcequotas").tables.get(call.target.cluster)
    if table is None or not table.entries or not call.namespace:
        return
    group, plural = call.resource.group, call.resource.plural
    if not changes_charge(group, plural, call.target.subresource, new, old):
        return
    wanted, before, now = charge(group, plural, new), None, core.clock.now()
    for quota in _quotas(table, call.namespace):
        names = tracked(group, plural, quota.hard)
        if not names or not quota.covers(wanted):
            continue
        missing = unspecified(new, names) if (group, plural) == ("", "pods") else ""
        if missing:
            raise call.resource.forbidden(new, f"failed quota: {quota.name}: {missing}")
        if old is not None:
            before = before or charge(group, plural, old)
        counted = before.at(now) if before is not None and quota.covers(before) else None
        requested = increase(wanted.at(now), counted, names)
        if requested:
            used = total((one for one in _charges(call) if quota.covers(one)), list(requested), now)
            problem = exceeded(quota, requested, used)
            if problem:
                raise call.resource.forbidden(new, problem)


def _quotas(table: Table, namespace: str) -> list[Quota]:
    return [_read(entry.data) for entry in table.select(namespace)]


@lru_cache(maxsize=1024)
def _read(data: bytes) -> Quota:
    return read_quota(orjson.loads(data))


def _charges(call: Call) -> Iterator[Charge]:
    """Usage of every object of the resource in the namespace. Each object is measured once in its life."""
    table = call.kind.table(call.target.cluster)
    group, plural = call.resource.group, call.resource.plural
    if not is_measured(call):
        count = bisect_left(table.keys, f"{call.namespace}0") - bisect_left(table.keys, f"{call.namespace}/")
        amounts = charge(group, plural, {}).amounts
        yield Charge(dict.fromkeys(amounts, ONE * count))
        return
    for entry in table.select(call.namespace):
        if entry.charge is None:
            entry.charge = charge(group, plural, entry.object())
        yield entry.charge
