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

Verb = Callable[[Core, Call], Answer | Awaitable[Answer]]

VERBS: dict[str, Verb] = {
    "get": get,
    "list": list_objects,
    "watch": watch,
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": deletecollection,
}
STATUS: dict[str, Verb] = {"get": get, "update": update, "patch": patch}
SCALE: dict[str, Verb] = {"get": get_scale, "update": update_scale, "patch": patch_scale}
OTHERS: dict[tuple[str, str], dict[str, Verb]] = {
    ("namespaces", "finalize"): {"update": finalize},
    ("serviceaccounts", "token"): {"create": create_token},
}
REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")


def find_verb(call: Call) -> Verb:
    resource, subresource = call.resource, call.target.subresource
    if not subresource:
        if resource.group in REVIEWS and call.verb == "create":
            return review
        table = {name: verb for name, verb in VERBS.items() if name in resource.verbs}
    elif subresource == "status" and resource.status:
        table = STATUS
    elif subresource == "scale" and resource.scale is not None:
        table = SCALE
    elif subresource in resource.subresources:
        table = OTHERS.get((resource.plural, subresource), {})
    else:
        raise NotFound("the server could not find the requested resource")
    found = table.get(call.verb)
    if found is None:
        raise MethodNotSupported(
            "the server does not allow this method on the requested resource",
            group=resource.group,
            kind=resource.plural,
        )
    return found
