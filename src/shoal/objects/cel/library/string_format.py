"""`'%s has %d'.format([...])`: the clauses of the strings library in its first version."""

from __future__ import annotations

import json
import math
import re

from shoal.objects.cel.errors import CELError
from shoal.objects.cel.library.conversions import format_double
from shoal.objects.cel.library.times import format_duration, format_timestamp
from shoal.objects.cel.values import Value, kind_of

_replace_clauses = re.compile(r"%(?:%|(?:\.([0-9]++))?(.)?)", re.DOTALL).sub
_DEFAULT_PRECISION = 6
_MAX_PRECISION = 1000
_CLAUSE_KINDS = {
    "d": ("decimal clause can only be used on integers", "int", "uint"),
    "o": ("octal clause can only be used on integers", "int", "uint"),
    "b": ("only integers and bools can be formatted as binary", "int", "uint", "bool"),
    "x": ("only integers, byte buffers, and strings can be formatted as hex", "int", "uint", "bytes", "string"),
    "f": ("fixed-point clause can only be used on doubles", "double"),
    "e": ("scientific clause can only be used on doubles", "double"),
}
_SPECIAL_DOUBLES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def format_string(template: str, values: list[Value]) -> str:
    used = 0

    def clause(found: re.Match[str]) -> str:
        nonlocal used
        if found.group() == "%%":
            return "%"
        if used >= len(values):
            raise CELError(f"index {used} out of range")
        if not found.group(2):
            raise CELError("unexpected end of string")
        used += 1
        return _format_clause(found.group(2), found.group(1), values[used - 1])

    return _replace_clauses(clause, template)


def _format_clause(letter: str, precision: str | None, value: Value) -> str:
    if letter == "s":
        return format_as_string(value)
    rule = _CLAUSE_KINDS.get("x" if letter == "X" else letter)
    if rule is None:
        raise CELError(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')
    message, *kinds = rule
    kind = kind_of(value)
    if letter in "fe" and kind == "string" and value in _SPECIAL_DOUBLES:
        value, kind = _SPECIAL_DOUBLES[value], "double"
    if kind not in kinds:
        raise CELError(f"error during formatting: {message}, was given {kind}")
    if letter in "fe":
        return _format_float_clause(letter, value, precision)
    if kind in ("bytes", "string"):
        text = bytes(value if kind == "bytes" else value.encode()).hex()
        return text.upper() if letter == "X" else text
    return str(int(value)) if letter == "d" else format(int(value), letter)


def _format_float_clause(letter: str, value: float, precision: str | None) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    places = int(precision[:9]) if precision else _DEFAULT_PRECISION
    if places > _MAX_PRECISION:
        raise CELError("error while parsing precision: it is too large")
    if letter == "f":
        return f"{value:,.{places}f}"
    mantissa, _, power = f"{value:.{places}e}".partition("e")
    exponent = int(power)
    raised = "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in f"{abs(exponent):02d}")
    return f"{mantissa}\u202f×\u202f10{'⁻' if exponent < 0 else ''}{raised}"


def format_as_string(value: Value) -> str:
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
        return format_double(value)
    if kind == "google.protobuf.Timestamp":
        return format_timestamp(value)
    if kind == "google.protobuf.Duration":
        return format_duration(value)
    if kind == "type":
        return str(value.name)
    if kind == "list":
        return f"[{', '.join(map(_format_nested, value))}]"
    if kind == "map":
        pairs = sorted((_format_map_key(key), _format_nested(inner)) for key, inner in value.items())
        return f"{{{', '.join(f'{key}:{inner}' for key, inner in pairs)}}}"
    message = (
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and"
    )
    raise CELError(f"error during formatting: {message} timestamps, was given {kind}")


def _format_map_key(key: Value) -> str:
    if kind_of(key) not in ("string", "bool", "int", "uint"):
        raise CELError(f"error during formatting: no formatting function for map key of type {kind_of(key)}")
    return _format_nested(key)


def _format_nested(value: Value) -> str:
    """Formats a value inside a list or map as a literal of the language."""
    kind = kind_of(value)
    if kind == "string":
        return json.dumps(value, ensure_ascii=False)
    if kind == "bytes":
        return f"b{json.dumps(format_as_string(value), ensure_ascii=False)}"
    if kind == "google.protobuf.Timestamp":
        return f'timestamp("{format_timestamp(value)}")'
    if kind == "google.protobuf.Duration":
        return f'duration("{format_duration(value)}")'
    if kind == "double":
        return f"{value:.6f}" if math.isfinite(value) else f'"{format_double(value)}"'
    return format_as_string(value)
