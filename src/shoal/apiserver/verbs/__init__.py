"""Verbs, one module each. This module selects the verb of a request."""

from __future__ import annotations

from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.response.negotiation import patch_type
from shoal.apiserver.server import ReadVerb, RequestContext, ServerComponents, WriteVerb
from shoal.apiserver.verbs.conversion import with_conversion
from shoal.apiserver.verbs.create import create
from shoal.apiserver.verbs.delete import delete, deletecollection
from shoal.apiserver.verbs.get import get
from shoal.apiserver.verbs.list import list_objects
from shoal.apiserver.verbs.patch import patch
from shoal.apiserver.verbs.subresources.access_review import review
from shoal.apiserver.verbs.subresources.binding import bind
from shoal.apiserver.verbs.subresources.eviction import evict
from shoal.apiserver.verbs.subresources.finalize import finalize
from shoal.apiserver.verbs.subresources.hub_user_token import create_hub_user_token
from shoal.apiserver.verbs.subresources.kubelet_proxy import read_log, refuse_exec, refuse_proxy
from shoal.apiserver.verbs.subresources.pods import (
    patch_ephemeral_containers,
    patch_resize,
    update_ephemeral_containers,
    update_resize,
)
from shoal.apiserver.verbs.subresources.scale import get_scale, patch_scale, update_scale
from shoal.apiserver.verbs.subresources.token import create_token
from shoal.apiserver.verbs.update import update
from shoal.apiserver.verbs.watch import watch
from shoal.objects.errors import BadRequest, MethodNotSupported, NotFound

READS: dict[str, ReadVerb] = {"get": get, "list": list_objects, "watch": watch}
WRITES: dict[str, WriteVerb] = {
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": deletecollection,
}
STATUS: tuple[dict[str, ReadVerb], dict[str, WriteVerb]] = ({"get": get}, {"update": update, "patch": patch})
SCALE: tuple[dict[str, ReadVerb], dict[str, WriteVerb]] = (
    {"get": get_scale},
    {"update": update_scale, "patch": patch_scale},
)
PROXY_VERBS = ("get", "create", "update", "patch", "delete")
SUBRESOURCES: dict[tuple[str, str], tuple[dict[str, ReadVerb], dict[str, WriteVerb]]] = {
    ("namespaces", "finalize"): ({}, {"update": finalize}),
    ("serviceaccounts", "token"): ({}, {"create": create_token}),
    ("managedclusters", "token"): ({}, {"create": create_hub_user_token}),
    ("certificatesigningrequests", "approval"): STATUS,
    ("pods", "binding"): ({}, {"create": bind}),
    ("pods", "eviction"): ({}, {"create": evict}),
    ("pods", "ephemeralcontainers"): (
        {"get": get},
        {"update": update_ephemeral_containers, "patch": patch_ephemeral_containers},
    ),
    ("pods", "resize"): ({"get": get}, {"update": update_resize, "patch": patch_resize}),
    ("pods", "log"): ({"get": read_log}, {}),
    ("pods", "exec"): ({"get": refuse_exec, "create": refuse_exec}, {}),
    ("pods", "attach"): ({"get": refuse_exec, "create": refuse_exec}, {}),
    ("pods", "portforward"): ({"get": refuse_exec, "create": refuse_exec}, {}),
    ("pods", "proxy"): (dict.fromkeys(PROXY_VERBS, refuse_proxy), {}),
    ("services", "proxy"): (dict.fromkeys(PROXY_VERBS, refuse_proxy), {}),
    ("nodes", "proxy"): (dict.fromkeys(PROXY_VERBS, refuse_proxy), {}),
}
REVIEW_GROUPS = ("authentication.k8s.io", "authorization.k8s.io")


def select_verb(server: ServerComponents, ctx: RequestContext) -> None:
    """The last filter. Sets the verb of the request: `read` answers synchronously, `write` has to be awaited."""
    verb, resource = ctx.verb, ctx.resource
    read = READS.get(verb)
    if read is not None and verb in resource.verbs and not ctx.info.subresource and resource.conversion is None:
        ctx.read = read  # most requests
    else:
        _find_verb(ctx, verb, resource)
    if resource.deprecation_warning:
        ctx.warnings.append(resource.deprecation_warning)


def _find_verb(ctx: RequestContext, verb: str, resource: Resource) -> None:
    reads, writes = _verb_tables(ctx)
    read = reads.get(verb)
    ctx.read = read if resource.conversion is None else None
    if read is not None:
        # Objects converted by a webhook have to be awaited.
        ctx.write = writes.get(verb) or with_conversion(read)
        return
    nameless = not ctx.name and verb in ("update", "patch")
    if nameless and ctx.resource.custom:
        if verb == "patch":
            patch_type(ctx.request.headers.get("content-type", ""), custom=True)
        raise BadRequest("name must be provided")
    if verb not in writes or nameless or _lacks_namespace(ctx):
        raise _method_not_supported(ctx)
    ctx.write = writes[verb]


def _method_not_supported(ctx: RequestContext) -> MethodNotSupported:
    """Upstream has no route for the method at a built-in kind, but one handler for all verbs at a custom kind."""
    if not ctx.resource.custom:
        return MethodNotSupported("the server does not allow this method on the requested resource")
    verb = ctx.verb if ctx.verb in READS or ctx.verb in WRITES else ""
    return MethodNotSupported(
        f'{verb} is not supported on resources of kind "{ctx.resource.group_resource}"',
        group=ctx.resource.group,
        kind=ctx.resource.plural,
    )


def _lacks_namespace(ctx: RequestContext) -> bool:
    """Built-in kinds are created, and deleted as a collection, only in a namespace."""
    resource = ctx.resource
    in_one = resource.namespaced and not resource.custom and resource.group not in REVIEW_GROUPS
    return in_one and not ctx.namespace and ctx.verb in ("create", "deletecollection")


def _verb_tables(ctx: RequestContext) -> tuple[dict[str, ReadVerb], dict[str, WriteVerb]]:
    resource, subresource = ctx.resource, ctx.info.subresource
    if not subresource:
        if resource.group in REVIEW_GROUPS and ctx.verb == "create":
            return {"create": review}, {}
        # Creations of a terminating kind are rejected by admission, which gives the reason.
        allowed = ctx.verb in resource.verbs or (resource.custom and ctx.verb == "create")
        if (resource.group, resource.plural) == ("", "bindings"):
            return {}, {"create": bind}
        return (READS, WRITES) if allowed else ({}, {})
    if subresource == "status" and resource.status:
        return STATUS
    if subresource == "scale" and resource.scale is not None:
        return SCALE
    if subresource.startswith("proxy/"):
        subresource = "proxy"
    if subresource in resource.subresources:
        return SUBRESOURCES.get((resource.plural, subresource), ({}, {}))
    if resource.custom:
        raise ctx.not_found()
    raise NotFound("the server could not find the requested resource")
