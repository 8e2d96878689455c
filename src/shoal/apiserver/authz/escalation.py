"""RBAC escalation check on writes of roles and bindings: a user can only grant permissions it holds.

Called with the object as it would be stored, after defaulting. Holders of the verb `escalate` (roles) or `bind` (the
referenced role) and members of system:masters pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.apiserver.authn import User
from shoal.apiserver.authz.rbac import Attributes, Authorizer, forbidden_object
from shoal.apiserver.authz.rules import Rule, describe, missing_rules, quoted, quoted_list
from shoal.kinds.rbac import GROUP

Object = Mapping[str, Any]

_FULL_AUTHORITY: tuple[Rule, ...] = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)
_COLLECTOR_FIELDS = ("ownerReferences", "finalizers", "managedFields", "selfLink", "resourceVersion")


def check_escalation(
    authorizer: Authorizer,
    user: User,
    request: Attributes,
    obj: Object,
    old: Object | None = None,
) -> None:
    """Raises Forbidden if writing `obj` would grant more than the user holds.

    `request` gives cluster, resource (`roles`, `clusterroles`, `rolebindings`, `clusterrolebindings`), namespace and,
    if the URL has one, name. Other resources pass.
    """
    if request.group != GROUP or request.subresource or user.privileged_in(request.cluster):
        return
    if old is not None and _only_for_the_collector(obj, old):
        return
    if request.resource in ("roles", "clusterroles"):
        _check_role(authorizer, user, request, obj, old)
    elif request.resource in ("rolebindings", "clusterrolebindings"):
        _check_binding(authorizer, user, request, obj)


def _check_role(authorizer: Authorizer, user: User, request: Attributes, obj: Object, old: Object | None) -> None:
    if authorizer.authorize(user, request._replace(verb="escalate", version="*", path="")).allowed:
        return
    _confirm(authorizer, user, request, obj, obj.get("rules") or ())
    aggregates = _aggregates(obj) or (old is not None and _aggregates(old))
    if aggregates and missing_rules(authorizer.held(user, request.cluster, "").bare, _FULL_AUTHORITY):
        said = "must have cluster-admin privileges to use the aggregationRule"
        raise forbidden_object(GROUP, request.resource, _name(obj), said)


def _check_binding(authorizer: Authorizer, user: User, request: Attributes, obj: Object) -> None:
    role_ref = obj.get("roleRef") or {}
    resource = {"Role": "roles", "ClusterRole": "clusterroles"}.get(role_ref.get("kind", ""))
    if resource is not None:
        bind = Attributes(
            request.cluster,
            "bind",
            group=role_ref.get("apiGroup") or "",
            version="*",
            resource=resource,
            namespace=request.namespace,
            name=role_ref.get("name") or "",
        )
        if authorizer.authorize(user, bind).allowed:
            return
    _confirm(authorizer, user, request, obj, authorizer.role_rules(request.cluster, role_ref, request.namespace))


def _confirm(authorizer: Authorizer, user: User, request: Attributes, obj: Object, wanted: Iterable[Rule]) -> None:
    held = authorizer.held(user, request.cluster, request.namespace)
    missing = missing_rules(held.bare, wanted)
    if not missing:
        return
    said = (
        f"user {quoted(user.name)} (groups={quoted_list(user.groups)}) is attempting to grant RBAC permissions "
        "not currently held:\n" + "\n".join(describe(missing))
    )
    if held.error:
        said += f"; resolution errors: [{held.error}]"
    raise forbidden_object(GROUP, request.resource, _name(obj), said)


def _name(obj: Object) -> str:
    name: str = (obj.get("metadata") or {}).get("name", "")
    return name


def _aggregates(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _only_for_the_collector(obj: Object, old: Object) -> bool:
    """Reports whether only fields of garbage collection changed: it must work without holding the rules."""

    def rest(value: Object) -> dict[str, Any]:
        metadata = value.get("metadata") or {}
        return {**value, "metadata": {k: v for k, v in metadata.items() if k not in _COLLECTOR_FIELDS}}

    return rest(obj) == rest(old)
