"""Named formats: `format.dns1123Label().validate(name)` is none for a valid name, else the errors."""

from __future__ import annotations

from collections.abc import Callable

from shoal.objects.cel.library.urls import parse_url
from shoal.objects.cel.overloads import Overload, fixed_regex_cost, function_overload, method_overload
from shoal.objects.cel.types import STRING, list_of, opaque_type, optional_of
from shoal.objects.cel.values import OPTIONAL_NONE, OpaqueValue, OptionalValue
from shoal.objects.names import (
    is_dns1035_label,
    is_dns1123_label,
    is_dns1123_subdomain,
    is_qualified_name,
    is_valid_label_value,
)
from shoal.objects.schema.formats import FORMATS

FORMAT = opaque_type("kubernetes.NamedFormat")
FormatRule = Callable[[str], list[str]]


def _allow_trailing_dash(rule: FormatRule) -> FormatRule:
    """For a name prefix: a trailing dash is valid, because a suffix is appended."""
    return lambda text: rule(text[:-1] + "a" if len(text) > 1 and text.endswith("-") else text)


def _schema_format(name: str, message: str) -> FormatRule:
    check = FORMATS[name]
    return lambda text: [] if check(text) else [message]


def _uri_errors(text: str) -> list[str]:
    try:
        parse_url(text)
    except ValueError as why:
        return [str(why)]
    return []


_RULES: dict[str, tuple[FormatRule, int]] = {
    "dns1123Label": (is_dns1123_label, 30),
    "dns1123Subdomain": (is_dns1123_subdomain, 60),
    "dns1035Label": (is_dns1035_label, 30),
    "qualifiedName": (is_qualified_name, 60),
    "dns1123LabelPrefix": (_allow_trailing_dash(is_dns1123_label), 30),
    "dns1123SubdomainPrefix": (_allow_trailing_dash(is_dns1123_subdomain), 60),
    "dns1035LabelPrefix": (_allow_trailing_dash(is_dns1035_label), 30),
    "labelValue": (is_valid_label_value, 40),
    "uri": (_uri_errors, 1103),
    "uuid": (_schema_format("uuid", "does not match the UUID format"), 78),
    "byte": (_schema_format("byte", "invalid base64"), 84),
    "date": (_schema_format("date", "invalid date"), 83),
    "datetime": (_schema_format("datetime", "invalid datetime"), 83),
}
"""Rule, and the length of the regex upstream checks it with, which determines the cost."""

_FORMATS = {name: OpaqueValue("kubernetes.NamedFormat", name) for name in _RULES}
_COSTS = {name: fixed_regex_cost(size) for name, (_, size) in _RULES.items()}


def _validate(held: OpaqueValue, text: str) -> OptionalValue:
    errors = _RULES[held.core][0](text)
    return OptionalValue(errors) if errors else OPTIONAL_NONE


def _format_by_name(name: str) -> OptionalValue:
    found = _FORMATS.get(name)
    return OPTIONAL_NONE if found is None else OptionalValue(found)


def _format_constant(name: str) -> Callable[[], OpaqueValue]:
    return lambda: _FORMATS[name]


OVERLOADS: list[Overload] = [
    method_overload(
        "validate",
        (FORMAT, STRING),
        optional_of(list_of(STRING)),
        _validate,
        lambda held, text: _COSTS[held.core](text),
    ),
    function_overload("format.named", (STRING,), optional_of(FORMAT), _format_by_name),
    *(function_overload(f"format.{name}", (), FORMAT, _format_constant(name)) for name in _FORMATS),
]
