"""Resource lists (`limits`, `requests`, `capacity`, `hard`): canonical quantities, and validation of names and
quantities. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from shoal.kinds.checks import NOT_NEGATIVE
from shoal.objects.errors import BadRequest, Cause, forbidden_field, invalid_value, required
from shoal.objects.names import is_qualified_name
from shoal.objects.quantity import ZERO, Quantity

Object = dict[str, Any]
NameRule = Callable[[str, str], list[Cause]]

_MILLI = 10**6
_INTEGER = frozenset({
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
})  # fmt: skip
_QUOTA = _INTEGER | {
    "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage",
    "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
}  # fmt: skip
_STANDARD = _QUOTA | {"storage"}
_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})


class NotAQuantity(BadRequest):
    """Upstream cannot decode the object at all. The caller, which knows the kind, adds the prefix of the message."""


def default_list(holder: Object | None, field: str) -> None:
    """Rewrites the quantities of a resource list as upstream stores them: canonical, with at most milli precision."""
    found = (holder or {}).get(field)
    if isinstance(found, dict):
        for name, value in found.items():
            found[name] = canonical(value)


def canonical(value: str | int | float) -> str:
    try:
        return _canonical(value)
    except ValueError as error:
        raise NotAQuantity(str(error)) from None


def canonical_alone(value: str | int | float) -> str:
    """Returns a quantity outside of a resource list in canonical form, with its full precision."""
    try:
        return str(Quantity.parse(value))
    except ValueError as error:
        raise NotAQuantity(str(error)) from None


@lru_cache(maxsize=4096)
def _canonical(value: str | int | float) -> str:
    quantity = Quantity.parse(value)
    if quantity.nano % _MILLI:
        quantity = Quantity(-(-quantity.nano // _MILLI) * _MILLI, quantity.format)
    return str(quantity)


def amount(value: object) -> Quantity:
    """Parses a defaulted quantity; an absent one is zero."""
    return Quantity.parse(value) if isinstance(value, str | int | float) else ZERO


def validate_requirements(resources: Object, path: str, name_rule: NameRule | None = None) -> list[Cause]:
    """Validates `resources` of a container or pod: names, quantities, and requests not above limits."""
    rule = name_rule or container_resource_name
    causes: list[Cause] = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, value in limits.items():
        causes += rule(name, f"{path}.limits[{name}]") + quantity_causes(name, value, f"{path}.limits[{name}]")
    for name, value in requests.items():
        causes += rule(name, f"{path}.requests[{name}]") + quantity_causes(name, value, f"{path}.requests[{name}]")
        overcommit = _native(name) and not name.startswith("hugepages-")
        if name in limits:
            wanted, limit = amount(value), amount(limits[name])
            if wanted != limit and not overcommit:
                said = f"must be equal to {name} limit of {limits[name]}"
                causes.append(invalid_value(f"{path}.requests", value, said))
            elif wanted > limit:
                said = f"must be less than or equal to {name} limit of {limits[name]}"
                causes.append(invalid_value(f"{path}.requests", value, said))
        elif not overcommit:
            causes.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
    names = limits.keys() | requests.keys()
    if any(name.startswith("hugepages-") for name in names) and not names & {"cpu", "memory"}:
        causes.append(forbidden_field(path, "HugePages require cpu or memory"))
    return causes


def quantity_causes(name: str, value: object, path: str) -> list[Cause]:
    found = amount(value)
    causes = [invalid_value(path, value, NOT_NEGATIVE)] if found < ZERO else []
    if (name in _INTEGER or is_extended(name)) and found.milli() % 1000:
        causes.append(invalid_value(path, value, "must be an integer"))
    return causes


def resource_name(name: str, path: str) -> list[Cause]:
    said = is_qualified_name(name)
    if said:
        return [invalid_value(path, name, message) for message in said]
    if "/" not in name and name not in _STANDARD and not _quota_huge_pages(name):
        return [invalid_value(path, name, "must be a standard resource type or fully qualified")]
    return []


def container_resource_name(name: str, path: str) -> list[Cause]:
    if name in _CONTAINER:
        return []
    causes = resource_name(name, path)
    if "/" not in name:
        if not name.startswith("hugepages-"):
            causes.append(invalid_value(path, name, "must be a standard resource for containers"))
    elif not _native(name) and not is_extended(name):
        causes.append(invalid_value(path, name, "doesn't follow extended resource name standard"))
    return causes


def quota_resource_name(name: str, path: str) -> list[Cause]:
    causes = resource_name(name, path)
    if "/" not in name and name not in _QUOTA and not _quota_huge_pages(name):
        causes.append(invalid_value(path, name, "must be a standard resource for quota"))
    return causes


def _native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Reports whether the name is an extended resource: neither a native one nor a quota's name for one."""
    return not _native(name) and not name.startswith("requests.") and not is_qualified_name(f"requests.{name}")


def _quota_huge_pages(name: str) -> bool:
    return name.startswith(("hugepages-", "requests.hugepages-"))
