"""`int(x)`, `string(x)` and the like, `type(x)`, `dyn(x)`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal

from shoal.objects.cel.errors import CELError
from shoal.objects.cel.library.arithmetic import check_int, check_timestamp, check_uint
from shoal.objects.cel.library.times import format_duration, format_timestamp, parse_duration, parse_timestamp
from shoal.objects.cel.overloads import Overload, conversion_cost, function_overload, traversal_cost
from shoal.objects.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DURATION_NAME,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NAME,
    UINT,
    CELType,
    type_param,
    type_type,
)
from shoal.objects.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, TypeValue, UInt, Value, kind_of

A = type_param("A")
_INTEGER = re.compile(r"[+-]?[0-9]{1,400}", re.ASCII).fullmatch
_UNSIGNED = re.compile(r"[0-9]{1,400}", re.ASCII).fullmatch
_FLOAT = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity)|nan", re.ASCII | re.IGNORECASE
).fullmatch
_TRUE, _FALSE = {"1", "t", "T", "true", "TRUE", "True"}, {"0", "f", "F", "false", "FALSE", "False"}


def _conversion_error(kind: str) -> CELError:
    return CELError(f"type conversion error from 'string' to '{kind}'")


def _identity(value: Value) -> Value:
    return value


def _string_to_int(text: str) -> int:
    if not _INTEGER(text) or not INT_MIN <= (value := int(text)) <= INT_MAX:
        raise _conversion_error("int")
    return value


def _string_to_uint(text: str) -> UInt:
    if not _UNSIGNED(text) or (value := int(text)) > UINT_MAX:
        raise _conversion_error("uint")
    return UInt(value)


def _string_to_double(text: str) -> float:
    if not _FLOAT(text) or math.isinf(value := float(text)) != ("inf" in text.lower()):
        raise _conversion_error("double")
    return value


def _string_to_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _conversion_error("bool")


def _double_to(make: Callable[[int], Value]) -> Callable[[float], Value]:
    def convert(value: float) -> Value:
        if math.isnan(value) or math.isinf(value):
            return make(1 << 70)
        # Upstream excludes the bounds themselves: as doubles they are outside the integer range.
        if make is check_int and not -(2.0**63) < value < 2.0**63:
            return make(1 << 70)
        return make(int(value))

    return convert


def _string_to_duration(text: str) -> Duration:
    duration = parse_duration(text)
    if duration is None:
        raise _conversion_error(DURATION_NAME)
    return duration


def _string_to_timestamp(text: str) -> Value:
    timestamp = parse_timestamp(text)
    if timestamp is None:
        raise _conversion_error(TIMESTAMP_NAME)
    return timestamp


def _bytes_to_string(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CELError("invalid UTF-8 in bytes, cannot convert to string") from None


def format_double(value: float) -> str:
    """Formats as Go's %g: the shortest text that parses back, exponents from 1e+21."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    power = exponent + len(digits) - 1
    prefix = "-" if sign else ""
    if value == 0:
        return f"{prefix}0"
    if power < -4 or power >= 21:
        text = "".join(map(str, digits))
        fraction = f".{text[1:]}" if text[1:] else ""
        return f"{prefix}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"
    return prefix + format(abs(Decimal(repr(value)).normalize()), "f")


TYPE_NAMES: dict[str, CELType] = {
    "int": INT, "uint": UINT, "double": DOUBLE, "bool": BOOL, "string": STRING, "bytes": BYTES,
    "list": CELType("list", (DYN,)), "map": CELType("map", (DYN, DYN)), "null_type": CELType("null_type"),
    "type": CELType("type"), TIMESTAMP_NAME: TIMESTAMP, DURATION_NAME: DURATION,
    "optional_type": CELType("optional_type", (DYN,)),
    "net.IP": CELType("net.IP"), "net.CIDR": CELType("net.CIDR"),
}  # fmt: skip
"""Type names, as `type(x) == int` uses them."""


OVERLOADS: list[Overload] = [
    function_overload("type", (A,), type_type(A), lambda value: TypeValue(kind_of(value))),
    function_overload("dyn", (A,), DYN, _identity),
    *(
        function_overload(name, (kind,), kind, _identity)
        for name, kind in (
            ("bool", BOOL), ("bytes", BYTES), ("double", DOUBLE), ("duration", DURATION), ("int", INT),
            ("string", STRING), ("timestamp", TIMESTAMP), ("uint", UINT),
        )
    ),
    function_overload("bool", (STRING,), BOOL, _string_to_bool, conversion_cost),
    function_overload("bytes", (STRING,), BYTES, lambda text: text.encode(), traversal_cost),
    function_overload("double", (INT,), DOUBLE, float),
    function_overload("double", (STRING,), DOUBLE, _string_to_double, conversion_cost),
    function_overload("double", (UINT,), DOUBLE, float),
    function_overload("duration", (INT,), DURATION, Duration),
    function_overload("duration", (STRING,), DURATION, _string_to_duration, conversion_cost),
    function_overload("int", (DOUBLE,), INT, _double_to(check_int)),
    function_overload("int", (DURATION,), INT, int),
    function_overload("int", (STRING,), INT, _string_to_int, conversion_cost),
    function_overload("int", (TIMESTAMP,), INT, lambda at: int(at) // 10**9),
    function_overload("int", (UINT,), INT, lambda value: check_int(int(value))),
    function_overload("string", (BOOL,), STRING, lambda value: "true" if value else "false"),
    function_overload("string", (BYTES,), STRING, _bytes_to_string, traversal_cost),
    function_overload("string", (DOUBLE,), STRING, format_double),
    function_overload("string", (DURATION,), STRING, format_duration),
    function_overload("string", (INT,), STRING, int.__repr__),
    function_overload("string", (TIMESTAMP,), STRING, format_timestamp),
    function_overload("string", (UINT,), STRING, int.__repr__),
    function_overload("timestamp", (INT,), TIMESTAMP, lambda seconds: check_timestamp(seconds * 10**9)),
    function_overload("timestamp", (STRING,), TIMESTAMP, _string_to_timestamp, conversion_cost),
    function_overload("uint", (DOUBLE,), UINT, _double_to(check_uint)),
    function_overload("uint", (INT,), UINT, check_uint),
    function_overload("uint", (STRING,), UINT, _string_to_uint, conversion_cost),
]  # fmt: skip
