"""Subresources that change a pod besides PUT. `kinds.core.pod.subresources` defines what each may change.

`with_strategy` replaces the strategy of a request by that of the subresource; the generic verbs do the rest.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import orjson

from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.verbs.patch import patch
from shoal.apiserver.verbs.update import update
from shoal.kinds.core.pod.subresources import EPHEMERAL_CONTAINERS_STRATEGY, RESIZE_STRATEGY
from shoal.kinds.strategy import Strategy
from shoal.objects.errors import NotFound
from shoal.objects.wire import Response


def with_strategy(ctx: RequestContext, strategy: Strategy, *, with_status: bool = False) -> RequestContext:
    """With `with_status` the write changes status together with the rest."""
    return ctx.derive(resource=_resource_with_strategy(ctx.resource, strategy, with_status))


@lru_cache(maxsize=64)
def _resource_with_strategy(resource: Resource, strategy: Strategy, with_status: bool) -> Resource:
    return replace(resource, strategy=strategy, status=resource.status and not with_status)


async def update_ephemeral_containers(server: ServerComponents, ctx: RequestContext) -> Response:
    return await update(server, with_strategy(ctx, EPHEMERAL_CONTAINERS_STRATEGY))


async def patch_ephemeral_containers(server: ServerComponents, ctx: RequestContext) -> Response:
    return await patch(server, with_strategy(ctx, EPHEMERAL_CONTAINERS_STRATEGY))


async def update_resize(server: ServerComponents, ctx: RequestContext) -> Response:
    return await update(server, with_strategy(ctx, RESIZE_STRATEGY))


async def patch_resize(server: ServerComponents, ctx: RequestContext) -> Response:
    return await patch(server, with_strategy(ctx, RESIZE_STRATEGY))


def context_for_object(
    server: ServerComponents, ctx: RequestContext, group: str, plural: str, name: str, subresource: str
) -> RequestContext:
    """Returns the request context for another object of the same namespace."""
    resource = server.clusters.registry(ctx.cluster).find(group, "v1", plural)
    if resource is None:
        raise NotFound("the server could not find the requested resource")
    info = ctx.info._replace(group=group, version="v1", plural=plural, name=name, subresource=subresource)
    return ctx.derive(info=info, resource=resource, resource_cache=server.cache.resource_cache(group, plural))


def success_status(code: int) -> Response:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}
    return Response(code, orjson.dumps(status))
