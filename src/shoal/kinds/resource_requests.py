"""Validation of device requests, constraints and configuration of ResourceClaims and DeviceClasses. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import Object, one_of, said
from shoal.kinds.resource_names import (
    checked,
    distinct,
    driver_name,
    fully_qualified_name,
    label_name,
    name_of,
    raw_object,
    toleration,
)
from shoal.objects.errors import Cause, invalid_value, required, too_long
from shoal.objects.names import is_dns1123_subdomain

MOST, MOST_ALTERNATIVES = 32, 8
"""The limit of requests, constraints, configurations and selectors, and the limit of alternatives in firstAvailable."""
EXPRESSION_BYTES = PARAMETERS_BYTES = 10 * 1024
Names = dict[str, frozenset[str]]
"""Request names of a claim, each with the names of its alternatives."""

_ONE_REQUEST = "exactly one of `exactly` or `firstAvailable` is required"
_ONE_ATTRIBUTE = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
_NO_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"


def names_of(devices: Object) -> Names:
    return {name_of(request): frozenset(map(name_of, _alternatives(request))) for request in devices["requests"] or ()}


def validate_devices(devices: Object, path: str) -> list[Cause]:
    """Validates `spec.devices` of a claim."""
    names = names_of(devices)
    causes = distinct(devices["requests"], MOST, _request, f"{path}.requests", name_of)
    causes += checked(
        devices.get("constraints"), MOST, lambda one, where: _constraint(one, where, names), f"{path}.constraints"
    )
    return causes + checked(
        devices.get("config"), MOST, lambda one, where: claim_configuration(one, where, names), f"{path}.config"
    )


def _alternatives(request: Object) -> list[Object]:
    return request.get("firstAvailable") or []


def _request(request: Object, path: str) -> list[Cause]:
    causes = label_name(name_of(request), f"{path}.name")
    exactly, first = request.get("exactly"), _alternatives(request)
    if exactly is None and not first:
        causes.append(required(path, _ONE_REQUEST))
    elif exactly is not None and first:
        causes.append(invalid_value(path, None, f"{_ONE_REQUEST}, but multiple fields are set"))
    elif first:
        causes += distinct(first, MOST_ALTERNATIVES, _alternative, f"{path}.firstAvailable", name_of)
    else:
        causes += _wanted(exactly, f"{path}.exactly")
    return causes


def _alternative(wanted: Object, path: str) -> list[Cause]:
    return label_name(name_of(wanted), f"{path}.name") + _wanted(wanted, path)


def _wanted(wanted: Any, path: str) -> list[Cause]:
    device_class, where = wanted.get("deviceClassName") or "", f"{path}.deviceClassName"
    causes = said(where, device_class, is_dns1123_subdomain(device_class)) if device_class else [required(where)]
    causes += validate_selectors(wanted.get("selectors"), f"{path}.selectors")
    mode, count = wanted["allocationMode"], wanted.get("count") or 0
    if mode == "All":
        if count:
            told = "must not be specified when allocationMode is 'All'"
            causes.append(invalid_value(f"{path}.count", count, told))
    elif mode == "ExactCount":
        if count <= 0:
            causes.append(invalid_value(f"{path}.count", count, "must be greater than zero"))
    else:
        causes += one_of(mode, f"{path}.allocationMode", "All", "ExactCount")
    for i, one in enumerate(wanted.get("tolerations") or ()):
        causes += toleration(one, f"{path}.tolerations[{i}]")
    return causes


def validate_selectors(selectors: Any, path: str) -> list[Cause]:
    return checked(selectors, MOST, _selector, path)


def _selector(selector: Object, path: str) -> list[Cause]:
    if selector.get("cel") is None:
        return [required(f"{path}.cel")]
    expression, where = selector["cel"].get("expression") or "", f"{path}.cel.expression"
    if len(expression.encode()) > EXPRESSION_BYTES:
        return [too_long(where, EXPRESSION_BYTES)]
    # CEL is imported lazily: a server without device selectors starts without it.
    from shoal.kinds.resource_selectors import compiling  # noqa: PLC0415

    return compiling(expression, where)


def _constraint(constraint: Object, path: str, names: Names) -> list[Cause]:
    causes = request_references(constraint.get("requests"), f"{path}.requests", names)
    for field in ("matchAttribute", "distinctAttribute"):
        if constraint.get(field) is not None:
            return causes + fully_qualified_name(constraint[field], f"{path}.{field}")
    return [*causes, required(path, _ONE_ATTRIBUTE)]


def claim_configuration(config: Object, path: str, names: Names) -> list[Cause]:
    return request_references(config.get("requests"), f"{path}.requests", names) + validate_configuration(config, path)


def validate_configuration(config: Object, path: str) -> list[Cause]:
    opaque = config.get("opaque")
    if opaque is None:
        return [required(f"{path}.opaque")]
    causes = driver_name(opaque.get("driver") or "", f"{path}.opaque.driver")
    return causes + raw_object(opaque.get("parameters"), f"{path}.opaque.parameters", PARAMETERS_BYTES)


def request_references(given: Any, path: str, names: Names) -> list[Cause]:
    return distinct(given, MOST, lambda name, where: request_reference(name, where, names), path, str)


def request_reference(name: str, path: str, names: Names) -> list[Cause]:
    """Validates the name of a request, or `request/alternative`."""
    request, slash, alternative = name.partition("/")
    if "/" in alternative:
        return [invalid_value(path, name, _NO_REQUEST)]
    causes = [cause for part in name.split("/") for cause in label_name(part, path)]
    if request not in names or (slash and alternative not in names[request]):
        causes.append(invalid_value(path, name, _NO_REQUEST))
    return causes
