"""LimitRange: sets missing requests and limits of pods, and rejects pods and claims outside the bounds."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson

from shoal.apiserver.core import Call, Core
from shoal.kinds.limit_checks import claim_problems, pod_problems, set_defaults, together

Object = dict[str, Any]


def admit(core: Core, call: Call, new: Object, old: Object | None) -> None:
    """For pods and PersistentVolumeClaims. A pod's containers are immutable, so updates other than resize are
    skipped.
    """
    pod, subresource = call.resource.plural == "pods", call.target.subresource
    if subresource != "resize" if pod and old is not None else subresource:
        return
    table = core.cache.kind("", "limitranges").tables.get(call.target.cluster)
    if table is None or not table.entries or (old is not None and "deletionTimestamp" in old["metadata"]):
        return
    ranges = [_read(entry.data) for entry in table.select(call.namespace)]
    if pod:
        for limit_range in ranges:
            set_defaults(new, limit_range)
        if ranges and old is None:
            call.resource.rules.prepare_create(new)  # the QoS class depends on the defaults just set
    for limit_range in ranges:
        problem = together((pod_problems if pod else claim_problems)(new, limit_range))
        if problem:
            raise call.resource.forbidden(new, problem)


@lru_cache(maxsize=1024)
def _read(data: bytes) -> Object:
    """The result is shared by all callers and must not be modified."""
    found: Object = orjson.loads(data)
    return found
