"""Validation of device requests, constraints and configuration of ResourceClaims and DeviceClasses. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.resource.names import (
    name_of,
    validate_device_toleration,
    validate_driver_name,
    validate_fully_qualified_name,
    validate_label_name,
    validate_list,
    validate_raw_object,
    validate_set,
)
from shoal.kinds.validation.field import Object, invalid_causes, validate_enum
from shoal.objects.errors import Cause, invalid_value, required_value, too_long
from shoal.objects.names import is_dns1123_subdomain

MAX_DEVICE_ITEMS, MAX_ALTERNATIVES = 32, 8
"""The limit of requests, constraints, configurations and selectors, and the limit of alternatives in firstAvailable."""
MAX_EXPRESSION_BYTES = MAX_PARAMETERS_BYTES = 10 * 1024
RequestNames = dict[str, frozenset[str]]
"""Request names of a claim, each with the names of its alternatives."""

_ONE_REQUEST_REQUIRED = "exactly one of `exactly` or `firstAvailable` is required"
_ONE_ATTRIBUTE_REQUIRED = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
)
_UNKNOWN_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def request_names(devices: Object) -> RequestNames:
    return {name_of(request): frozenset(map(name_of, _alternatives(request))) for request in devices["requests"] or ()}


def validate_devices(devices: Object, path: str) -> list[Cause]:
    """Validates `spec.devices` of a claim."""
    names = request_names(devices)
    causes = validate_set(devices["requests"], MAX_DEVICE_ITEMS, _validate_request, f"{path}.requests", name_of)
    causes += validate_list(
        devices.get("constraints"),
        MAX_DEVICE_ITEMS,
        lambda one, where: _validate_constraint(one, where, names),
        f"{path}.constraints",
    )
    return causes + validate_list(
        devices.get("config"),
        MAX_DEVICE_ITEMS,
        lambda one, where: validate_claim_configuration(one, where, names),
        f"{path}.config",
    )


def _alternatives(request: Object) -> list[Object]:
    return request.get("firstAvailable") or []


def _validate_request(request: Object, path: str) -> list[Cause]:
    causes = validate_label_name(name_of(request), f"{path}.name")
    exactly, first = request.get("exactly"), _alternatives(request)
    if exactly is None and not first:
        causes.append(required_value(path, _ONE_REQUEST_REQUIRED))
    elif exactly is not None and first:
        causes.append(invalid_value(path, None, f"{_ONE_REQUEST_REQUIRED}, but multiple fields are set"))
    elif first:
        causes += validate_set(first, MAX_ALTERNATIVES, _validate_alternative, f"{path}.firstAvailable", name_of)
    else:
        causes += _validate_device_request(exactly, f"{path}.exactly")
    return causes


def _validate_alternative(subrequest: Object, path: str) -> list[Cause]:
    return validate_label_name(name_of(subrequest), f"{path}.name") + _validate_device_request(subrequest, path)


def _validate_device_request(device_request: Any, path: str) -> list[Cause]:
    device_class, field_path = device_request.get("deviceClassName") or "", f"{path}.deviceClassName"
    causes = (
        invalid_causes(field_path, device_class, is_dns1123_subdomain(device_class))
        if device_class
        else [required_value(field_path)]
    )
    causes += validate_selectors(device_request.get("selectors"), f"{path}.selectors")
    mode, count = device_request["allocationMode"], device_request.get("count") or 0
    if mode == "All":
        if count:
            detail = "must not be specified when allocationMode is 'All'"
            causes.append(invalid_value(f"{path}.count", count, detail))
    elif mode == "ExactCount":
        if count <= 0:
            causes.append(invalid_value(f"{path}.count", count, "must be greater than zero"))
    else:
        causes += validate_enum(mode, f"{path}.allocationMode", "All", "ExactCount")
    for i, one in enumerate(device_request.get("tolerations") or ()):
        causes += validate_device_toleration(one, f"{path}.tolerations[{i}]")
    return causes


def validate_selectors(selectors: Any, path: str) -> list[Cause]:
    return validate_list(selectors, MAX_DEVICE_ITEMS, _validate_selector, path)


def _validate_selector(selector: Object, path: str) -> list[Cause]:
    if selector.get("cel") is None:
        return [required_value(f"{path}.cel")]
    expression, field_path = selector["cel"].get("expression") or "", f"{path}.cel.expression"
    if len(expression.encode()) > MAX_EXPRESSION_BYTES:
        return [too_long(field_path, MAX_EXPRESSION_BYTES)]
    # CEL is imported lazily: a server without device selectors starts without it.
    from shoal.kinds.resource.selectors import validate_cel_selector  # noqa: PLC0415

    return validate_cel_selector(expression, field_path)


def _validate_constraint(constraint: Object, path: str, names: RequestNames) -> list[Cause]:
    causes = validate_request_references(constraint.get("requests"), f"{path}.requests", names)
    for field in ("matchAttribute", "distinctAttribute"):
        if constraint.get(field) is not None:
            return causes + validate_fully_qualified_name(constraint[field], f"{path}.{field}")
    return [*causes, required_value(path, _ONE_ATTRIBUTE_REQUIRED)]


def validate_claim_configuration(config: Object, path: str, names: RequestNames) -> list[Cause]:
    return validate_request_references(config.get("requests"), f"{path}.requests", names) + validate_configuration(
        config, path
    )


def validate_configuration(config: Object, path: str) -> list[Cause]:
    opaque = config.get("opaque")
    if opaque is None:
        return [required_value(f"{path}.opaque")]
    causes = validate_driver_name(opaque.get("driver") or "", f"{path}.opaque.driver")
    return causes + validate_raw_object(opaque.get("parameters"), f"{path}.opaque.parameters", MAX_PARAMETERS_BYTES)


def validate_request_references(references: Any, path: str, names: RequestNames) -> list[Cause]:
    return validate_set(
        references, MAX_DEVICE_ITEMS, lambda name, where: validate_request_reference(name, where, names), path, str
    )


def validate_request_reference(name: str, path: str, names: RequestNames) -> list[Cause]:
    """Validates the name of a request, or `request/alternative`."""
    request, slash, alternative = name.partition("/")
    if "/" in alternative:
        return [invalid_value(path, name, _UNKNOWN_REQUEST)]
    causes = [cause for part in name.split("/") for cause in validate_label_name(part, path)]
    if request not in names or (slash and alternative not in names[request]):
        causes.append(invalid_value(path, name, _UNKNOWN_REQUEST))
    return causes
