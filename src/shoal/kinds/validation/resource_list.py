"""Resource lists (`limits`, `requests`, `capacity`, `hard`): canonical quantities, and validation of names and
quantities. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from shoal.kinds.validation.field import NOT_NEGATIVE
from shoal.objects.errors import BadRequest, Cause, forbidden_field, invalid_value, required_value
from shoal.objects.names import is_qualified_name
from shoal.objects.quantity import ZERO, Quantity

Object = dict[str, Any]
ResourceNameRule = Callable[[str, str], list[Cause]]

_MILLI = 10**6
_INTEGER_RESOURCES = frozenset({
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
})  # fmt: skip
_QUOTA_RESOURCES = _INTEGER_RESOURCES | {
    "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage",
    "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
}  # fmt: skip
_STANDARD_RESOURCES = _QUOTA_RESOURCES | {"storage"}
_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})


class QuantityError(BadRequest):
    """Upstream cannot decode the object at all. The caller, which knows the kind, adds the prefix of the message."""


def normalize_resource_list(holder: Object | None, field: str) -> None:
    """Rewrites the quantities of a resource list as upstream stores them: canonical, with at most milli precision."""
    resource_list = (holder or {}).get(field)
    if isinstance(resource_list, dict):
        for name, value in resource_list.items():
            resource_list[name] = canonical_quantity(value)


def canonical_quantity(value: str | int | float) -> str:
    try:
        return _cached_canonical(value)
    except ValueError as error:
        raise QuantityError(str(error)) from None


def exact_quantity(value: str | int | float) -> str:
    """Returns a quantity outside of a resource list in canonical form, with its full precision."""
    try:
        return str(Quantity.parse(value))
    except ValueError as error:
        raise QuantityError(str(error)) from None


@lru_cache(maxsize=4096)
def _cached_canonical(value: str | int | float) -> str:
    quantity = Quantity.parse(value)
    if quantity.nano % _MILLI:
        quantity = Quantity(-(-quantity.nano // _MILLI) * _MILLI, quantity.format)
    return str(quantity)


def quantity_of(value: object) -> Quantity:
    """Parses a defaulted quantity; an absent one is zero."""
    return Quantity.parse(value) if isinstance(value, str | int | float) else ZERO


def validate_resource_requirements(
    resources: Object, path: str, name_rule: ResourceNameRule | None = None
) -> list[Cause]:
    """Validates `resources` of a container or pod: names, quantities, and requests not above limits."""
    rule = name_rule or validate_container_resource_name
    causes: list[Cause] = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, value in limits.items():
        causes += rule(name, f"{path}.limits[{name}]") + validate_resource_quantity(
            name, value, f"{path}.limits[{name}]"
        )
    for name, value in requests.items():
        causes += rule(name, f"{path}.requests[{name}]") + validate_resource_quantity(
            name, value, f"{path}.requests[{name}]"
        )
        overcommit = _is_native(name) and not name.startswith("hugepages-")
        if name in limits:
            request, limit = quantity_of(value), quantity_of(limits[name])
            if request != limit and not overcommit:
                detail = f"must be equal to {name} limit of {limits[name]}"
                causes.append(invalid_value(f"{path}.requests", value, detail))
            elif request > limit:
                detail = f"must be less than or equal to {name} limit of {limits[name]}"
                causes.append(invalid_value(f"{path}.requests", value, detail))
        elif not overcommit:
            causes.append(required_value(f"{path}.limits", "Limit must be set for non overcommitable resources"))
    names = limits.keys() | requests.keys()
    if any(name.startswith("hugepages-") for name in names) and not names & {"cpu", "memory"}:
        causes.append(forbidden_field(path, "HugePages require cpu or memory"))
    return causes


def validate_resource_quantity(name: str, value: object, path: str) -> list[Cause]:
    quantity = quantity_of(value)
    causes = [invalid_value(path, value, NOT_NEGATIVE)] if quantity < ZERO else []
    if (name in _INTEGER_RESOURCES or is_extended_resource(name)) and quantity.milli_value() % 1000:
        causes.append(invalid_value(path, value, "must be an integer"))
    return causes


def validate_resource_name(name: str, path: str) -> list[Cause]:
    messages = is_qualified_name(name)
    if messages:
        return [invalid_value(path, name, message) for message in messages]
    if "/" not in name and name not in _STANDARD_RESOURCES and not _is_quota_hugepages(name):
        return [invalid_value(path, name, "must be a standard resource type or fully qualified")]
    return []


def validate_container_resource_name(name: str, path: str) -> list[Cause]:
    if name in _CONTAINER_RESOURCES:
        return []
    causes = validate_resource_name(name, path)
    if "/" not in name:
        if not name.startswith("hugepages-"):
            causes.append(invalid_value(path, name, "must be a standard resource for containers"))
    elif not _is_native(name) and not is_extended_resource(name):
        causes.append(invalid_value(path, name, "doesn't follow extended resource name standard"))
    return causes


def validate_quota_resource_name(name: str, path: str) -> list[Cause]:
    causes = validate_resource_name(name, path)
    if "/" not in name and name not in _QUOTA_RESOURCES and not _is_quota_hugepages(name):
        causes.append(invalid_value(path, name, "must be a standard resource for quota"))
    return causes


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended_resource(name: str) -> bool:
    """Reports whether the name is an extended resource: neither a native one nor a quota's name for one."""
    return not _is_native(name) and not name.startswith("requests.") and not is_qualified_name(f"requests.{name}")


def _is_quota_hugepages(name: str) -> bool:
    return name.startswith(("hugepages-", "requests.hugepages-"))
