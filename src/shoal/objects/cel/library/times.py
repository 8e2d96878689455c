"""Timestamps and durations: parsing, formatting, and their parts in UTC or a time zone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from shoal.objects.cel.errors import CELError
from shoal.objects.cel.library.arithmetic import check_duration, check_timestamp
from shoal.objects.cel.overloads import Overload, method_overload
from shoal.objects.cel.types import DURATION, INT, STRING, TIMESTAMP
from shoal.objects.cel.values import Duration, Timestamp

_NANOS_PER_SECOND = 10**9
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII
).fullmatch
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII).fullmatch
_match_duration_part = re.compile(r"(\d*)(?:\.(\d*))?([nuµμ]s|ms?|s|h)", re.ASCII).match
_UNITS = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": _NANOS_PER_SECOND, "m": 60 * _NANOS_PER_SECOND,
    "h": 3600 * _NANOS_PER_SECOND,
}  # fmt: skip
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_timestamp(text: str) -> Timestamp | None:
    """Parses RFC 3339. Returns None for anything else. Years outside 1 to 9999 raise."""
    match = _RFC3339(text)
    if not match:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    zone = match.group(8)
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    nanos = int((match.group(7) or "")[:9].ljust(9, "0"))
    offset = 0 if zone == "Z" else int(zone[0] + "1") * (int(zone[1:3]) * 3600 + int(zone[4:6]) * 60)
    return check_timestamp(((at - _EPOCH) // timedelta(seconds=1) - offset) * _NANOS_PER_SECOND + nanos)


def parse_duration(text: str) -> Duration | None:
    """Parses a Go duration (`1h30m`, `1.5s`). Returns None for anything else."""
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if rest == "0":
        return Duration(0)
    total, at = 0, 0
    while at < len(rest):
        piece = _match_duration_part(rest, at)
        if piece is None or not (piece.group(1) or piece.group(2)) or piece.end() - at > 64:
            return None
        unit, fraction = _UNITS[piece.group(3)], (piece.group(2) or "")[:18]
        total += int(piece.group(1) or "0") * unit + int(fraction or "0") * unit // 10 ** len(fraction)
        at = piece.end()
    if not rest or abs(total) > 1 << 63:
        return None
    return check_duration(sign * total)


def format_timestamp(at: Timestamp) -> str:
    seconds, nanos = divmod(int(at), _NANOS_PER_SECOND)
    date = _EPOCH + timedelta(seconds=seconds)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return f"{date.year:04d}{date:-%m-%dT%H:%M:%S}{fraction}Z"


def format_duration(length: Duration) -> str:
    whole, nanos = divmod(abs(int(length)), _NANOS_PER_SECOND)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return f"{'-' if length < 0 else ''}{whole}{fraction}s"


def _parse_zone(name: str) -> tzinfo:
    if not name or name in ("UTC", "Z"):
        return UTC
    if found := _OFFSET(name):
        seconds = int(found.group(2)) * 3600 + int(found.group(3)) * 60
        if seconds >= 86400:
            raise CELError(f"unknown time zone {name}")
        return timezone(timedelta(seconds=-seconds if found.group(1) == "-" else seconds))
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise CELError(f"unknown time zone {name}") from None


def _to_datetime(at: Timestamp, zone: str = "") -> datetime:
    try:
        return (_EPOCH + timedelta(seconds=int(at) // _NANOS_PER_SECOND)).astimezone(_parse_zone(zone))
    except OverflowError:
        raise CELError("timestamp overflow") from None


_TIMESTAMP_PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDate": lambda at: at.day,
    "getDayOfWeek": lambda at: at.isoweekday() % 7,
    "getHours": lambda at: at.hour,
    "getMinutes": lambda at: at.minute,
    "getSeconds": lambda at: at.second,
}


def _part(read: Callable[[datetime], int]) -> Callable[..., int]:
    return lambda at, zone="": read(_to_datetime(at, zone))


def _milliseconds(at: Timestamp, zone: str = "") -> int:
    _parse_zone(zone)
    return int(at) % _NANOS_PER_SECOND // 10**6


def _units(per: int) -> Callable[[Duration], int]:
    def count(length: Duration) -> int:
        whole = abs(int(length)) // per
        return -whole if length < 0 else whole

    return count


OVERLOADS: list[Overload] = [
    *(
        method_overload(name, args, INT, _part(read))
        for name, read in _TIMESTAMP_PARTS.items()
        for args in ((TIMESTAMP,), (TIMESTAMP, STRING))
    ),
    method_overload("getMilliseconds", (TIMESTAMP,), INT, _milliseconds),
    method_overload("getMilliseconds", (TIMESTAMP, STRING), INT, _milliseconds),
    method_overload("getHours", (DURATION,), INT, _units(3600 * _NANOS_PER_SECOND)),
    method_overload("getMinutes", (DURATION,), INT, _units(60 * _NANOS_PER_SECOND)),
    method_overload("getSeconds", (DURATION,), INT, _units(_NANOS_PER_SECOND)),
    method_overload("getMilliseconds", (DURATION,), INT, _units(10**6)),
]
