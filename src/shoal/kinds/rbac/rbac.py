"""Role, ClusterRole, RoleBinding, ClusterRoleBinding: names, defaults, validation, aggregation. Pure.

Objects are wire dicts whose field types are checked already. Metadata is validated for all kinds alike; the name rule
of these four is `NAME_RULE`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any

import orjson

from shoal.objects.errors import BadRequest, Cause, forbidden_field, invalid_value, not_supported, required_value
from shoal.objects.names import (
    is_dns1123_subdomain,
    is_path_segment_name,
    is_qualified_name,
    is_valid_label_value,
    validate_labels,
)
from shoal.objects.selectors import from_label_selector

Object = Mapping[str, Any]

GROUP = "rbac.authorization.k8s.io"
NAME_RULE = is_path_segment_name

CLUSTER_ADMIN = "cluster-admin"
ADMIN = "admin"
EDIT = "edit"
VIEW = "view"
DISCOVERY = "system:discovery"
BASIC_USER = "system:basic-user"
PUBLIC_INFO_VIEWER = "system:public-info-viewer"
SERVICE_ACCOUNT_ISSUER_DISCOVERY = "system:service-account-issuer-discovery"
AGGREGATE_TO_ADMIN = "system:aggregate-to-admin"
AGGREGATE_TO_EDIT = "system:aggregate-to-edit"
AGGREGATE_TO_VIEW = "system:aggregate-to-view"
_COMPARED_IN_STEP = 1000
"""Roles that are compared with a selector in one step."""
AGGREGATION_LABEL_PREFIX = "rbac.authorization.k8s.io/aggregate-to-"
BOOTSTRAPPING_LABEL = "kubernetes.io/bootstrapping"
AUTOUPDATE_ANNOTATION = "rbac.authorization.kubernetes.io/autoupdate"

_ROLE_KINDS = {"RoleBinding": ("Role", "ClusterRole"), "ClusterRoleBinding": ("ClusterRole",)}
_REFERENCE_FIELDS = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))


def default_rbac_object(kind: str, obj: dict[str, Any]) -> None:
    """Sets the fields the wire form always has, in place."""
    if kind not in _ROLE_KINDS:
        obj.setdefault("rules", None)
        return
    role_ref = obj.setdefault("roleRef", {})
    if isinstance(role_ref, dict) and not role_ref.get("apiGroup"):
        role_ref["apiGroup"] = GROUP
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
            subject["apiGroup"] = GROUP


def canonicalize_rules(obj: dict[str, Any]) -> None:
    """Stores an empty rules list as null. The writer still owns the field."""
    if obj.get("rules") == []:
        obj["rules"] = None


def validate_rbac_object(kind: str, obj: Object, old: Object | None = None) -> list[Cause]:
    """Validates a defaulted object of one of the four kinds, without its metadata."""
    if kind in _ROLE_KINDS:
        return list(_validate_binding(kind, obj, old))
    causes = [
        cause
        for i, rule in enumerate(obj.get("rules") or ())
        for cause in _validate_rule(rule, f"rules[{i}]", namespaced=kind == "Role")
    ]
    if kind == "ClusterRole" and obj.get("aggregationRule") is not None:
        causes += _validate_aggregation(obj["aggregationRule"])
    return causes


def aggregate_rules(cluster_role: Object, cluster_roles: Iterable[Object]) -> list[Any]:
    """Returns the rules of an aggregated ClusterRole: those of every role its selectors match, without duplicates."""
    steps = aggregation_steps(cluster_role, cluster_roles)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            rules: list[Any] = done.value
            return rules


def aggregation_steps(cluster_role: Object, cluster_roles: Iterable[Object]) -> Generator[None, None, list[Any]]:
    """As `aggregate_rules`, in small steps: a ClusterRole may have ten thousands of selectors."""
    own_name = cluster_role["metadata"]["name"]
    others = sorted(
        (role for role in cluster_roles if role["metadata"]["name"] != own_name),
        key=lambda role: role["metadata"]["name"],
    )
    rules: dict[bytes, Any] = {}
    compared = 0
    for selector_spec in (cluster_role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        if not others:
            break
        selector = from_label_selector(selector_spec)
        unmatched = []
        for role in others:
            compared += 1
            if compared % _COMPARED_IN_STEP == 0:
                yield
            if not selector.matches(role["metadata"].get("labels")):
                unmatched.append(role)
                continue
            for rule in role.get("rules") or ():
                rules.setdefault(orjson.dumps(rule, option=orjson.OPT_SORT_KEYS), rule)
        others = unmatched  # a role that two selectors match adds nothing the second time
    return [*rules.values()]


def validate_selector_requirement(requirement: Object, path: str) -> Iterator[Cause]:
    """Validates one `matchExpressions[]` entry, except for unknown operators."""
    operator, values = requirement.get("operator"), requirement.get("values") or ()
    if operator in ("In", "NotIn") and not values:
        yield required_value(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    if operator in ("Exists", "DoesNotExist") and values:
        yield forbidden_field(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    key = requirement.get("key") or ""
    for message in is_qualified_name(key):
        yield invalid_value(f"{path}.key", key, message)
    for i, value in enumerate(values):
        for message in is_valid_label_value(value):
            yield invalid_value(f"{path}.values[{i}]", value, message)


def _validate_rule(rule: Object, path: str, *, namespaced: bool) -> Iterator[Cause]:
    if not rule.get("verbs"):
        yield required_value(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            yield invalid_value(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid_value(f"{path}.nonResourceURLs", urls, detail)
        return
    if not rule.get("apiGroups"):
        yield required_value(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required_value(f"{path}.resources", "resource rules must supply at least one resource")


def _validate_aggregation(rule: Object) -> Iterator[Cause]:
    selectors = rule.get("clusterRoleSelectors") or ()
    if not selectors:
        yield required_value(
            "aggregationRule.clusterRoleSelectors",
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        )
    for i, selector in enumerate(selectors):
        path = f"aggregationRule.clusterRoleSelectors[{i}]"
        yield from validate_labels(selector.get("matchLabels"), f"{path}.matchLabels")
        for j, expression in enumerate(selector.get("matchExpressions") or ()):
            item_path = f"{path}.matchExpressions[{j}]"
            operator = expression.get("operator") or ""
            if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
                yield invalid_value(f"{item_path}.operator", operator, "not a valid selector operator")
            yield from validate_selector_requirement(expression, item_path)
        try:
            from_label_selector(selector)
        except BadRequest:
            yield invalid_value(path, None, "invalid label selector.")


def _validate_binding(kind: str, obj: Object, old: Object | None) -> Iterator[Cause]:
    role_ref = obj.get("roleRef") or {}
    group, role_kind, name = (role_ref.get(key) or "" for key in ("apiGroup", "kind", "name"))
    if group != GROUP:
        yield not_supported("roleRef.apiGroup", group, [GROUP])
    if role_kind not in _ROLE_KINDS[kind]:
        yield not_supported("roleRef.kind", role_kind, _ROLE_KINDS[kind])
    if not name:
        yield required_value("roleRef.name")
    for message in NAME_RULE(name):
        yield invalid_value("roleRef.name", name, message)
    for i, subject in enumerate(obj.get("subjects") or ()):
        yield from _validate_subject(subject, f"subjects[{i}]", namespaced=kind == "RoleBinding")
    if old is not None:
        new_ref, old_ref = _printed_role_ref(role_ref), _printed_role_ref(old.get("roleRef") or {})
        if new_ref != old_ref:
            yield invalid_value("roleRef", new_ref, "cannot change roleRef")


def _printed_role_ref(role_ref: Object) -> dict[str, str]:
    """Returns a roleRef as upstream's message prints it."""
    return {title: role_ref.get(key) or "" for title, key in _REFERENCE_FIELDS}


def _validate_subject(subject: Object, path: str, *, namespaced: bool) -> Iterator[Cause]:
    kind, name, group = (subject.get(key) or "" for key in ("kind", "name", "apiGroup"))
    if not name:
        yield required_value(f"{path}.name")
    if kind == "ServiceAccount":
        for message in is_dns1123_subdomain(name) if name else ():
            yield invalid_value(f"{path}.name", name, message)
        if group:
            yield not_supported(f"{path}.apiGroup", group, [""])
        if not namespaced and not subject.get("namespace"):
            yield required_value(f"{path}.namespace")
    elif kind in ("User", "Group"):
        if group != GROUP:
            yield not_supported(f"{path}.apiGroup", group, [GROUP])
    else:
        yield not_supported(f"{path}.kind", kind, ["ServiceAccount", "User", "Group"])
