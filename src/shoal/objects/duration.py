"""Ages as kubectl prints them (at most two units, fewer as they grow), and Go durations. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

UNKNOWN = "<unknown>"


def human_age(timestamp: object, now: float) -> str:
    """Returns the age of an RFC 3339 time."""
    seconds = parse_time(timestamp)
    return UNKNOWN if seconds is None else human_duration(now - seconds)


def parse_time(timestamp: object) -> float | None:
    if not isinstance(timestamp, str) or not timestamp:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def human_duration(seconds: float) -> str:
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    minutes, hours, days, years = total // 60, total // 3600, total // 86400, total // 86400 // 365
    if total < 60 * 2:
        return f"{total}s"
    if minutes < 10:
        return _pair(minutes, "m", total % 60, "s")
    if minutes < 60 * 3:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 24 * 8:
        return _pair(days, "d", hours % 24, "h")
    if hours < 24 * 365 * 2:
        return f"{days}d"
    if hours < 24 * 365 * 8:
        return _pair(years, "y", days % 365, "d")
    return f"{years}y"


def _pair(big: int, unit: str, small: int, subunit: str) -> str:
    return f"{big}{unit}{small}{subunit}" if small else f"{big}{unit}"


UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
"""Seconds per unit of a duration."""
_match_piece = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([nuµ]s|ms?|s|h)", re.ASCII).match


def parse_duration(text: object) -> float | None:
    """Parses a Go duration (1h30m, 500ms, 0) to seconds. Returns None if it is invalid."""
    if not isinstance(text, str) or not text:
        return None
    if text == "0":
        return 0.0
    at, seconds = 0, 0.0
    while at < len(text):
        piece = _match_piece(text, at)
        if piece is None:
            return None
        at, seconds = piece.end(), seconds + float(piece[1]) * UNIT_SECONDS[piece[2]]
    return seconds
