"""Defaulting and validation helpers of most built-in kinds, in upstream's words. Pure.

A validation function returns the causes it found. `set_defaults` and `ensure_map` change the object they are given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required_value, too_many
from shoal.objects.names import is_dns1123_subdomain, is_qualified_name, is_valid_label_value, validate_labels
from shoal.objects.selectors import MAX_REQUIREMENTS, label_selector_size

Object = dict[str, Any]

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"
PORT_RANGE = "must be between 1 and 65535, inclusive"
_PERCENT_MESSAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_WILDCARD = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_WILDCARD_MESSAGE = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character "
    f"(e.g. '*.example.com', regex used for validation is '{_WILDCARD}')"
)
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_match_percent = re.compile("[0-9]+%").fullmatch
_match_wildcard = re.compile(r"\*(?:\.[a-z0-9]+(?:-+[a-z0-9]+)*)+").fullmatch
_match_path = re.compile(_HTTP_PATH).fullmatch
_match_port_name = re.compile("[-a-z0-9]+").fullmatch
_has_letter = re.compile("[a-z]").search


def repeated_positions(values: Iterable[object]) -> list[int]:
    """Returns where values stand that are equal to one before."""
    seen: set[str] = set()
    positions = []
    for position, value in enumerate(values):
        identity = json.dumps(value, sort_keys=True)
        if identity in seen:
            positions.append(position)
        seen.add(identity)
    return positions


def set_defaults(obj: Object, **defaults: object) -> None:
    """Sets fields that are absent or null."""
    for field, value in defaults.items():
        if obj.get(field) is None:
            obj[field] = value


def ensure_map(obj: Object, field: str) -> Object:
    """Returns a nested object and creates it when absent, like a Go struct that is always present."""
    value = obj.get(field)
    if not isinstance(value, dict):
        value = obj[field] = {}
    return value


def sync_pair(obj: Object, single_field: str, list_field: str) -> None:
    """Keeps a singular field and its later plural equal: the singular one is the first of the list, and wins."""
    single, several = obj.get(single_field), obj.get(list_field)
    if single and (not several or several[0] != single):
        obj[list_field] = [single]
    elif several and not single:
        obj[single_field] = several[0]


def default_status(obj: Object, **zeroes: object) -> None:
    """Sets status fields that Go always writes, even when unset."""
    set_defaults(ensure_map(obj, "status"), **zeroes)


def is_unchanged(obj: Object, old: Object | None, field: str = "spec") -> bool:
    """Reports whether a part is unchanged and needs no second validation. Most writes change only the status."""
    return old is not None and obj.get(field) == old.get(field)


def invalid_causes(path: str, value: object, messages: Iterable[str]) -> list[Cause]:
    return [invalid_value(path, value, complaint) for complaint in messages]


def validate_nonnegative(obj: Mapping[str, Any], path: str, *fields: str) -> list[Cause]:
    return [
        invalid_value(f"{path}.{field}" if path else field, obj[field], NOT_NEGATIVE)
        for field in fields
        if (obj.get(field) or 0) < 0
    ]


def validate_immutable(
    new: Mapping[str, Any], old: Mapping[str, Any], path: str, *fields: str, absent: object = None
) -> list[Cause]:
    """`absent` is how a missing field is printed: a Go string is empty, not null."""
    return [
        invalid_value(f"{path}.{field}" if path else field, new.get(field, absent), IMMUTABLE)
        for field in fields
        if (new.get(field) or None) != (old.get(field) or None)
    ]


def validate_enum(value: object, path: str, *choices: str) -> list[Cause]:
    """None is accepted: required fields are checked elsewhere."""
    return [] if value is None or value in choices else [not_supported(path, value, choices)]


def validate_label_selector(selector: Mapping[str, Any] | None, path: str) -> list[Cause]:
    if not selector:
        return []
    if (size := label_selector_size(selector)) > MAX_REQUIREMENTS:
        return [too_many(path, size, MAX_REQUIREMENTS)]
    causes = validate_labels(selector.get("matchLabels"), f"{path}.matchLabels")
    for i, expression in enumerate(selector.get("matchExpressions") or ()):
        causes += _validate_requirement(expression, f"{path}.matchExpressions[{i}]")
    return causes


def _validate_requirement(expression: Mapping[str, Any], path: str) -> list[Cause]:
    operator, values = expression.get("operator", ""), expression.get("values") or []
    causes: list[Cause] = []
    if operator in ("In", "NotIn"):
        if not values:
            causes.append(required_value(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            causes.append(
                forbidden_field(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            )
    else:
        causes.append(invalid_value(f"{path}.operator", operator, "not a valid selector operator"))
    key = expression.get("key", "")
    causes += invalid_causes(f"{path}.key", key, is_qualified_name(key))
    for i, value in enumerate(values):
        causes += invalid_causes(f"{path}.values[{i}]", value, is_valid_label_value(value))
    return causes


def is_empty_selector(selector: Mapping[str, Any]) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def go_label_selector(selector: Mapping[str, Any] | None) -> Object | None:
    """Returns a label selector as Go prints it: fields in their order, labels sorted, key and operator always
    present.
    """
    if selector is None:
        return None
    printed: Object = {}
    if selector.get("matchLabels"):
        printed["matchLabels"] = dict(sorted(selector["matchLabels"].items()))
    if selector.get("matchExpressions"):
        printed["matchExpressions"] = [
            {"key": each.get("key") or "", "operator": each.get("operator") or ""}
            | ({"values": each["values"]} if each.get("values") else {})
            for each in selector["matchExpressions"]
        ]
    return printed


def validate_immutable_selector(new: Mapping[str, Any], old: Mapping[str, Any], path: str) -> list[Cause]:
    """Compares the selectors of two specs."""
    if (new.get("selector") or None) == (old.get("selector") or None):
        return []
    return [invalid_value(f"{path}.selector", go_label_selector(new.get("selector")), IMMUTABLE)]


def sort_keys(value: Any) -> Any:
    """Sorts keys recursively, as Go writes untyped values."""
    if isinstance(value, dict):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    return [sort_keys(each) for each in value] if isinstance(value, list) else value


def sorted_labels(labels: Mapping[str, str] | None) -> dict[str, str] | None:
    """Returns labels as Go prints a map: sorted by key, and null when empty."""
    return dict(sorted(labels.items())) if labels else None


def parse_percent(value: object) -> int | None:
    """Returns the number of a percentage such as `25%`; None for anything else."""
    return int(value[:-1]) if isinstance(value, str) and _match_percent(value) else None


def int_or_percent_value(value: object) -> int:
    """Returns the number of an int-or-percent, in either form."""
    share = parse_percent(value)
    return share if share is not None else value if isinstance(value, int) else 0


def validate_int_or_percent(value: object, path: str) -> list[Cause]:
    if isinstance(value, str):
        return [] if _match_percent(value) else [invalid_value(path, value, _PERCENT_MESSAGE)]
    return [invalid_value(path, value, NOT_NEGATIVE)] if isinstance(value, int) and value < 0 else []


def validate_at_most_100_percent(value: object, path: str) -> list[Cause]:
    return [invalid_value(path, value, "must not be greater than 100%")] if (parse_percent(value) or 0) > 100 else []


def validate_port_number(value: int, path: str) -> list[Cause]:
    return [] if 1 <= value <= 65535 else [invalid_value(path, value, PORT_RANGE)]


def is_port_name(value: str) -> list[str]:
    messages = []
    if len(value) > 15:
        messages.append("must be no more than 15 characters")
    if not _match_port_name(value):
        messages.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _has_letter(value):
        messages.append("must contain at least one letter (a-z)")
    if "--" in value:
        messages.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        messages.append("must not begin or end with a hyphen")
    return messages


def is_dns1123_or_wildcard_subdomain(value: str) -> list[str]:
    """Accepts a DNS-1123 subdomain whose first label may be `*`."""
    if "*" not in value:
        return is_dns1123_subdomain(value)
    return [] if _match_wildcard(value) else [_WILDCARD_MESSAGE]


def parse_ip(value: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(value)
    except ValueError:
        return None


def parse_cidr(value: str) -> IPv4Network | IPv6Network | None:
    if not value.rpartition("/")[2].isdecimal() or "/" not in value:
        return None
    try:
        return ip_network(value, strict=False)
    except ValueError:
        return None


def validate_cidr(value: str, path: str) -> list[Cause]:
    if parse_cidr(value) is not None:
        return []
    return [invalid_value(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]


def validate_domain_prefixed_path(value: str, path: str) -> list[Cause]:
    """`acme.io/foo`"""
    if not value:
        return [required_value(path)]
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [invalid_value(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    causes = invalid_causes(path, host, is_dns1123_subdomain(host))
    if not _match_path(rest):
        causes.append(invalid_value(path, rest, f"Invalid path (regex used for validation is '{_HTTP_PATH}')"))
    return causes
