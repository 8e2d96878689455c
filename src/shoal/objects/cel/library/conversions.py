"""`int(x)`, `string(x)` and the like, `type(x)`, `dyn(x)`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal

from shoal.objects.cel.errors import CelError
from shoal.objects.cel.library.arithmetic import moment, unsigned, whole
from shoal.objects.cel.library.times import read_duration, read_timestamp, show_duration, show_timestamp
from shoal.objects.cel.overloads import Overload, function, traversal
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
    Type,
    param,
    type_of,
)
from shoal.objects.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, TypeValue, UInt, Value, kind_of

A = param("A")
_INTEGER = re.compile(r"[+-]?[0-9]{1,400}", re.ASCII).fullmatch
_UNSIGNED = re.compile(r"[0-9]{1,400}", re.ASCII).fullmatch
_FLOAT = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity)|nan", re.ASCII | re.IGNORECASE
).fullmatch
_TRUE, _FALSE = {"1", "t", "T", "true", "TRUE", "True"}, {"0", "f", "F", "false", "FALSE", "False"}


def _bad(kind: str) -> CelError:
    return CelError(f"type conversion error from 'string' to '{kind}'")


def _same(value: Value) -> Value:
    return value


def _text_to_int(text: str) -> int:
    if not _INTEGER(text) or not INT_MIN <= (value := int(text)) <= INT_MAX:
        raise _bad("int")
    return value


def _text_to_uint(text: str) -> UInt:
    if not _UNSIGNED(text) or (value := int(text)) > UINT_MAX:
        raise _bad("uint")
    return UInt(value)


def _text_to_double(text: str) -> float:
    if not _FLOAT(text) or math.isinf(value := float(text)) != ("inf" in text.lower()):
        raise _bad("double")
    return value


def _text_to_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _bad("bool")


def _double_to(make: Callable[[int], Value]) -> Callable[[float], Value]:
    def convert(value: float) -> Value:
        if math.isnan(value) or math.isinf(value):
            return make(1 << 70)
        # Upstream excludes the bounds themselves: as doubles they are outside the integer range.
        if make is whole and not -(2.0**63) < value < 2.0**63:
            return make(1 << 70)
        return make(int(value))

    return convert


def _text_to_duration(text: str) -> Duration:
    found = read_duration(text)
    if found is None:
        raise _bad(DURATION_NAME)
    return found


def _text_to_timestamp(text: str) -> Value:
    found = read_timestamp(text)
    if found is None:
        raise _bad(TIMESTAMP_NAME)
    return found


def _bytes_to_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def show_double(value: float) -> str:
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


TYPE_NAMES: dict[str, Type] = {
    "int": INT, "uint": UINT, "double": DOUBLE, "bool": BOOL, "string": STRING, "bytes": BYTES,
    "list": Type("list", (DYN,)), "map": Type("map", (DYN, DYN)), "null_type": Type("null_type"),
    "type": Type("type"), TIMESTAMP_NAME: TIMESTAMP, DURATION_NAME: DURATION,
    "optional_type": Type("optional_type", (DYN,)),
    "net.IP": Type("net.IP"), "net.CIDR": Type("net.CIDR"),
}  # fmt: skip
"""Type names, as `type(x) == int` uses them."""


OVERLOADS: list[Overload] = [
    function("type", (A,), type_of(A), lambda value: TypeValue(kind_of(value))),
    function("dyn", (A,), DYN, _same),
    *(
        function(name, (kind,), kind, _same)
        for name, kind in (
            ("bool", BOOL), ("bytes", BYTES), ("double", DOUBLE), ("duration", DURATION), ("int", INT),
            ("string", STRING), ("timestamp", TIMESTAMP), ("uint", UINT),
        )
    ),
    function("bool", (STRING,), BOOL, _text_to_bool),
    function("bytes", (STRING,), BYTES, lambda text: text.encode(), traversal),
    function("double", (INT,), DOUBLE, float),
    function("double", (STRING,), DOUBLE, _text_to_double),
    function("double", (UINT,), DOUBLE, float),
    function("duration", (INT,), DURATION, Duration),
    function("duration", (STRING,), DURATION, _text_to_duration),
    function("int", (DOUBLE,), INT, _double_to(whole)),
    function("int", (DURATION,), INT, int),
    function("int", (STRING,), INT, _text_to_int),
    function("int", (TIMESTAMP,), INT, lambda at: int(at) // 10**9),
    function("int", (UINT,), INT, lambda value: whole(int(value))),
    function("string", (BOOL,), STRING, lambda value: "true" if value else "false"),
    function("string", (BYTES,), STRING, _bytes_to_text, traversal),
    function("string", (DOUBLE,), STRING, show_double),
    function("string", (DURATION,), STRING, show_duration),
    function("string", (INT,), STRING, int.__repr__),
    function("string", (TIMESTAMP,), STRING, show_timestamp),
    function("string", (UINT,), STRING, int.__repr__),
    function("timestamp", (INT,), TIMESTAMP, lambda seconds: moment(seconds * 10**9)),
    function("timestamp", (STRING,), TIMESTAMP, _text_to_timestamp),
    function("uint", (DOUBLE,), UINT, _double_to(unsigned)),
    function("uint", (INT,), UINT, unsigned),
    function("uint", (STRING,), UINT, _text_to_uint),
]  # fmt: skip
