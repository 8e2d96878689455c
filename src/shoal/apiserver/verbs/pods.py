"""Subresources that change a pod besides PUT. `kinds.pod_subresources` defines what each may change.

`with_strategy` replaces the strategy of a request by that of the subresource; the generic verbs do the rest.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import orjson

from shoal.apiserver.core import Call, Core
from shoal.apiserver.registry import Resource
from shoal.apiserver.rules import Rules
from shoal.apiserver.verbs.patch import patch
from shoal.apiserver.verbs.update import update
from shoal.kinds import pod_subresources as subresources
from shoal.kinds.pods import default_pod
from shoal.objects.errors import NotFound
from shoal.objects.wire import Response

EPHEMERAL = Rules(
    generation=True,
    default=default_pod,
    prepare_update=subresources.only_ephemeral_containers,
    validate=subresources.validate_ephemeral_containers,
)
RESIZE = Rules(
    generation=True,
    default=default_pod,
    prepare_update=subresources.only_resources,
    validate=subresources.validate_resize,
)
AS_TOLD = Rules()
"""For changes the server itself makes to a pod: nothing is checked again."""


def special(call: Call, rules: Rules, *, with_status: bool = False) -> Call:
    """With `with_status` the write changes status together with the rest."""
    return replace(call, resource=_resource(call.resource, rules, with_status))


@lru_cache(maxsize=64)
def _resource(resource: Resource, rules: Rules, with_status: bool) -> Resource:
    return replace(resource, rules=rules, status=resource.status and not with_status)


async def update_ephemeral_containers(core: Core, call: Call) -> Response:
    return await update(core, special(call, EPHEMERAL))


async def patch_ephemeral_containers(core: Core, call: Call) -> Response:
    return await patch(core, special(call, EPHEMERAL))


async def update_resize(core: Core, call: Call) -> Response:
    return await update(core, special(call, RESIZE))


async def patch_resize(core: Core, call: Call) -> Response:
    return await patch(core, special(call, RESIZE))


def aimed(core: Core, call: Call, group: str, plural: str, name: str, subresource: str) -> Call:
    """Returns the request context for another object of the same namespace."""
    resource = core.clusters.registry(call.cluster).find(group, "v1", plural)
    if resource is None:
        raise NotFound("the server could not find the requested resource")
    target = call.target._replace(group=group, version="v1", plural=plural, name=name, subresource=subresource)
    return replace(call, target=target, resource=resource, kind=core.cache.kind(group, plural))


def success(code: int) -> Response:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}
    return Response(code, orjson.dumps(status))
