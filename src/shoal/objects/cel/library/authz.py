"""The authorizer library: `authorizer.group('apps').resource('deployments').check('get').allowed()`.

The authorize function comes with the value of `authorizer`, which is absent in some expressions that compile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from shoal.objects.cel.errors import CelError
from shoal.objects.cel.overloads import TRAVERSAL, Overload, method
from shoal.objects.cel.types import BOOL, STRING, opaque
from shoal.objects.cel.values import Opaque
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain

AUTHORIZER = opaque("kubernetes.authorization.Authorizer")
PATH_CHECK = opaque("kubernetes.authorization.PathCheck")
GROUP_CHECK = opaque("kubernetes.authorization.GroupCheck")
RESOURCE_CHECK = opaque("kubernetes.authorization.ResourceCheck")
DECISION = opaque("kubernetes.authorization.Decision")
_CHECK = 350_000
"""Two checks fit into the cost limit of one expression."""
_REQUIREMENT = 50


class Decided(NamedTuple):
    allowed: bool
    reason: str = ""


Ask = Callable[["Wish"], Decided]


class Wish(NamedTuple):
    """The attributes of a check. `account` is the namespace and name of a ServiceAccount; without it the check is for
    the user.
    """

    ask: Ask
    account: tuple[str, str] | None = None
    verb: str = ""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    fields: str = ""
    labels: str = ""


def authorizer(ask: Ask) -> Opaque:
    return Opaque(AUTHORIZER.kind, Wish(ask))


def resource_check(ask: Ask, group: str, resource: str, subresource: str, namespace: str, name: str) -> Opaque:
    wish = Wish(ask, group=group, resource=resource, subresource=subresource, namespace=namespace, name=name)
    return Opaque(RESOURCE_CHECK.kind, wish)


def _wish(value: Opaque | None) -> Wish:
    if value is None:
        raise CelError("no such attribute(s): authorizer")
    found: Wish = value.core
    return found


def _path(value: Opaque | None, path: str) -> Opaque:
    wish = _wish(value)
    if not path.strip():
        raise CelError("path must not be empty")
    return Opaque(PATH_CHECK.kind, wish._replace(path=path))


def _group(value: Opaque | None, group: str) -> Opaque:
    return Opaque(GROUP_CHECK.kind, _wish(value)._replace(group=group))


def _account(value: Opaque | None, namespace: str, name: str) -> Opaque:
    wish = _wish(value)
    if is_dns1123_subdomain(name):
        raise CelError("Invalid service account name")
    if is_dns1123_label(namespace):
        raise CelError("Invalid service account namespace")
    return Opaque(AUTHORIZER.kind, wish._replace(account=(namespace, name)))


def _resource(value: Opaque, resource: str) -> Opaque:
    if not resource.strip():
        raise CelError("resource must not be empty")
    return Opaque(RESOURCE_CHECK.kind, value.core._replace(resource=resource))


def _with(field: str) -> Callable[[Opaque | None, str], Opaque]:
    def with_field(value: Opaque | None, text: str) -> Opaque:
        changed: dict[str, Any] = {field: text}
        return Opaque(RESOURCE_CHECK.kind, _wish(value)._replace(**changed))

    return with_field


def _check(value: Opaque | None, verb: str) -> Opaque:
    wish = _wish(value)._replace(verb=verb)
    return Opaque(DECISION.kind, wish.ask(wish))


def _selector_cost(_: Opaque, text: str) -> int:
    return 10 + math.ceil(len(text) * TRAVERSAL) + math.ceil(math.ceil(len(text) * 0.5) * _REQUIREMENT)


def _checking(*_: object) -> int:
    return _CHECK


OVERLOADS: list[Overload] = [
    method("path", (AUTHORIZER, STRING), PATH_CHECK, _path),
    method("group", (AUTHORIZER, STRING), GROUP_CHECK, _group),
    method("serviceAccount", (AUTHORIZER, STRING, STRING), AUTHORIZER, _account),
    method("resource", (GROUP_CHECK, STRING), RESOURCE_CHECK, _resource),
    method("subresource", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with("subresource")),
    method("namespace", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with("namespace")),
    method("name", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with("name")),
    method("fieldSelector", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with("fields"), _selector_cost),
    method("labelSelector", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with("labels"), _selector_cost),
    method("check", (PATH_CHECK, STRING), DECISION, _check, _checking),
    method("check", (RESOURCE_CHECK, STRING), DECISION, _check, _checking),
    method("errored", (DECISION,), BOOL, lambda decision: False),
    method("error", (DECISION,), STRING, lambda decision: ""),
    method("allowed", (DECISION,), BOOL, lambda decision: decision.core.allowed),
    method("reason", (DECISION,), STRING, lambda decision: decision.core.reason),
]
