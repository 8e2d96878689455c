"""Serialises writes per namespace while a ResourceQuota exists.

Quota usage is counted from the cache, which lags writes that are still queued: two writes that fit alone could
otherwise pass together.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from shoal.apiserver.admission.plugins.resourcequota import is_measured, is_quota_limited
from shoal.apiserver.keyed_locks import LockKey
from shoal.apiserver.server import RequestContext, ServerComponents

T = TypeVar("T")


def needs_quota_lock(server: ServerComponents, ctx: RequestContext) -> bool:
    """Reports whether a quota of the namespace may apply to the write."""
    if not ctx.namespace or ctx.verb not in ("create", "update", "patch") or not is_quota_limited(server, ctx):
        return False
    if ctx.verb == "create":
        return not ctx.info.subresource
    # An update does not change an object count, but PUT and apply may create.
    return ctx.info.subresource in ("", "resize") and (is_measured(ctx) or ctx.cached_object() is None)


async def run_locked(
    key: LockKey,
    write: Callable[[ServerComponents, RequestContext], Awaitable[T]],
    server: ServerComponents,
    ctx: RequestContext,
) -> T:
    """Runs the write under the lock until it is durable and in the cache."""
    async with server.locks.lock(key):
        ctx.held_locks = (*ctx.held_locks, key)
        return await write(server, ctx)


def namespace_lock_key(ctx: RequestContext) -> LockKey:
    return ctx.info.cluster, ctx.namespace


def services_lock_key(ctx: RequestContext) -> LockKey:
    """Services are serialised in the whole cluster: each write sees the addresses and ports the previous one
    allocated.
    """
    return ctx.info.cluster, "/services"


@asynccontextmanager
async def write_locks(server: ServerComponents, ctx: RequestContext) -> AsyncIterator[None]:
    """Locks for the last part of a write that webhooks have reviewed: the webhooks may write there before they
    respond.
    """
    keys = [namespace_lock_key(ctx)] if needs_quota_lock(server, ctx) else []
    if (ctx.resource.group, ctx.resource.plural) == ("", "services") and not ctx.info.subresource:
        keys.append(services_lock_key(ctx))
    async with AsyncExitStack() as stack:
        for key in keys:
            if key not in ctx.held_locks:
                await stack.enter_async_context(server.locks.lock(key))
        yield
