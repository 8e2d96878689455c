"""Validation shared by the kinds of resource.k8s.io: names, lists, conditions, taints and tolerations. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from typing import Any
from uuid import UUID

import orjson

from shoal.kinds.checks import Object, one_of, said
from shoal.objects.errors import Cause, duplicate, invalid_value, required, too_long, too_many
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_qualified_name, is_valid_label_value

Check = Callable[[Any, str], list[Cause]]

DRIVER_LENGTH, POOL_LENGTH, IDENTIFIER_LENGTH = 63, 253, 32
MOST_BINDING_CONDITIONS = 4
EFFECTS = ("NoExecute", "NoSchedule", "None")
_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_match_identifier = re.compile(_IDENTIFIER).fullmatch
_IDENTIFIER_SAID = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    f"or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '{_IDENTIFIER}')"
)
_NOT_NORMAL = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` "
    "with lowercase hexadecimal characters"
)


def checked(values: Any, most: int, check: Check, path: str) -> list[Cause]:
    """Validates each item of a list. The items of a list that is too long are not validated."""
    values = values or ()
    if len(values) > most:
        return [too_many(path, len(values), most)]
    return [cause for i, value in enumerate(values) for cause in check(value, f"{path}[{i}]")]


def distinct(
    values: Any,
    most: int,
    check: Check,
    path: str,
    key: Callable[[Any], Hashable],
    shown: Callable[[Any], object] = str,
) -> list[Cause]:
    """Validates a list in which no key may repeat. `print_key` converts a key for the message."""
    causes = checked(values, most, check, path)
    seen: set[Hashable] = set()
    for i, value in enumerate(values or () if len(values or ()) <= most else ()):
        if key(value) in seen:
            causes.append(duplicate(f"{path}[{i}]", shown(key(value))))
        seen.add(key(value))
    return causes


def name_of(value: Object) -> str:
    return value.get("name") or ""


def driver_name(name: str, path: str) -> list[Cause]:
    if not name:
        return [required(path)]
    causes = [too_long(path, DRIVER_LENGTH)] if len(name.encode()) > DRIVER_LENGTH else []
    return causes + said(path, name, is_dns1123_subdomain(name.lower()))


def pool_name(name: str, path: str) -> list[Cause]:
    """A pool name is DNS subdomains separated by slashes."""
    if not name:
        return [required(path)]
    causes = [too_long(path, POOL_LENGTH)] if len(name.encode()) > POOL_LENGTH else []
    return causes + [cause for part in name.split("/") for cause in said(path, part, is_dns1123_subdomain(part))]


def label_name(name: str, path: str) -> list[Cause]:
    return said(path, name, is_dns1123_label(name))


def qualified_name(name: str, path: str) -> list[Cause]:
    """Validates the name of an attribute or capacity: `id` or `domain/id`. Upstream accepts names with more slashes."""
    parts = name.split("/")
    if len(parts) == 1:
        return _identifier(name, path)
    if len(parts) > 2:
        return []
    domain, identifier = parts
    causes = driver_name(domain, path) if domain else [invalid_value(path, "", "the domain must not be empty")]
    return causes + (
        _identifier(identifier, path) if identifier else [invalid_value(path, "", "the name must not be empty")]
    )


def fully_qualified_name(name: str, path: str) -> list[Cause]:
    causes = qualified_name(name, path)
    if "/" not in name:
        told = "a fully qualified name must be a domain and a name separated by a slash"
        causes.append(invalid_value(path, name, told))
    return causes


def _identifier(name: str, path: str) -> list[Cause]:
    causes = [too_long(path, IDENTIFIER_LENGTH)] if len(name.encode()) > IDENTIFIER_LENGTH else []
    return causes if _match_identifier(name) else [*causes, invalid_value(path, name, _IDENTIFIER_SAID)]


def unique_id(uid: str, path: str) -> list[Cause]:
    if len(uid) not in (32, 36, 38, 45):
        return [invalid_value(path, uid, f"error validating uid: invalid UUID length: {len(uid)}")]
    try:
        UUID(uid)
    except ValueError:
        return [invalid_value(path, uid, "error validating uid: invalid UUID format")]
    return [] if len(uid) == 36 and uid == uid.lower() else [invalid_value(path, uid, _NOT_NORMAL)]


def raw_object(value: Any, path: str, longest: int) -> list[Cause]:
    """Validates an opaque object that the server does not interpret."""
    if value is None:
        return [required(path)]
    if len(orjson.dumps(value)) > longest:
        return [too_long(path, longest)]
    return [] if isinstance(value, dict) else [invalid_value(path, "<value omitted>", "must be a valid JSON object")]


def condition_types(obj: Object, path: str) -> list[Cause]:
    """Validates `bindingConditions` and `bindingFailureConditions`: both or none are set, and they do not overlap."""
    good, bad = (obj.get(field) or [] for field in ("bindingConditions", "bindingFailureConditions"))
    causes = checked(good, MOST_BINDING_CONDITIONS, _label_key, f"{path}.bindingConditions")
    causes += checked(bad, MOST_BINDING_CONDITIONS, _label_key, f"{path}.bindingFailureConditions")
    causes += [duplicate(f"{path}.bindingConditions[{i}]", one) for i, one in _repeated(good)]
    repeated = dict(_repeated(bad))
    for i, one in enumerate(bad):
        here = f"{path}.bindingFailureConditions[{i}]"
        if i in repeated:
            causes.append(duplicate(here, one))
        if one in good:
            told = "bindingFailureConditions must not overlap with bindingConditions"
            causes.append(invalid_value(here, one, told))
    if bad and not good:
        told = "bindingConditions are required to use bindingFailureConditions"
        causes.append(invalid_value(f"{path}.bindingConditions", obj.get("bindingConditions"), told))
    if good and not bad:
        told = "bindingFailureConditions are required to use bindingConditions"
        causes.append(invalid_value(f"{path}.bindingFailureConditions", obj.get("bindingFailureConditions"), told))
    return causes


def _repeated(values: list[str]) -> Iterable[tuple[int, str]]:
    return ((i, value) for i, value in enumerate(values) if value in values[:i])


def _label_key(name: str, path: str) -> list[Cause]:
    return said(path, name, is_qualified_name(name))


def taint(obj: Object, path: str) -> list[Cause]:
    key, value, effect = obj.get("key") or "", obj.get("value") or "", obj.get("effect") or ""
    causes = _label_key(key, f"{path}.key") + said(f"{path}.value", value, is_valid_label_value(value))
    return causes + (one_of(effect, f"{path}.effect", *EFFECTS) if effect else [required(f"{path}.effect")])


def toleration(obj: Object, path: str) -> list[Cause]:
    key, value, operator = obj.get("key") or "", obj.get("value") or "", obj.get("operator") or ""
    causes = _label_key(key, f"{path}.key") if key else []
    if operator == "Exists":
        if value:
            causes.append(invalid_value(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        causes += said(f"{path}.value", value, is_valid_label_value(value))
    else:
        causes += (
            one_of(operator, f"{path}.operator", "Equal", "Exists") if operator else [required(f"{path}.operator")]
        )
    return causes + one_of(obj.get("effect") or None, f"{path}.effect", *EFFECTS)
