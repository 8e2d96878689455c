"""Parse errors of Go's `time.Parse`, and times as Go writes them. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

SECONDS = "2006-01-02T15:04:05Z07:00"
"""metav1.Time"""
MICROSECONDS = "2006-01-02T15:04:05.000000Z07:00"
"""metav1.MicroTime, with exactly six fractional digits."""

_LENGTHS = {SECONDS: 20, MICROSECONDS: 27}
_DATE = (("2006", 4, 0, 9999), "-", ("01", 2, 1, 12), "-", ("02", 2, 1, 31))
_TIME = ("T", ("15", 2, 0, 23), ":", ("04", 2, 0, 59), ":", ("05", 2, 0, 59))
_PARTS = _DATE + _TIME
_RANGES = {"01": "month", "02": "day", "15": "hour", "04": "minute", "05": "second"}
_match_zone = re.compile(r"Z|[+-](\d\d):\d\d", re.ASCII).match
_match_micro = re.compile(r"[.,]\d{6}", re.ASCII).match
_match_fraction = re.compile(r"[.,]\d+|", re.ASCII).match
_match_micro_time = re.compile(
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d[.,]\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII
).fullmatch


def is_micro_time(text: str) -> bool:
    return _match_micro_time(text) is not None and is_valid_time(text)


def is_valid_time(text: str) -> bool:
    """True if the date exists, in the years 1 to 9999: others cannot be encoded in protobuf."""
    try:
        datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return False
    return True


def normalize_time(text: str, layout: str) -> str:
    """Returns the time as Go writes it: in UTC, with the digits of the layout. An invalid time is returned
    unchanged.
    """
    if len(text) == _LENGTHS[layout] and text[-1] == "Z":
        return text
    if parse_error(text, layout):
        return text
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return text
    digits = "microseconds" if layout == MICROSECONDS else "seconds"
    return f"{moment.replace(tzinfo=None).isoformat(timespec=digits)}Z"


def parse_error(text: str, layout: str) -> str:
    """Empty if the time is valid."""
    rest = text
    for part in _PARTS:
        if isinstance(part, str):
            if not rest.startswith(part):
                return _cannot_parse(text, layout, rest, part)
            rest = rest[1:]
            continue
        name, length, least, most = part
        digits = rest[:length]
        if len(digits) < length or not (digits.isascii() and digits.isdigit()):
            return _cannot_parse(text, layout, rest, name)
        if not least <= int(digits) <= most:
            return f'parsing time "{text}": {_RANGES[name]} out of range'
        rest = rest[length:]
    fraction = _match_micro(rest) if layout == MICROSECONDS else _match_fraction(rest)
    if fraction is None:
        return _cannot_parse(text, layout, rest, ".000000")
    rest = rest[fraction.end() :]
    zone = _match_zone(rest)
    if zone is None:
        return _cannot_parse(text, layout, rest, "Z07:00")
    extra = rest[zone.end() :]
    if extra:
        return f'parsing time "{text}": extra text: "{extra}"'
    return "" if is_valid_time(text) else f'parsing time "{text}": {_out_of_range_part(text, zone)} out of range'


def _out_of_range_part(text: str, zone: re.Match[str]) -> str:
    if zone[1] and zone[1] > "23":
        return "time zone offset hour"
    return "year" if text[:4] in ("0000", "0001", "9999") else "day"


def _cannot_parse(text: str, layout: str, rest: str, part: str) -> str:
    return f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{part}"'
