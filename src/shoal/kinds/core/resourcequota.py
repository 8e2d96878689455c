"""ResourceQuota and LimitRange of core/v1: defaults and validation in upstream's words. Pure.

They are enforced by `apiserver.admission`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.kinds.validation.field import ensure_map
from shoal.kinds.validation.resource_list import (
    normalize_resource_list,
    quantity_of,
    validate_container_resource_name,
    validate_quota_resource_name,
    validate_resource_name,
    validate_resource_quantity,
)
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, required_value
from shoal.objects.names import is_qualified_name
from shoal.objects.quantity import Quantity

Object = dict[str, Any]

SCOPES = frozenset({
    "Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
})  # fmt: skip
LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_COMPUTE_RESOURCES = frozenset(
    {"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
)  # fmt: skip
_CONFLICTING_SCOPES = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_LIMIT_FIELDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def default_quota(obj: Object) -> None:
    normalize_resource_list(ensure_map(obj, "spec"), "hard")
    status = ensure_map(obj, "status")
    normalize_resource_list(status, "hard")
    normalize_resource_list(status, "used")


def prepare_quota_create(obj: Object) -> None:
    obj["status"] = {}


def validate_quota(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    causes = _validate_quantities(spec.get("hard") or {}, "spec.hard")
    for field in ("hard", "used"):
        causes += _validate_quantities((obj.get("status") or {}).get(field) or {}, f"status.{field}")
    causes += _validate_scopes(spec) + _validate_scope_selector(spec)
    if old is not None and set(spec.get("scopes") or ()) != set((old.get("spec") or {}).get("scopes") or ()):
        causes.append(invalid_value("spec.scopes", spec.get("scopes"), "field is immutable"))
    return causes


def _validate_quantities(hard: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for name, value in hard.items():
        causes += validate_quota_resource_name(name, f"{path}[{name}]") + validate_resource_quantity(
            name, value, f"{path}[{name}]"
        )
    return causes


def _scope_applies_to(scope: str, name: str) -> bool:
    """Reports whether a scope applies to a quota resource name. Unknown names are accepted."""
    if validate_quota_resource_name(name, "") or "/" in name:
        return True
    if scope == "BestEffort":
        return name == "pods"
    if scope == "VolumeAttributesClass":
        return name in ("persistentvolumeclaims", "requests.storage")
    return name in _COMPUTE_RESOURCES if scope in SCOPES else True


def _scopes_apply_to(scopes: Iterable[str], names: Iterable[str]) -> bool:
    return all(_scope_applies_to(scope, name) for scope in SCOPES.intersection(scopes) for name in names)


def _validate_scopes(spec: Object) -> list[Cause]:
    """Upstream repeats an error about all scopes for each of them."""
    scopes, hard = spec.get("scopes") or [], spec.get("hard") or ()
    causes: list[Cause] = []
    if not SCOPES.issuperset(scopes):
        causes.append(invalid_value("spec.scopes", scopes, "unsupported scope"))
    if not _scopes_apply_to(scopes, hard):
        causes.append(invalid_value("spec.scopes", scopes, "unsupported scope applied to resource"))
    for one, other in _CONFLICTING_SCOPES:
        if one in scopes and other in scopes:
            causes.append(invalid_value("spec.scopes", scopes, "conflicting scopes"))
    return causes


def _validate_scope_selector(spec: Object) -> list[Cause]:
    selector, path = spec.get("scopeSelector") or {}, "spec.scopeSelector.matchExpressions"
    causes: list[Cause] = []
    expressions = selector.get("matchExpressions") or ()
    if not _scopes_apply_to((each.get("scopeName") or "" for each in expressions), spec.get("hard") or ()):
        causes.append(invalid_value(path, selector, "unsupported scope applied to resource"))
    for expression in expressions:
        scope, operator = expression.get("scopeName") or "", expression.get("operator") or ""
        values = expression.get("values") or []
        if scope not in SCOPES:
            causes.append(invalid_value(f"{path}.scopeName", scope, "unsupported scope"))
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                causes.append(required_value(f"{path}.values", detail))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                causes.append(invalid_value(f"{path}.values", values, detail))
        else:
            causes.append(invalid_value(f"{path}.operator", operator, "not a valid selector operator"))
    return causes


def default_limit_range(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    spec.setdefault("limits", None)  # as Go writes an absent list
    for limit in spec["limits"] or ():
        for field in _LIMIT_FIELDS:
            normalize_resource_list(limit, field)
        if limit.get("type") == "Container":
            default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            request = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
            for field, values in (("default", default), ("defaultRequest", request)):
                if values:
                    limit[field] = values


def prepare_limit_range_create(obj: Object) -> None:
    """A LimitRange may be created without a name: its uid becomes the name."""
    if not obj["metadata"].get("name"):
        obj["metadata"]["name"] = obj["metadata"]["uid"]
    prepare_limit_range_update(obj, obj)


def prepare_limit_range_update(new: Object, old: Object) -> None:
    """Stores an empty list as null."""
    new["spec"]["limits"] = new["spec"].get("limits") or None


def validate_limit_range(obj: Object, old: Object | None) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for i, limit in enumerate(obj["spec"].get("limits") or ()):
        path, kind = f"spec.limits[{i}]", limit.get("type") or ""
        messages = is_qualified_name(kind)
        causes += [invalid_value(f"{path}.type", kind, message) for message in messages]
        if not messages and "/" not in kind and kind not in LIMIT_TYPES:
            causes.append(invalid_value(f"{path}.type", kind, "must be a standard limit type or fully qualified"))
        if kind in seen:
            causes.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        causes += _validate_limit_item(limit, kind, path)
    return causes


def _validate_limit_item(limit: Object, kind: str, path: str) -> list[Cause]:
    causes: list[Cause] = []
    rule = validate_container_resource_name if kind in ("Pod", "Container") else validate_resource_name
    names: dict[str, None] = {}
    for field in _LIMIT_FIELDS:
        if kind == "Pod" and field.startswith("default"):
            if limit.get(field):
                causes.append(forbidden_field(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
            continue
        for name in limit.get(field) or ():
            causes += rule(name, f"{path}.{field}[{name}]")
            names[name] = None
    if kind == "PersistentVolumeClaim" and not any("storage" in (limit.get(f) or ()) for f in ("min", "max")):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        causes.append(required_value(f"{path}.limits", detail))
    return causes + [cause for name in names for cause in _validate_bounds(limit, name, path)]


def _validate_bounds(limit: Object, name: str, path: str) -> list[Cause]:
    """min <= defaultRequest <= default <= max, each where it is given."""
    text = {field: (limit.get(field) or {}).get(name) for field in _LIMIT_FIELDS}
    least, most, default, request = (text[field] for field in ("min", "max", "default", "defaultRequest"))
    checks = (
        (least, most, "min", least, "min value {} is greater than max value {}"),
        (least, request, "defaultRequest", request, "min value {} is greater than default request value {}"),
        (request, most, "defaultRequest", request, "default request value {} is greater than max value {}"),
        (
            request,
            default,
            "defaultRequest",
            request,
            "default request value {} is greater than default limit value {}",
        ),
        (least, default, "default", least, "min value {} is greater than default value {}"),
        (default, most, "default", most, "default value {} is greater than max value {}"),
    )
    causes = [
        invalid_value(f"{path}.{field}[{name}]", value, message.format(low, high))
        for low, high, field, value, message in checks
        if low is not None and high is not None and quantity_of(low) > quantity_of(high)
    ]
    ratio = text["maxLimitRequestRatio"]
    if ratio is not None and quantity_of(ratio) < Quantity.from_int(1):
        causes.append(invalid_value(f"{path}.maxLimitRequestRatio[{name}]", ratio, f"ratio {ratio} is less than 1"))
    return causes
