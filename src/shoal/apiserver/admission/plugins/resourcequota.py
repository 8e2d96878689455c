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

from shoal.apiserver.cache.cacher import ObjectTable
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.kinds.core.quota_usage import (
    ONE,
    ObjectUsage,
    QuotaSpec,
    changes_usage,
    exceeded_quota_error,
    matching_resource_names,
    measure,
    missing_requests_error,
    parse_quota,
    total_usage,
    usage_increase,
)

Object = dict[str, Any]

MEASURED_KINDS = ("pods", "services", "persistentvolumeclaims")
"""Core kinds with more usage than their count. All others are only counted."""


def is_measured(ctx: RequestContext) -> bool:
    return not ctx.resource.group and ctx.resource.plural in MEASURED_KINDS


def is_quota_limited(server: ServerComponents, ctx: RequestContext) -> bool:
    """Reports whether a quota of the namespace covers the resource. Costs one lookup in a cluster without any quota."""
    table = server.cache.resource_cache("", "resourcequotas").tables.get(ctx.info.cluster)
    if table is None or not table.entries:
        return False
    group, plural = ctx.resource.group, ctx.resource.plural
    return any(matching_resource_names(group, plural, quota.hard) for quota in _quotas(table, ctx.namespace))


def admit(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    table = server.cache.resource_cache("", "resourcequotas").tables.get(ctx.info.cluster)
    if table is None or not table.entries or not ctx.namespace:
        return
    group, plural = ctx.resource.group, ctx.resource.plural
    if not changes_usage(group, plural, ctx.info.subresource, new, old):
        return
    usage_after, usage_before, now = measure(group, plural, new), None, server.clock.now()
    for quota in _quotas(table, ctx.namespace):
        names = matching_resource_names(group, plural, quota.hard)
        if not names or not quota.matches(usage_after):
            continue
        missing = missing_requests_error(new, names) if (group, plural) == ("", "pods") else ""
        if missing:
            raise ctx.resource.forbidden(new, f"failed quota: {quota.name}: {missing}")
        if old is not None:
            usage_before = usage_before or measure(group, plural, old)
        counted = usage_before.usage_at(now) if usage_before is not None and quota.matches(usage_before) else None
        requested = usage_increase(usage_after.usage_at(now), counted, names)
        if requested:
            used = total_usage((one for one in _usages(ctx) if quota.matches(one)), list(requested), now)
            error = exceeded_quota_error(quota, requested, used)
            if error:
                raise ctx.resource.forbidden(new, error)


def _quotas(table: ObjectTable, namespace: str) -> list[QuotaSpec]:
    return [_decode_quota(entry.data) for entry in table.select(namespace)]


@lru_cache(maxsize=1024)
def _decode_quota(data: bytes) -> QuotaSpec:
    return parse_quota(orjson.loads(data))


def _usages(ctx: RequestContext) -> Iterator[ObjectUsage]:
    """Usage of every object of the resource in the namespace. Each object is measured once in its life."""
    table = ctx.resource_cache.table(ctx.info.cluster)
    group, plural = ctx.resource.group, ctx.resource.plural
    if not is_measured(ctx):
        count = bisect_left(table.keys, f"{ctx.namespace}0") - bisect_left(table.keys, f"{ctx.namespace}/")
        amounts = measure(group, plural, {}).amounts
        yield ObjectUsage(dict.fromkeys(amounts, ONE * count))
        return
    for entry in table.select(ctx.namespace):
        if entry.quota_usage is None:
            entry.quota_usage = measure(group, plural, entry.object())
        yield entry.quota_usage
