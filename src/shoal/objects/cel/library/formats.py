"""Named formats: `format.dns1123Label().validate(name)` is none for a valid name, else the errors."""

from __future__ import annotations

from collections.abc import Callable

from shoal.objects.cel.library.urls import parsed
from shoal.objects.cel.overloads import Overload, function, method, regex_of
from shoal.objects.cel.types import STRING, list_of, opaque, optional_of
from shoal.objects.cel.values import NONE, Opaque, Optional
from shoal.objects.names import (
    is_dns1035_label,
    is_dns1123_label,
    is_dns1123_subdomain,
    is_qualified_name,
    is_valid_label_value,
)
from shoal.objects.schema.formats import FORMATS

FORMAT = opaque("kubernetes.NamedFormat")
Rule = Callable[[str], list[str]]


def _prefix(rule: Rule) -> Rule:
    """For a name prefix: a trailing dash is valid, because a suffix is appended."""
    return lambda text: rule(text[:-1] + "a" if len(text) > 1 and text.endswith("-") else text)


def _schema_format(name: str, told: str) -> Rule:
    check = FORMATS[name]
    return lambda text: [] if check(text) else [told]


def _uri(text: str) -> list[str]:
    try:
        parsed(text)
    except ValueError as why:
        return [str(why)]
    return []


_RULES: dict[str, tuple[Rule, int]] = {
    "dns1123Label": (is_dns1123_label, 30),
    "dns1123Subdomain": (is_dns1123_subdomain, 60),
    "dns1035Label": (is_dns1035_label, 30),
    "qualifiedName": (is_qualified_name, 60),
    "dns1123LabelPrefix": (_prefix(is_dns1123_label), 30),
    "dns1123SubdomainPrefix": (_prefix(is_dns1123_subdomain), 60),
    "dns1035LabelPrefix": (_prefix(is_dns1035_label), 30),
    "labelValue": (is_valid_label_value, 40),
    "uri": (_uri, 1103),
    "uuid": (_schema_format("uuid", "does not match the UUID format"), 78),
    "byte": (_schema_format("byte", "invalid base64"), 84),
    "date": (_schema_format("date", "invalid date"), 83),
    "datetime": (_schema_format("datetime", "invalid datetime"), 83),
}
"""Rule, and the length of the regex upstream checks it with, which determines the cost."""

_FORMATS = {name: Opaque("kubernetes.NamedFormat", name) for name in _RULES}
_COSTS = {name: regex_of(size) for name, (_, size) in _RULES.items()}


def _validate(held: Opaque, text: str) -> Optional:
    said = _RULES[held.core][0](text)
    return Optional(said) if said else NONE


def _named(name: str) -> Optional:
    found = _FORMATS.get(name)
    return NONE if found is None else Optional(found)


def _constant(name: str) -> Callable[[], Opaque]:
    return lambda: _FORMATS[name]


OVERLOADS: list[Overload] = [
    method(
        "validate",
        (FORMAT, STRING),
        optional_of(list_of(STRING)),
        _validate,
        lambda held, text: _COSTS[held.core](text),
    ),
    function("format.named", (STRING,), optional_of(FORMAT), _named),
    *(function(f"format.{name}", (), FORMAT, _constant(name)) for name in _FORMATS),
]
