"""Resource quantities and semantic versions."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from shoal.objects.cel.errors import CELError
from shoal.objects.cel.overloads import Overload, function_overload, method_overload, traversal_cost
from shoal.objects.cel.types import BOOL, DOUBLE, INT, STRING, opaque_type
from shoal.objects.cel.values import INT_MAX, INT_MIN, OpaqueValue
from shoal.objects.quantity import DECIMAL_EXPONENT, NANO, Quantity

QUANTITY, SEMVER = opaque_type("kubernetes.Quantity"), opaque_type("kubernetes.Semver")
_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII).fullmatch
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+", re.ASCII).fullmatch


def _quantity(text: str) -> OpaqueValue:
    try:
        return _quantity_value(Quantity.parse(text))
    except ValueError as why:
        raise CELError(str(why)) from None


def _quantity_value(amount: Quantity) -> OpaqueValue:
    return OpaqueValue("kubernetes.Quantity", amount)


def _is_quantity(text: str) -> bool:
    try:
        return Quantity.parse(text) is not None
    except ValueError:
        return False


def _is_integer(held: OpaqueValue) -> bool:
    whole, rest = divmod(held.core.nano, NANO)
    return not rest and bool(INT_MIN <= whole <= INT_MAX)


def _as_integer(held: OpaqueValue) -> int:
    if not _is_integer(held):
        raise CELError("cannot convert value to integer")
    return int(held.core.nano // NANO)


def _compare(a: Any, b: Any) -> int:
    return -1 if a < b else int(a > b)


def _comparisons(kind: Any) -> list[Overload]:
    return [
        method_overload("isGreaterThan", (kind, kind), BOOL, lambda a, b: a.core > b.core),
        method_overload("isLessThan", (kind, kind), BOOL, lambda a, b: a.core < b.core),
        method_overload("compareTo", (kind, kind), INT, lambda a, b: _compare(a.core, b.core)),
    ]


class SemverVersion:
    """A semver.org version: compared by its numbers, then by its prerelease. Build metadata is ignored."""

    __slots__ = ("key", "numbers")

    def __init__(self, numbers: tuple[int, ...], prerelease: tuple[str, ...]) -> None:
        self.numbers = numbers
        parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in prerelease)
        self.key = (numbers, not prerelease, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SemverVersion) and self.key == other.key

    def __lt__(self, other: SemverVersion) -> bool:
        return self.key < other.key

    def __gt__(self, other: SemverVersion) -> bool:
        return self.key > other.key

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=512)
def _parse_version(text: str, normalize: bool = False) -> SemverVersion:
    """Raises ValueError for an invalid version."""
    if not text:
        raise ValueError("Version string empty")
    parts = (text.removeprefix("v") if normalize else text).split(".", 2)
    if normalize:
        parts = _normalize_parts(parts)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found")
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease_text = rest.partition("-")
    numbers = []
    for name, part in zip(("Major", "Minor", "Patch"), (parts[0], parts[1], patch), strict=True):
        if not part.isascii() or not part.isdigit():
            raise ValueError(f'Invalid character(s) found in {name.lower()} number "{part}"')
        if not _NUMBER(part):
            raise ValueError(f'{name} number must not contain leading zeroes "{part}"')
        if len(part) > 20 or int(part) >= 1 << 64:
            raise ValueError(f'strconv.ParseUint: parsing "{part}": value out of range')
        numbers.append(int(part))
    prerelease = tuple(prerelease_text.split(".")) if dash else ()
    for part in prerelease:
        if not _IDENTIFIER(part):
            message = f'Invalid character(s) found in prerelease "{part}"' if part else "Prerelease is empty"
            raise ValueError(message)
        if part.isdigit() and not _NUMBER(part):
            raise ValueError(f'Numeric PreRelease version must not contain leading zeroes "{part}"')
    if plus and not all(map(_IDENTIFIER, build.split("."))):
        message = f'Invalid character(s) found in build meta data "{build}"' if build else "Build meta data is empty"
        raise ValueError(message)
    return SemverVersion(tuple(numbers), prerelease)


def _normalize_parts(parts: list[str]) -> list[str]:
    parts = [_strip_leading_zeros(part) for part in parts]
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    return parts + ["0"] * (3 - len(parts))


def _strip_leading_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    kept = part.lstrip("0")
    return kept if kept[:1].isdigit() else f"0{kept}"


def _semver(text: str, normalize: bool = False) -> OpaqueValue:
    try:
        return OpaqueValue("kubernetes.Semver", _parse_version(text, normalize))
    except ValueError as why:
        raise CELError(str(why)) from None


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        return bool(_parse_version(text, normalize))
    except ValueError:
        return False


def _version_number(index: int) -> Callable[[OpaqueValue], int]:
    return lambda held: int(held.core.numbers[index])


OVERLOADS: list[Overload] = [
    function_overload("quantity", (STRING,), QUANTITY, _quantity, traversal_cost),
    function_overload("isQuantity", (STRING,), BOOL, _is_quantity, traversal_cost),
    function_overload("sign", (QUANTITY,), INT, lambda held: _compare(held.core.nano, 0)),
    *_comparisons(QUANTITY),
    method_overload("asApproximateFloat", (QUANTITY,), DOUBLE, lambda held: held.core.nano / NANO),
    method_overload("asInteger", (QUANTITY,), INT, _as_integer),
    method_overload("isInteger", (QUANTITY,), BOOL, _is_integer),
    method_overload("add", (QUANTITY, QUANTITY), QUANTITY, lambda a, b: _quantity_value(a.core + b.core)),
    method_overload(
        "add", (QUANTITY, INT), QUANTITY, lambda a, b: _quantity_value(a.core + Quantity.from_int(b, DECIMAL_EXPONENT))
    ),
    method_overload("sub", (QUANTITY, QUANTITY), QUANTITY, lambda a, b: _quantity_value(a.core - b.core)),
    method_overload(
        "sub", (QUANTITY, INT), QUANTITY, lambda a, b: _quantity_value(a.core - Quantity.from_int(b, DECIMAL_EXPONENT))
    ),
    function_overload("semver", (STRING,), SEMVER, _semver, traversal_cost),
    function_overload("semver", (STRING, BOOL), SEMVER, _semver, traversal_cost),
    function_overload("isSemver", (STRING,), BOOL, _is_semver, traversal_cost),
    function_overload("isSemver", (STRING, BOOL), BOOL, _is_semver, traversal_cost),
    *_comparisons(SEMVER),
    method_overload("major", (SEMVER,), INT, _version_number(0)),
    method_overload("minor", (SEMVER,), INT, _version_number(1)),
    method_overload("patch", (SEMVER,), INT, _version_number(2)),
]
