"""Character sets: ranges, Unicode classes by name, and the members of Perl and POSIX classes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import jsonschema_rs

CharRanges = tuple[tuple[int, int], ...]
_MAX_CODE_POINT = 0x10FFFF
_MAX_FOLDED_RANGE = 2000
"""Longer ranges are case-folded in ASCII only: nobody writes a class of letters as such a range."""

_DIGIT: CharRanges = ((48, 57),)
_WORD: CharRanges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: CharRanges = ((9, 10), (12, 13), (32, 32))
PERL: dict[str, CharRanges] = {"d": _DIGIT, "w": _WORD, "s": _SPACE}

_POSIX: dict[str, CharRanges] = {
    "alnum": ((48, 57), (65, 90), (97, 122)), "alpha": ((65, 90), (97, 122)), "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)), "cntrl": ((0, 31), (127, 127)), "digit": _DIGIT, "graph": ((33, 126),),
    "lower": ((97, 122),), "print": ((32, 126),), "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)), "upper": ((65, 90),), "word": _WORD, "xdigit": ((48, 57), (65, 70), (97, 102)),
}  # fmt: skip


def invert_ranges(ranges: CharRanges) -> CharRanges:
    gaps, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            gaps.append((start, low - 1))
        start = max(start, high + 1)
    return (*gaps, (start, _MAX_CODE_POINT)) if start <= _MAX_CODE_POINT else tuple(gaps)


POSIX: dict[str, CharRanges] = {
    **{f"[:{name}:]": ranges for name, ranges in _POSIX.items()},
    **{f"[:^{name}:]": invert_ranges(ranges) for name, ranges in _POSIX.items()},
}


@dataclass(frozen=True, slots=True)
class CharSet:
    """Matches one character of the text. A class whose name starts with `^` is negated."""

    ranges: CharRanges
    classes: tuple[str, ...] = ()
    negated: bool = False

    def without_negation(self) -> CharSet:
        """Returns the same set without its own negation, for use inside brackets."""
        if not self.negated:
            return self
        if self.classes:
            return CharSet((), tuple(f"^{name}" for name in self.classes))
        return CharSet(invert_ranges(self.ranges))

    def to_pattern(self) -> str:
        if not self.ranges and not self.classes:
            return r"[\x{0}-\x{10FFFF}]" if self.negated else r"[^\x{0}-\x{10FFFF}]"
        parts = [f"\\x{{{low:X}}}-\\x{{{high:X}}}" for low, high in _without_surrogates(self.ranges)]
        parts += [f"\\P{{{name[1:]}}}" if name.startswith("^") else f"\\p{{{name}}}" for name in self.classes]
        return f"[{'^' if self.negated else ''}{''.join(parts)}]"

    def contains(self, char: str) -> bool:
        code = ord(char)
        found = any(low <= code <= high for low, high in self.ranges)
        found = found or any(
            _is_class_member(name.removeprefix("^"), char) != name.startswith("^") for name in self.classes
        )
        return found != self.negated


def fold_case(ranges: CharRanges) -> CharRanges:
    """Returns the ranges with the other case of every letter added."""
    result = list(ranges)
    for low, high in ranges:
        for code in range(low, high + 1) if high - low < _MAX_FOLDED_RANGE else range(max(low, 0), min(high, 127) + 1):
            for other in (chr(code).lower(), chr(code).upper()):
                if len(other) == 1 and not low <= ord(other) <= high:
                    result.append((ord(other), ord(other)))
    return tuple(result)


def _without_surrogates(ranges: CharRanges) -> list[tuple[int, int]]:
    """Surrogates are not characters, and the engine rejects them."""
    result = []
    for low, high in ranges:
        for start, end in ((low, min(high, 0xD7FF)), (max(low, 0xE000), high)):
            if start <= end:
                result.append((start, end))
    return result


@lru_cache(maxsize=128)
def _class_validator(name: str) -> jsonschema_rs.Draft202012Validator | None:
    if not name or not name.replace("_", "a").isalnum():
        return None
    try:
        return jsonschema_rs.Draft202012Validator({"pattern": rf"\A\p{{{name}}}\z"})
    except (jsonschema_rs.ValidationError, ValueError):
        return None


def is_unicode_class(name: str) -> bool:
    return name == "Any" or _class_validator(name) is not None


@lru_cache(maxsize=4096)
def _is_class_member(name: str, char: str) -> bool:
    engine = _class_validator(name)
    return engine is not None and engine.is_valid(char)
