"""`'%s has %d'.format([...])`: the clauses of the strings library in its first version."""

from __future__ import annotations

import json
import math
import re

from shoal.objects.cel.errors import CelError
from shoal.objects.cel.library.conversions import show_double
from shoal.objects.cel.library.times import show_duration, show_timestamp
from shoal.objects.cel.values import Value, kind_of

_CLAUSE = re.compile(r"%(?:%|(?:\.([0-9]+))?(.)?)", re.DOTALL)
_PRECISION = 6
_MAX_PRECISION = 1000
_WRITERS = {
    "d": ("decimal clause can only be used on integers", "int", "uint"),
    "o": ("octal clause can only be used on integers", "int", "uint"),
    "b": ("only integers and bools can be formatted as binary", "int", "uint", "bool"),
    "x": ("only integers, byte buffers, and strings can be formatted as hex", "int", "uint", "bytes", "string"),
    "f": ("fixed-point clause can only be used on doubles", "double"),
    "e": ("scientific clause can only be used on doubles", "double"),
}
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def formatted(template: str, values: list[Value]) -> str:
    taken = 0

    def clause(found: re.Match[str]) -> str:
        nonlocal taken
        if found.group() == "%%":
            return "%"
        if taken >= len(values):
            raise CelError(f"index {taken} out of range")
        if not found.group(2):
            raise CelError("unexpected end of string")
        taken += 1
        return _written(found.group(2), found.group(1), values[taken - 1])

    return _CLAUSE.sub(clause, template)


def _written(letter: str, precision: str | None, value: Value) -> str:
    if letter == "s":
        return text_of(value)
    rule = _WRITERS.get("x" if letter == "X" else letter)
    if rule is None:
        raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')
    told, *kinds = rule
    kind = kind_of(value)
    if letter in "fe" and kind == "string" and value in _SPECIAL:
        value, kind = _SPECIAL[value], "double"
    if kind not in kinds:
        raise CelError(f"error during formatting: {told}, was given {kind}")
    if letter in "fe":
        return _decimal(letter, value, precision)
    if kind in ("bytes", "string"):
        text = bytes(value if kind == "bytes" else value.encode()).hex()
        return text.upper() if letter == "X" else text
    return str(int(value)) if letter == "d" else format(int(value), letter)


def _decimal(letter: str, value: float, precision: str | None) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    places = int(precision[:9]) if precision else _PRECISION
    if places > _MAX_PRECISION:
        raise CelError("error while parsing precision: it is too large")
    if letter == "f":
        return f"{value:,.{places}f}"
    mantissa, _, power = f"{value:.{places}e}".partition("e")
    exponent = int(power)
    raised = "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in f"{abs(exponent):02d}")
    return f"{mantissa}\u202f×\u202f10{'⁻' if exponent < 0 else ''}{raised}"


def text_of(value: Value) -> str:
    """Formats a value as %s does."""
    kind = kind_of(value)
    if kind == "string":
        return str(value)
    if kind == "bytes":
        return bytes(value).decode(errors="replace")
    if kind == "bool":
        return "true" if value else "false"
    if kind == "null_type":
        return "null"
    if kind in ("int", "uint"):
        return str(int(value))
    if kind == "double":
        return show_double(value)
    if kind == "google.protobuf.Timestamp":
        return show_timestamp(value)
    if kind == "google.protobuf.Duration":
        return show_duration(value)
    if kind == "type":
        return str(value.name)
    if kind == "list":
        return f"[{', '.join(map(_inner, value))}]"
    if kind == "map":
        pairs = sorted((_key(key), _inner(inner)) for key, inner in value.items())
        return f"{{{', '.join(f'{key}:{inner}' for key, inner in pairs)}}}"
    told = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and"
    raise CelError(f"error during formatting: {told} timestamps, was given {kind}")


def _key(key: Value) -> str:
    if kind_of(key) not in ("string", "bool", "int", "uint"):
        raise CelError(f"error during formatting: no formatting function for map key of type {kind_of(key)}")
    return _inner(key)


def _inner(value: Value) -> str:
    """Formats a value inside a list or map as a literal of the language."""
    kind = kind_of(value)
    if kind == "string":
        return json.dumps(value, ensure_ascii=False)
    if kind == "bytes":
        return f"b{json.dumps(text_of(value), ensure_ascii=False)}"
    if kind == "google.protobuf.Timestamp":
        return f'timestamp("{show_timestamp(value)}")'
    if kind == "google.protobuf.Duration":
        return f'duration("{show_duration(value)}")'
    if kind == "double":
        return f"{value:.6f}" if math.isfinite(value) else f'"{show_double(value)}"'
    return text_of(value)
