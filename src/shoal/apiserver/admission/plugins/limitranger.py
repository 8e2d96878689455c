"""LimitRange: sets missing requests and limits of pods, and rejects pods and claims outside the bounds."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson

from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.kinds.core.limit_ranger import (
    aggregate_errors,
    apply_limit_range_defaults,
    claim_limit_errors,
    pod_limit_errors,
)

Object = dict[str, Any]


def admit(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    """For pods and PersistentVolumeClaims. A pod's containers are immutable, so updates other than resize are
    skipped.
    """
    pod, subresource = ctx.resource.plural == "pods", ctx.info.subresource
    if subresource != "resize" if pod and old is not None else subresource:
        return
    table = server.cache.resource_cache("", "limitranges").tables.get(ctx.info.cluster)
    if table is None or not table.entries or (old is not None and "deletionTimestamp" in old["metadata"]):
        return
    ranges = [_decode_limit_range(entry.data) for entry in table.select(ctx.namespace)]
    if pod:
        for limit_range in ranges:
            apply_limit_range_defaults(new, limit_range)
        if ranges and old is None:
            ctx.resource.strategy.prepare_for_create(new)  # the QoS class depends on the defaults just set
    for limit_range in ranges:
        error = aggregate_errors((pod_limit_errors if pod else claim_limit_errors)(new, limit_range))
        if error:
            raise ctx.resource.forbidden(new, error)


@lru_cache(maxsize=1024)
def _decode_limit_range(data: bytes) -> Object:
    """The result is shared by all callers and must not be modified."""
    limit_range: Object = orjson.loads(data)
    return limit_range
