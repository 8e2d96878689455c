"""RBAC escalation check on writes of roles and bindings: a user can only grant permissions it holds.

Called with the object as it would be stored, after defaulting. Holders of the verb `escalate` (roles) or `bind` (the
referenced role) and members of system:masters pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authz.covering import TooManyCombinations, covers, missing_rules
from shoal.apiserver.authz.rbac import Attributes, Authorizer, forbidden_object
from shoal.apiserver.authz.rules import Rule, describe, quote, quote_list
from shoal.kinds.rbac.rbac import GROUP

Object = Mapping[str, Any]

_FULL_AUTHORITY: tuple[Rule, ...] = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)
MAX_MESSAGE_SIZE = 100_000
"""Characters of rules that a refusal lists. A rule of 1 kB can have a million combinations."""
_LINE_MARKUP = 20
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
    if request.group != GROUP or request.subresource or user.is_privileged_in(request.cluster):
        return
    if old is not None and _only_gc_fields_changed(obj, old):
        return
    if request.resource in ("roles", "clusterroles"):
        _check_role(authorizer, user, request, obj, old)
    elif request.resource in ("rolebindings", "clusterrolebindings"):
        _check_binding(authorizer, user, request, obj)


def _check_role(authorizer: Authorizer, user: User, request: Attributes, obj: Object, old: Object | None) -> None:
    if authorizer.authorize(user, request._replace(verb="escalate", version="*", path="")).allowed:
        return
    _check_rules_held(authorizer, user, request, obj, obj.get("rules") or ())
    aggregates = _has_aggregation_rule(obj) or (old is not None and _has_aggregation_rule(old))
    if aggregates and not covers(authorizer.rules_for(user, request.cluster, "").policy_rules, _FULL_AUTHORITY):
        message = "must have cluster-admin privileges to use the aggregationRule"
        raise forbidden_object(GROUP, request.resource, _name_of(obj), message)


def _check_binding(authorizer: Authorizer, user: User, request: Attributes, obj: Object) -> None:
    role_ref = obj.get("roleRef") or {}
    resource = {"Role": "roles", "ClusterRole": "clusterroles"}.get(role_ref.get("kind", ""))
    if resource is None:
        return  # validation rejects it and names the kinds; upstream answers with 500 here
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
    _check_rules_held(
        authorizer, user, request, obj, authorizer.role_rules(request.cluster, role_ref, request.namespace)
    )


def _check_rules_held(
    authorizer: Authorizer, user: User, request: Attributes, obj: Object, granted: Iterable[Rule]
) -> None:
    user_rules = authorizer.rules_for(user, request.cluster, request.namespace)
    missing = _describe_missing(user_rules.policy_rules, granted)
    if not missing:
        return
    message = (
        f"user {quote(user.name)} (groups={quote_list(user.groups)}) is attempting to grant RBAC permissions "
        "not currently held:\n" + "\n".join(missing)
    )
    if user_rules.error:
        message += f"; resolution errors: [{user_rules.error}]"
    raise forbidden_object(GROUP, request.resource, _name_of(obj), message)


def _describe_missing(owned: Sequence[Rule], granted: Iterable[Rule]) -> list[str]:
    """Returns the lines of what is missing. A last line says that there may be more."""
    missing: list[Rule] = []
    size = 0
    try:
        for part in missing_rules(owned, granted):
            if size > MAX_MESSAGE_SIZE:
                break
            missing.append(part)
            size += sum(len(values[0]) + _LINE_MARKUP for values in part.values())
        else:
            return describe(missing)
    except TooManyCombinations:
        pass
    return [*describe(missing), "and possibly others: the rules have too many combinations to list"]


def _name_of(obj: Object) -> str:
    name: str = (obj.get("metadata") or {}).get("name", "")
    return name


def _has_aggregation_rule(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _only_gc_fields_changed(obj: Object, old: Object) -> bool:
    """Reports whether only fields of garbage collection changed: it must work without holding the rules."""

    def rest(value: Object) -> dict[str, Any]:
        metadata = value.get("metadata") or {}
        return {**value, "metadata": {k: v for k, v in metadata.items() if k not in _COLLECTOR_FIELDS}}

    return rest(obj) == rest(old)
