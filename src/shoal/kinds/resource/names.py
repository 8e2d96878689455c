"""Validation shared by the kinds of resource.k8s.io: names, lists, conditions, taints and tolerations. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from typing import Any
from uuid import UUID

import orjson

from shoal.kinds.validation.field import Object, invalid_causes, repeated_positions, validate_enum
from shoal.objects.errors import Cause, duplicate, invalid_value, required_value, too_long, too_many
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_qualified_name, is_valid_label_value

ItemCheck = Callable[[Any, str], list[Cause]]

MAX_DRIVER_NAME_LENGTH, MAX_POOL_NAME_LENGTH, MAX_IDENTIFIER_LENGTH = 63, 253, 32
MAX_BINDING_CONDITIONS = 4
EFFECTS = ("NoExecute", "NoSchedule", "None")
_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_match_identifier = re.compile(_IDENTIFIER).fullmatch
_IDENTIFIER_MESSAGE = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    f"or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '{_IDENTIFIER}')"
)
_NOT_NORMALIZED = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` "
    "with lowercase hexadecimal characters"
)


def validate_list(values: Any, max_items: int, check: ItemCheck, path: str) -> list[Cause]:
    """Validates each item of a list. The items of a list that is too long are not validated."""
    values = values or ()
    if len(values) > max_items:
        return [too_many(path, len(values), max_items)]
    return [cause for i, value in enumerate(values) for cause in check(value, f"{path}[{i}]")]


def validate_set(
    values: Any,
    max_items: int,
    check: ItemCheck,
    path: str,
    key: Callable[[Any], Hashable],
    print_key: Callable[[Any], object] = str,
) -> list[Cause]:
    """Validates a list in which no key may repeat. `print_key` converts a key for the message."""
    causes = validate_list(values, max_items, check, path)
    seen: set[Hashable] = set()
    for i, value in enumerate(values or () if len(values or ()) <= max_items else ()):
        if key(value) in seen:
            causes.append(duplicate(f"{path}[{i}]", print_key(key(value))))
        seen.add(key(value))
    return causes


def name_of(value: Object) -> str:
    return value.get("name") or ""


def validate_driver_name(name: str, path: str) -> list[Cause]:
    if not name:
        return [required_value(path)]
    causes = [too_long(path, MAX_DRIVER_NAME_LENGTH)] if len(name.encode()) > MAX_DRIVER_NAME_LENGTH else []
    return causes + invalid_causes(path, name, is_dns1123_subdomain(name.lower()))


def validate_pool_name(name: str, path: str) -> list[Cause]:
    """A pool name is DNS subdomains separated by slashes."""
    if not name:
        return [required_value(path)]
    causes = [too_long(path, MAX_POOL_NAME_LENGTH)] if len(name.encode()) > MAX_POOL_NAME_LENGTH else []
    return causes + [
        cause for part in name.split("/") for cause in invalid_causes(path, part, is_dns1123_subdomain(part))
    ]


def validate_label_name(name: str, path: str) -> list[Cause]:
    return invalid_causes(path, name, is_dns1123_label(name))


def validate_qualified_name(name: str, path: str) -> list[Cause]:
    """Validates the name of an attribute or capacity: `id` or `domain/id`. Upstream accepts names with more slashes."""
    parts = name.split("/")
    if len(parts) == 1:
        return _validate_identifier(name, path)
    if len(parts) > 2:
        return []
    domain, identifier = parts
    causes = validate_driver_name(domain, path) if domain else [invalid_value(path, "", "the domain must not be empty")]
    return causes + (
        _validate_identifier(identifier, path)
        if identifier
        else [invalid_value(path, "", "the name must not be empty")]
    )


def validate_fully_qualified_name(name: str, path: str) -> list[Cause]:
    causes = validate_qualified_name(name, path)
    if "/" not in name:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        causes.append(invalid_value(path, name, detail))
    return causes


def _validate_identifier(name: str, path: str) -> list[Cause]:
    causes = [too_long(path, MAX_IDENTIFIER_LENGTH)] if len(name.encode()) > MAX_IDENTIFIER_LENGTH else []
    return causes if _match_identifier(name) else [*causes, invalid_value(path, name, _IDENTIFIER_MESSAGE)]


def validate_uid(uid: str, path: str) -> list[Cause]:
    if len(uid) not in (32, 36, 38, 45):
        return [invalid_value(path, uid, f"error validating uid: invalid UUID length: {len(uid)}")]
    try:
        UUID(uid)
    except ValueError:
        return [invalid_value(path, uid, "error validating uid: invalid UUID format")]
    return [] if len(uid) == 36 and uid == uid.lower() else [invalid_value(path, uid, _NOT_NORMALIZED)]


def validate_raw_object(value: Any, path: str, max_bytes: int) -> list[Cause]:
    """Validates an opaque object that the server does not interpret."""
    if value is None:
        return [required_value(path)]
    if len(orjson.dumps(value)) > max_bytes:
        return [too_long(path, max_bytes)]
    return [] if isinstance(value, dict) else [invalid_value(path, "<value omitted>", "must be a valid JSON object")]


def validate_binding_conditions(obj: Object, path: str) -> list[Cause]:
    """Validates `bindingConditions` and `bindingFailureConditions`: both or none are set, and they do not overlap."""
    binding_conditions, failure_conditions = (
        obj.get(field) or [] for field in ("bindingConditions", "bindingFailureConditions")
    )
    causes = validate_list(binding_conditions, MAX_BINDING_CONDITIONS, _validate_label_key, f"{path}.bindingConditions")
    causes += validate_list(
        failure_conditions, MAX_BINDING_CONDITIONS, _validate_label_key, f"{path}.bindingFailureConditions"
    )
    causes += [duplicate(f"{path}.bindingConditions[{i}]", one) for i, one in _duplicates(binding_conditions)]
    repeated = dict(_duplicates(failure_conditions))
    for i, one in enumerate(failure_conditions):
        item_path = f"{path}.bindingFailureConditions[{i}]"
        if i in repeated:
            causes.append(duplicate(item_path, one))
        if one in binding_conditions:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            causes.append(invalid_value(item_path, one, detail))
    if failure_conditions and not binding_conditions:
        detail = "bindingConditions are required to use bindingFailureConditions"
        causes.append(invalid_value(f"{path}.bindingConditions", obj.get("bindingConditions"), detail))
    if binding_conditions and not failure_conditions:
        detail = "bindingFailureConditions are required to use bindingConditions"
        causes.append(invalid_value(f"{path}.bindingFailureConditions", obj.get("bindingFailureConditions"), detail))
    return causes


def _duplicates(values: list[str]) -> Iterable[tuple[int, str]]:
    return ((i, values[i]) for i in repeated_positions(values))


def _validate_label_key(name: str, path: str) -> list[Cause]:
    return invalid_causes(path, name, is_qualified_name(name))


def validate_device_taint(obj: Object, path: str) -> list[Cause]:
    key, value, effect = obj.get("key") or "", obj.get("value") or "", obj.get("effect") or ""
    causes = _validate_label_key(key, f"{path}.key") + invalid_causes(
        f"{path}.value", value, is_valid_label_value(value)
    )
    return causes + (
        validate_enum(effect, f"{path}.effect", *EFFECTS) if effect else [required_value(f"{path}.effect")]
    )


def validate_device_toleration(obj: Object, path: str) -> list[Cause]:
    key, value, operator = obj.get("key") or "", obj.get("value") or "", obj.get("operator") or ""
    causes = _validate_label_key(key, f"{path}.key") if key else []
    if operator == "Exists":
        if value:
            causes.append(invalid_value(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        causes += invalid_causes(f"{path}.value", value, is_valid_label_value(value))
    else:
        causes += (
            validate_enum(operator, f"{path}.operator", "Equal", "Exists")
            if operator
            else [required_value(f"{path}.operator")]
        )
    return causes + validate_enum(obj.get("effect") or None, f"{path}.effect", *EFFECTS)
