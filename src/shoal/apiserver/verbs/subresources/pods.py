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
from shoal.kinds.core.pod import subresources as subresources
from shoal.kinds.core.pod.pods import default_pod
from shoal.kinds.strategy import Strategy
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import BadRequest, NotFound, NotImplementedHere
from shoal.objects.wire import Response

SIMULATED_NODE_MESSAGE = "simulated node; use infrastructure: kind"


def read_log(server: ServerComponents, ctx: RequestContext) -> Response:
    """A pod without a node has an empty log."""
    _refuse_mirrored(ctx)
    spec = ctx.require_object().object().get("spec") or {}
    names = [
        container.get("name")
        for field in ("containers", "initContainers", "ephemeralContainers")
        for container in spec.get(field) or ()
    ]
    container_name = ctx.query.get("container") or ""
    if container_name and container_name not in names:
        raise BadRequest(f"container {container_name} is not valid for pod {ctx.name}")
    if not container_name and len(spec.get("containers") or ()) > 1:
        choices = " ".join(str(container.get("name")) for container in spec["containers"])
        reason = f"a container name must be specified for pod {ctx.name}, choose one of: [{choices}]"
        raise BadRequest(reason)
    return refuse_proxy(server, ctx) if spec.get("nodeName") else Response(200, b"", "text/plain")


def refuse_exec(server: ServerComponents, ctx: RequestContext) -> Response:
    _refuse_mirrored(ctx)
    if not (ctx.require_object().object().get("spec") or {}).get("nodeName"):
        raise BadRequest(f"pod {ctx.name} does not have a host assigned")
    return refuse_proxy(server, ctx)


def refuse_proxy(server: ServerComponents, ctx: RequestContext) -> Response:
    ctx.require_object()
    _refuse_mirrored(ctx)
    raise NotImplementedHere(SIMULATED_NODE_MESSAGE)


def _refuse_mirrored(ctx: RequestContext) -> None:
    """A mirrored pod runs in a workload Cluster and must be accessed there."""
    metadata = ctx.require_object().object()["metadata"]
    cluster = workloadcluster.mirror_source({"metadata": metadata}) if ctx.cluster.profile == "hub" else ""
    if cluster:
        pod_name = (metadata.get("annotations") or {}).get(workloadcluster.MIRRORED_POD_ANNOTATION, "")
        raise NotImplementedHere(f"mirrored pod: access pod {pod_name} in workload Cluster {cluster}")


EPHEMERAL_CONTAINERS_STRATEGY = Strategy(
    tracks_generation=True,
    default=default_pod,
    prepare_for_update=subresources.keep_only_ephemeral_containers,
    validate=subresources.validate_ephemeral_containers,
)
RESIZE_STRATEGY = Strategy(
    tracks_generation=True,
    default=default_pod,
    prepare_for_update=subresources.keep_only_resources,
    validate=subresources.validate_resize,
)
UNCHECKED_STRATEGY = Strategy()
"""For changes the server itself makes to a pod: nothing is checked again."""


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
