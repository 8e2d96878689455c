"""Which locks a write takes. `pipeline.take_locks` is the only place that takes them.

Quota usage and the addresses of Services are computed from the cache, which lags writes that are still queued: two
writes that fit alone could otherwise pass together. A lock is held until the write is durable and in the cache.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.admission.plugins.resourcequota import is_measured, is_quota_limited
from shoal.apiserver.admission.plugins.service_allocation import RESOURCE as SERVICES
from shoal.apiserver.keyed_locks import LockKey
from shoal.apiserver.server import RequestContext, ServerComponents

LOCKED_VERBS = ("create", "update", "patch")


def lock_keys(server: ServerComponents, ctx: RequestContext, old: dict[str, Any] | None) -> tuple[LockKey, ...]:
    """All writes take their locks in this order."""
    keys: tuple[LockKey, ...] = ()
    namespace = ctx.info.namespace
    if namespace and _needs_quota_lock(server, ctx, old):
        keys = ((ctx.info.cluster, namespace),)
    if ctx.resource.plural == "services" and (ctx.resource.group, "services") == SERVICES and not ctx.info.subresource:
        # Services are serialised in the whole cluster: each write sees the addresses and ports the previous one
        # allocated.
        keys = (*keys, (ctx.info.cluster, "/services"))
    return keys


def _needs_quota_lock(server: ServerComponents, ctx: RequestContext, old: dict[str, Any] | None) -> bool:
    """Reports whether a quota of the namespace may apply to the write."""
    if ctx.verb not in LOCKED_VERBS or not is_quota_limited(server, ctx):
        return False
    if ctx.verb == "create":
        return not ctx.info.subresource
    # An update does not change an object count, but PUT and apply may create.
    return ctx.info.subresource in ("", "resize") and (is_measured(ctx) or old is None)


def release_locks(server: ServerComponents, locks: list[LockKey]) -> None:
    while locks:
        server.locks.release(locks.pop())
