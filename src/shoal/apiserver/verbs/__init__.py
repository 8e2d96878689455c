"""One verb, one file; here, which of them answers a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shoal.apiserver.core import Call, Core
from shoal.apiserver.verbs.create import create
from shoal.apiserver.verbs.delete import delete, deletecollection
from shoal.apiserver.verbs.finalize import finalize
from shoal.apiserver.verbs.get import get
from shoal.apiserver.verbs.list import list_objects
from shoal.apiserver.verbs.patch import patch
from shoal.apiserver.verbs.review import review
from shoal.apiserver.verbs.scale import get_scale, patch_scale, update_scale
from shoal.apiserver.verbs.token import create_token
from shoal.apiserver.verbs.update import update
from shoal.apiserver.verbs.watch import watch
from shoal.objects.errors import MethodNotSupported, NotFound
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
STATUS: tuple[dict[str, Read], dict[str, Write]] = ({"get": get}, {"update": update, "patch": patch})
SCALE: tuple[dict[str, Read], dict[str, Write]] = (
    {"get": get_scale},
    {"update": update_scale, "patch": patch_scale},
)
OTHERS: dict[tuple[str, str], tuple[dict[str, Read], dict[str, Write]]] = {
    ("namespaces", "finalize"): ({}, {"update": finalize}),
    ("serviceaccounts", "token"): ({"create": create_token}, {}),
}
REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")


def find_read(call: Call) -> Read | None:
    """What answers the call at once; None when it has to wait for the store (see `find_write`)."""
    reads, writes = _tables(call)
    found = reads.get(call.verb)
    nameless = not call.name and call.verb in ("update", "patch")
    if found is None and (call.verb not in writes or nameless):
        raise MethodNotSupported(
            f'{call.verb} is not supported on resources of kind "{call.resource.group_resource}"',
            group=call.resource.group,
            kind=call.resource.plural,
        )
    return found


def find_write(call: Call) -> Write:
    return _tables(call)[1][call.verb]


def _tables(call: Call) -> tuple[dict[str, Read], dict[str, Write]]:
    resource, subresource = call.resource, call.target.subresource
    if not subresource:
        if resource.group in REVIEWS and call.verb == "create":
            return {"create": review}, {}
        # Creations of a kind that is going away are refused by admission, which says why.
        allowed = call.verb in resource.verbs or (resource.custom and call.verb == "create")
        return (READS, WRITES) if allowed else ({}, {})
    if subresource == "status" and resource.status:
        return STATUS
    if subresource == "scale" and resource.scale is not None:
        return SCALE
    if subresource in resource.subresources:
        return OTHERS.get((resource.plural, subresource), ({}, {}))
    raise NotFound("the server could not find the requested resource")
