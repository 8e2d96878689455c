"""Parses cron schedules, five fields or `@daily`, as upstream's parser does. Pure; knows no time zones.

parse_schedule("*/15 0-6 * * mon")
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from shoal.objects.duration import parse_duration

_MONTHS: Final = {"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10,
                  "nov": 11, "dec": 12}  # fmt: skip
_DAYS: Final = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """The minutes at which it fires or, for `@every`, the seconds between."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    """0 is Sunday."""
    any_day: bool = False
    """`*` as day of the month: then only the weekday decides."""
    any_weekday: bool = False
    every: float = 0.0


@lru_cache(maxsize=1024)
def parse_schedule(text: str) -> Schedule:
    """Raises ValueError with upstream's message."""
    spec = _strip_zone(text)
    if spec.startswith("@"):
        return _parse_descriptor(spec)
    fields = spec.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minutes, hours, days, months, weekdays = (
        _parse_field(field, low, high, names) for field, (low, high, names) in zip(fields, _FIELDS, strict=True)
    )
    return Schedule(minutes, hours, days, months, weekdays, _is_wildcard(fields[2]), _is_wildcard(fields[4]))


def _strip_zone(text: str) -> str:
    if not text:
        raise ValueError("empty spec string")
    if text.startswith(("TZ=", "CRON_TZ=")):
        return text.partition(" ")[2].strip()
    return text


def _parse_descriptor(spec: str) -> Schedule:
    if spec in _DESCRIPTORS:
        return parse_schedule(_DESCRIPTORS[spec])
    if spec.startswith("@every "):
        text = spec.removeprefix("@every ")
        seconds = parse_duration(text) if text != "0" else None
        if seconds is None:
            raise ValueError(f'failed to parse duration {spec}: time: invalid duration "{text}"')
        # Rounded down to seconds, at least one.
        return Schedule(every=max(1.0, float(int(seconds))))
    raise ValueError(f"unrecognized descriptor: {spec}")


def _is_wildcard(field: str) -> bool:
    return any(part.partition("/")[0] in ("*", "?") for part in field.split(","))


def _parse_field(field: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    numbers: set[int] = set()
    for part in field.split(","):
        if part:
            numbers.update(_parse_range(part, low, high, names))
    return frozenset(numbers)


def _parse_range(part: str, low: int, high: int, names: dict[str, int]) -> range:
    span, *steps = part.split("/")
    first, *rest = span.split("-")
    if first in ("*", "?"):
        start, end = low, high
    else:
        if len(rest) > 1:
            raise ValueError(f"too many hyphens: {part}")
        start = _parse_number(first, names)
        end = _parse_number(rest[0], names) if rest else start
    step = 1
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {part}")
    if steps:
        step = _parse_number(steps[0], {})
        if not rest and first not in ("*", "?"):
            end = high
    if start < low:
        raise ValueError(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise ValueError(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {part}")
    return range(start, end + 1, step)


def _parse_number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if text.isascii() and text.isdecimal():
        return int(text)
    if text[:1] in "+-" and text[1:].isascii() and text[1:].isdecimal():
        if text[0] == "-" and int(text):
            raise ValueError(f"negative number ({int(text)}) not allowed: {text}")
        return int(text)
    raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
