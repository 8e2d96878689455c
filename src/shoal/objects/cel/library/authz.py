"""The authorizer library: `authorizer.group('apps').resource('deployments').check('get').allowed()`.

The authorize function comes with the value of `authorizer`, which is absent in some expressions that compile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from shoal.objects.cel.errors import CELError
from shoal.objects.cel.overloads import TRAVERSAL_COST, Overload, method_overload
from shoal.objects.cel.types import BOOL, STRING, opaque_type
from shoal.objects.cel.values import OpaqueValue
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain

AUTHORIZER = opaque_type("kubernetes.authorization.Authorizer")
PATH_CHECK = opaque_type("kubernetes.authorization.PathCheck")
GROUP_CHECK = opaque_type("kubernetes.authorization.GroupCheck")
RESOURCE_CHECK = opaque_type("kubernetes.authorization.ResourceCheck")
DECISION = opaque_type("kubernetes.authorization.Decision")
_CHECK_COST = 350_000
"""Two checks fit into the cost limit of one expression."""
_COST_PER_REQUIREMENT = 50


class AuthzDecision(NamedTuple):
    allowed: bool
    reason: str = ""


AuthorizeFunc = Callable[["AuthzCheck"], AuthzDecision]


class AuthzCheck(NamedTuple):
    """The attributes of a check. `account` is the namespace and name of a ServiceAccount; without it the check is for
    the user.
    """

    authorize: AuthorizeFunc
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


def authorizer_value(authorize: AuthorizeFunc) -> OpaqueValue:
    return OpaqueValue(AUTHORIZER.kind, AuthzCheck(authorize))


def resource_check_value(
    authorize: AuthorizeFunc, group: str, resource: str, subresource: str, namespace: str, name: str
) -> OpaqueValue:
    check = AuthzCheck(
        authorize, group=group, resource=resource, subresource=subresource, namespace=namespace, name=name
    )
    return OpaqueValue(RESOURCE_CHECK.kind, check)


def _check_of(value: OpaqueValue | None) -> AuthzCheck:
    if value is None:
        raise CELError("no such attribute(s): authorizer")
    found: AuthzCheck = value.core
    return found


def _path(value: OpaqueValue | None, path: str) -> OpaqueValue:
    check = _check_of(value)
    if not path.strip():
        raise CELError("path must not be empty")
    return OpaqueValue(PATH_CHECK.kind, check._replace(path=path))


def _group(value: OpaqueValue | None, group: str) -> OpaqueValue:
    return OpaqueValue(GROUP_CHECK.kind, _check_of(value)._replace(group=group))


def _service_account(value: OpaqueValue | None, namespace: str, name: str) -> OpaqueValue:
    check = _check_of(value)
    if is_dns1123_subdomain(name):
        raise CELError("Invalid service account name")
    if is_dns1123_label(namespace):
        raise CELError("Invalid service account namespace")
    return OpaqueValue(AUTHORIZER.kind, check._replace(account=(namespace, name)))


def _resource(value: OpaqueValue, resource: str) -> OpaqueValue:
    if not resource.strip():
        raise CELError("resource must not be empty")
    return OpaqueValue(RESOURCE_CHECK.kind, value.core._replace(resource=resource))


def _with(field: str) -> Callable[[OpaqueValue | None, str], OpaqueValue]:
    def with_field(value: OpaqueValue | None, text: str) -> OpaqueValue:
        changed: dict[str, Any] = {field: text}
        return OpaqueValue(RESOURCE_CHECK.kind, _check_of(value)._replace(**changed))

    return with_field


def _check(value: OpaqueValue | None, verb: str) -> OpaqueValue:
    check = _check_of(value)._replace(verb=verb)
    return OpaqueValue(DECISION.kind, check.authorize(check))


def _selector_cost(_: OpaqueValue, text: str) -> int:
    return 10 + math.ceil(len(text) * TRAVERSAL_COST) + math.ceil(math.ceil(len(text) * 0.5) * _COST_PER_REQUIREMENT)


def _check_cost(*_: object) -> int:
    return _CHECK_COST


OVERLOADS: list[Overload] = [
    method_overload("path", (AUTHORIZER, STRING), PATH_CHECK, _path),
    method_overload("group", (AUTHORIZER, STRING), GROUP_CHECK, _group),
    method_overload("serviceAccount", (AUTHORIZER, STRING, STRING), AUTHORIZER, _service_account),
    method_overload("resource", (GROUP_CHECK, STRING), RESOURCE_CHECK, _resource),
    method_overload("subresource", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with("subresource")),
    method_overload("namespace", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with("namespace")),
    method_overload("name", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with("name")),
    method_overload("fieldSelector", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with("fields"), _selector_cost),
    method_overload("labelSelector", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with("labels"), _selector_cost),
    method_overload("check", (PATH_CHECK, STRING), DECISION, _check, _check_cost),
    method_overload("check", (RESOURCE_CHECK, STRING), DECISION, _check, _check_cost),
    method_overload("errored", (DECISION,), BOOL, lambda decision: False),
    method_overload("error", (DECISION,), STRING, lambda decision: ""),
    method_overload("allowed", (DECISION,), BOOL, lambda decision: decision.core.allowed),
    method_overload("reason", (DECISION,), STRING, lambda decision: decision.core.reason),
]
