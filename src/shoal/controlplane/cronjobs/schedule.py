"""Which times of a schedule were missed, and the zones by name. Pure but for the zones' tables.

Without a zone, times are UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from shoal.kinds.cron import Schedule
from shoal.kinds.cron_times import next_time

MANY_MISSED = 100


class InvalidSchedule(ValueError):
    pass


def zone_of(name: str) -> tzinfo:
    """A ValueError tells that there is none of that name."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError(f"unknown time zone {name}") from None


@dataclass(frozen=True, slots=True)
class Missed:
    latest: float | None
    """The last time it should have fired; None: it has nothing to make up for."""
    any: bool = False
    """More than one, that is: the ordinary case, one time that has just come, is none."""
    many: bool = False


def missed(schedule: Schedule, earliest: float, now: float, zone: tzinfo) -> Missed:
    """Of the times after `earliest` until now."""
    first = next_time(schedule, earliest, zone)
    second = next_time(schedule, first, zone) if first is not None else None
    if first is not None and now < first:
        return Missed(None)
    if second is not None and now < second:
        return Missed(first)
    if first is None or second is None or round(second - first) < 1:
        raise InvalidSchedule("time difference between two schedules is less than 1 second")
    between = round(second - first)
    count = int(now - first) // between + 1
    # One more back than the first two times suggest, for a schedule whose times are not evenly apart.
    latest, moment = None, next_time(schedule, first + (count - 2) * between, zone)
    while moment is not None and moment <= now:
        latest, moment = moment, next_time(schedule, moment, zone)
    return Missed(latest, any=True, many=count > MANY_MISSED)
