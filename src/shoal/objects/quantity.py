"""Resource quantities: `100m`, `1.5Gi`, `2e3`, computed exactly and written as Kubernetes writes them.

The amount is stored as an integer of nano-units, the smallest step of a quantity. Finer amounts round away from zero.
The suffix family (`1000M`, `1000Mi`, `1e9`) is kept for the canonical text.
"""

from __future__ import annotations

import re
from functools import lru_cache, total_ordering
from typing import Final

NANO: Final = 10**9
_MAX_BINARY: Final = (2**63 - 1) * NANO
_MAX_TEXT: Final = 256
_MAX_EXPONENT: Final = 512

_NOT_A_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_BAD_NUMBER = "unable to parse numeric part of quantity"
_BAD_SUFFIX = "unable to parse quantity's suffix"

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = ("", *_BINARY)

_match_quantity = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII).fullmatch
_match_exponent = re.compile(r"[eE]([-+]?[0-9]{1,9})", re.ASCII).fullmatch

DECIMAL_SI = "DecimalSI"
BINARY_SI = "BinarySI"
DECIMAL_EXPONENT = "DecimalExponent"


@total_ordering
class Quantity:
    """Immutable. Equal, ordered and hashed by amount: `Quantity.parse("1") == Quantity.parse("1000m")`."""

    __slots__ = ("_text", "format", "nano")

    nano: int
    format: str
    _text: str

    def __init__(self, nano: int, format_: str = DECIMAL_SI, *, text: str = "") -> None:
        put = object.__setattr__
        put(self, "nano", nano)
        put(self, "format", format_)
        put(self, "_text", text)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Quantity is immutable")

    @staticmethod
    def parse(value: str | int | float) -> Quantity:
        """Raises ValueError with upstream's message. JSON numbers are quantities too."""
        if isinstance(value, str):
            return _parse(value)
        if isinstance(value, bool):
            raise ValueError(_NOT_A_QUANTITY)
        return Quantity(value * NANO) if isinstance(value, int) else _parse(repr(value))

    @staticmethod
    def from_int(whole: int, format_: str = DECIMAL_SI) -> Quantity:
        return Quantity(whole * NANO, format_)

    def value(self) -> int:
        """Returns whole units, rounded away from zero."""
        return _divide_away_from_zero(self.nano, NANO)

    def milli_value(self) -> int:
        """Returns thousandths, rounded away from zero."""
        return _divide_away_from_zero(self.nano, 10**6)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    def __mul__(self, times: int) -> Quantity:
        return Quantity(self.nano * times, self.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __str__(self) -> str:
        if not self._text:
            object.__setattr__(self, "_text", _format_canonical(self.nano, self.format))
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"


ZERO = Quantity(0, text="0")


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    match = _match_quantity(text) if len(text) <= _MAX_TEXT else None
    if not match:
        raise ValueError(_NOT_A_QUANTITY)
    sign, whole, fraction, suffix = match.group(1), match.group(2), match.group(3), match.group(4)
    digits = whole + (fraction or "")
    if not digits:
        raise ValueError(_NOT_A_QUANTITY if fraction is None else _BAD_NUMBER)
    places = len(fraction or "")
    number = int(digits)
    if suffix in _BINARY:
        format_, power, scale = BINARY_SI, _BINARY[suffix], 0
        nano = min(_divide_away_from_zero((number << power) * NANO, 10**places), _MAX_BINARY)
        if 0 < nano < NANO:
            format_ = DECIMAL_SI
    else:
        format_, power = _decimal_exponent(suffix)
        scale = power - places
        nano = number * 10 ** (9 + scale) if scale >= -9 else _divide_away_from_zero(number, 10 ** (-scale - 9))
    is_canonical = _is_canonical(number, whole.lstrip("0") or "0", fraction or "", format_, power, scale)
    return Quantity(-nano if sign == "-" else nano, format_, text=text if is_canonical else "")


def _decimal_exponent(suffix: str) -> tuple[str, int]:
    power = _DECIMAL.get(suffix)
    if power is not None:
        return DECIMAL_SI, power
    match = _match_exponent(suffix)
    if not match or int(match.group(1)) > _MAX_EXPONENT:
        raise ValueError(_BAD_SUFFIX)
    # Far below a nano-unit every amount rounds to one nano-unit, so the exact power does not matter.
    return DECIMAL_EXPONENT, max(int(match.group(1)), -_MAX_EXPONENT)


def _is_canonical(number: int, whole: str, fraction: str, format_: str, power: int, scale: int) -> bool:
    """True if upstream would repeat the text as given instead of formatting it again."""
    if format_ == BINARY_SI:
        return not fraction and 15 - len(whole) - int(power * 3 / 10) - 1 >= 0 and number & 7 != 0
    digits = whole + fraction
    return len(digits) <= 18 and scale >= -9 and scale % 3 == 0 and digits[0] != "0" and not digits.endswith("000")


def _format_canonical(nano: int, format_: str) -> str:
    if not nano:
        return "0"
    if format_ == BINARY_SI and abs(nano) >= 1024 * NANO and nano % NANO == 0:
        whole, thousands = nano // NANO, 0
        while thousands < 6 and whole % 1024 == 0:
            whole, thousands = whole // 1024, thousands + 1
        return f"{whole}{_BINARY_SUFFIX[thousands]}"
    mantissa, exponent = nano, -9
    limit = _MAX_EXPONENT * 2 if format_ == DECIMAL_EXPONENT else 18
    while exponent < limit and mantissa % 1000 == 0:
        mantissa, exponent = mantissa // 1000, exponent + 3
    if format_ == DECIMAL_EXPONENT:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIX[exponent]}"


def _divide_away_from_zero(number: int, by: int) -> int:
    return -(-number // by) if number >= 0 else number // by
