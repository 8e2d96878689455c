"""Resource quantities and semantic versions."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from shoal.objects.cel.errors import CelError
from shoal.objects.cel.overloads import Overload, function, method, traversal
from shoal.objects.cel.types import BOOL, DOUBLE, INT, STRING, opaque
from shoal.objects.cel.values import INT_MAX, INT_MIN, Opaque
from shoal.objects.quantity import DECIMAL_EXPONENT, NANO, Quantity

QUANTITY, SEMVER = opaque("kubernetes.Quantity"), opaque("kubernetes.Semver")
_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII).fullmatch
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+", re.ASCII).fullmatch


def _quantity(text: str) -> Opaque:
    try:
        return _held(Quantity.parse(text))
    except ValueError as why:
        raise CelError(str(why)) from None


def _held(amount: Quantity) -> Opaque:
    return Opaque("kubernetes.Quantity", amount)


def _is_quantity(text: str) -> bool:
    try:
        return Quantity.parse(text) is not None
    except ValueError:
        return False


def _is_integer(held: Opaque) -> bool:
    whole, rest = divmod(held.core.nano, NANO)
    return not rest and bool(INT_MIN <= whole <= INT_MAX)


def _as_integer(held: Opaque) -> int:
    if not _is_integer(held):
        raise CelError("cannot convert value to integer")
    return int(held.core.nano // NANO)


def _ordered(a: Any, b: Any) -> int:
    return -1 if a < b else int(a > b)


def _comparisons(kind: Any) -> list[Overload]:
    return [
        method("isGreaterThan", (kind, kind), BOOL, lambda a, b: a.core > b.core),
        method("isLessThan", (kind, kind), BOOL, lambda a, b: a.core < b.core),
        method("compareTo", (kind, kind), INT, lambda a, b: _ordered(a.core, b.core)),
    ]


class Version:
    """A semver.org version: compared by its numbers, then by its prerelease. Build metadata is ignored."""

    __slots__ = ("key", "numbers")

    def __init__(self, numbers: tuple[int, ...], before: tuple[str, ...]) -> None:
        self.numbers = numbers
        parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in before)
        self.key = (numbers, not before, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.key == other.key

    def __lt__(self, other: Version) -> bool:
        return self.key < other.key

    def __gt__(self, other: Version) -> bool:
        return self.key > other.key

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=512)
def _version(text: str, normalize: bool = False) -> Version:
    """Raises ValueError for an invalid version."""
    if not text:
        raise ValueError("Version string empty")
    parts = (text.removeprefix("v") if normalize else text).split(".", 2)
    if normalize:
        parts = _normalized(parts)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found")
    rest, plus, build = parts[2].partition("+")
    patch, dash, before = rest.partition("-")
    numbers = []
    for name, part in zip(("Major", "Minor", "Patch"), (parts[0], parts[1], patch), strict=True):
        if not part.isascii() or not part.isdigit():
            raise ValueError(f'Invalid character(s) found in {name.lower()} number "{part}"')
        if not _NUMBER(part):
            raise ValueError(f'{name} number must not contain leading zeroes "{part}"')
        if len(part) > 20 or int(part) >= 1 << 64:
            raise ValueError(f'strconv.ParseUint: parsing "{part}": value out of range')
        numbers.append(int(part))
    earlier = tuple(before.split(".")) if dash else ()
    for part in earlier:
        if not _IDENTIFIER(part):
            told = f'Invalid character(s) found in prerelease "{part}"' if part else "Prerelease is empty"
            raise ValueError(told)
        if part.isdigit() and not _NUMBER(part):
            raise ValueError(f'Numeric PreRelease version must not contain leading zeroes "{part}"')
    if plus and not all(map(_IDENTIFIER, build.split("."))):
        told = f'Invalid character(s) found in build meta data "{build}"' if build else "Build meta data is empty"
        raise ValueError(told)
    return Version(tuple(numbers), earlier)


def _normalized(parts: list[str]) -> list[str]:
    parts = [_without_zeros(part) for part in parts]
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    return parts + ["0"] * (3 - len(parts))


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    kept = part.lstrip("0")
    return kept if kept[:1].isdigit() else f"0{kept}"


def _semver(text: str, normalize: bool = False) -> Opaque:
    try:
        return Opaque("kubernetes.Semver", _version(text, normalize))
    except ValueError as why:
        raise CelError(str(why)) from None


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        return bool(_version(text, normalize))
    except ValueError:
        return False


def _number(index: int) -> Callable[[Opaque], int]:
    return lambda held: int(held.core.numbers[index])


OVERLOADS: list[Overload] = [
    function("quantity", (STRING,), QUANTITY, _quantity, traversal),
    function("isQuantity", (STRING,), BOOL, _is_quantity, traversal),
    function("sign", (QUANTITY,), INT, lambda held: _ordered(held.core.nano, 0)),
    *_comparisons(QUANTITY),
    method("asApproximateFloat", (QUANTITY,), DOUBLE, lambda held: held.core.nano / NANO),
    method("asInteger", (QUANTITY,), INT, _as_integer),
    method("isInteger", (QUANTITY,), BOOL, _is_integer),
    method("add", (QUANTITY, QUANTITY), QUANTITY, lambda a, b: _held(a.core + b.core)),
    method("add", (QUANTITY, INT), QUANTITY, lambda a, b: _held(a.core + Quantity.of(b, DECIMAL_EXPONENT))),
    method("sub", (QUANTITY, QUANTITY), QUANTITY, lambda a, b: _held(a.core - b.core)),
    method("sub", (QUANTITY, INT), QUANTITY, lambda a, b: _held(a.core - Quantity.of(b, DECIMAL_EXPONENT))),
    function("semver", (STRING,), SEMVER, _semver, traversal),
    function("semver", (STRING, BOOL), SEMVER, _semver, traversal),
    function("isSemver", (STRING,), BOOL, _is_semver, traversal),
    function("isSemver", (STRING, BOOL), BOOL, _is_semver, traversal),
    *_comparisons(SEMVER),
    method("major", (SEMVER,), INT, _number(0)),
    method("minor", (SEMVER,), INT, _number(1)),
    method("patch", (SEMVER,), INT, _number(2)),
]
