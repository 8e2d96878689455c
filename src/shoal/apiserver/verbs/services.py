"""Writes of Services, serialised per logical cluster: each sees the addresses and ports the previous one allocated.

With webhooks the lock is taken after them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.verbs.create import create
from shoal.apiserver.verbs.patch import patch
from shoal.apiserver.verbs.update import update
from shoal.apiserver.write.locks import run_locked, services_lock_key
from shoal.objects.wire import Answer, Response


def _with_services_lock(
    write: Callable[[ServerComponents, RequestContext], Awaitable[Response]],
) -> Callable[[ServerComponents, RequestContext], Awaitable[Answer]]:
    async def write_locked(server: ServerComponents, ctx: RequestContext) -> Answer:
        if server.webhooks.for_cluster(ctx.info.cluster) is not None:
            return await write(server, ctx)
        return await run_locked(services_lock_key(ctx), write, server, ctx)

    return write_locked


create_service, update_service, patch_service = (
    _with_services_lock(create),
    _with_services_lock(update),
    _with_services_lock(patch),
)
