"""Verbs, one module each. This module selects the verb of a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shoal.apiserver.core import Call, Core
from shoal.apiserver.negotiate import patch_type
from shoal.apiserver.verbs.binding import bind
from shoal.apiserver.verbs.converted import converting
from shoal.apiserver.verbs.create import create
from shoal.apiserver.verbs.delete import delete, deletecollection
from shoal.apiserver.verbs.eviction import evict
from shoal.apiserver.verbs.finalize import finalize
from shoal.apiserver.verbs.get import get
from shoal.apiserver.verbs.list import list_objects
from shoal.apiserver.verbs.node_access import reach_container, reach_node, read_log
from shoal.apiserver.verbs.patch import patch
from shoal.apiserver.verbs.pods import (
    patch_ephemeral_containers,
    patch_resize,
    update_ephemeral_containers,
    update_resize,
)
from shoal.apiserver.verbs.review import review
from shoal.apiserver.verbs.scale import get_scale, patch_scale, update_scale
from shoal.apiserver.verbs.services import create_service, patch_service, update_service
from shoal.apiserver.verbs.token import create_token
from shoal.apiserver.verbs.update import update
from shoal.apiserver.verbs.watch import watch
from shoal.objects.errors import BadRequest, MethodNotSupported, NotFound
from shoal.objects.wire import Answer

Read = Callable[[Core, Call], Answer]
Write = Callable[[Core, Call], Awaitable[Answer]]

READS: dict[str, Read] = {"get": get, "list": list_objects, "watch": watch}
WRITES: dict[str, Write] = {
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": deletecollection,
}
SERVICE_WRITES: dict[str, Write] = {
    **WRITES,
    "create": create_service,
    "update": update_service,
    "patch": patch_service,
}
STATUS: tuple[dict[str, Read], dict[str, Write]] = ({"get": get}, {"update": update, "patch": patch})
SCALE: tuple[dict[str, Read], dict[str, Write]] = (
    {"get": get_scale},
    {"update": update_scale, "patch": patch_scale},
)
PROXIED = ("get", "create", "update", "patch", "delete")
OTHERS: dict[tuple[str, str], tuple[dict[str, Read], dict[str, Write]]] = {
    ("namespaces", "finalize"): ({}, {"update": finalize}),
    ("serviceaccounts", "token"): ({}, {"create": create_token}),
    ("certificatesigningrequests", "approval"): STATUS,
    ("pods", "binding"): ({}, {"create": bind}),
    ("pods", "eviction"): ({}, {"create": evict}),
    ("pods", "ephemeralcontainers"): (
        {"get": get},
        {"update": update_ephemeral_containers, "patch": patch_ephemeral_containers},
    ),
    ("pods", "resize"): ({"get": get}, {"update": update_resize, "patch": patch_resize}),
    ("pods", "log"): ({"get": read_log}, {}),
    ("pods", "exec"): ({"get": reach_container, "create": reach_container}, {}),
    ("pods", "attach"): ({"get": reach_container, "create": reach_container}, {}),
    ("pods", "portforward"): ({"get": reach_container, "create": reach_container}, {}),
    ("pods", "proxy"): (dict.fromkeys(PROXIED, reach_node), {}),
    ("services", "proxy"): (dict.fromkeys(PROXIED, reach_node), {}),
    ("nodes", "proxy"): (dict.fromkeys(PROXIED, reach_node), {}),
}
REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")


def find_read(call: Call) -> Read | None:
    """Returns the verb that answers synchronously; None if the request has to wait (see `find_write`)."""
    reads, writes = _tables(call)
    found = reads.get(call.verb)
    nameless = not call.name and call.verb in ("update", "patch")
    if nameless and call.resource.custom:
        if call.verb == "patch":
            patch_type(call.request.headers.get("content-type", ""), custom=True)
        raise BadRequest("name must be provided")
    if found is None and (call.verb not in writes or nameless or _is_nowhere(call)):
        raise _no_such_method(call)
    # Objects converted by a webhook have to be awaited.
    return found if call.resource.conversion is None else None


def _no_such_method(call: Call) -> MethodNotSupported:
    """Upstream has no route for the method at a built-in kind, but one handler for all verbs at a custom kind."""
    if not call.resource.custom:
        return MethodNotSupported("the server does not allow this method on the requested resource")
    verb = call.verb if call.verb in READS or call.verb in WRITES else ""
    return MethodNotSupported(
        f'{verb} is not supported on resources of kind "{call.resource.group_resource}"',
        group=call.resource.group,
        kind=call.resource.plural,
    )


def _is_nowhere(call: Call) -> bool:
    """Built-in kinds are created, and deleted as a collection, only in a namespace."""
    resource = call.resource
    in_one = resource.namespaced and not resource.custom and resource.group not in REVIEWS
    return in_one and not call.namespace and call.verb in ("create", "deletecollection")


def find_write(call: Call) -> Write:
    reads, writes = _tables(call)
    return writes.get(call.verb) or converting(reads[call.verb])


def _tables(call: Call) -> tuple[dict[str, Read], dict[str, Write]]:
    resource, subresource = call.resource, call.target.subresource
    if not subresource:
        if resource.group in REVIEWS and call.verb == "create":
            return {"create": review}, {}
        # Creations of a terminating kind are rejected by admission, which gives the reason.
        allowed = call.verb in resource.verbs or (resource.custom and call.verb == "create")
        if (resource.group, resource.plural) == ("", "bindings"):
            return {}, {"create": bind}
        writes = SERVICE_WRITES if (resource.group, resource.plural) == ("", "services") else WRITES
        return (READS, writes) if allowed else ({}, {})
    if subresource == "status" and resource.status:
        return STATUS
    if subresource == "scale" and resource.scale is not None:
        return SCALE
    if subresource.startswith("proxy/"):
        subresource = "proxy"
    if subresource in resource.subresources:
        return OTHERS.get((resource.plural, subresource), ({}, {}))
    if resource.custom:
        raise call.not_found()
    raise NotFound("the server could not find the requested resource")
