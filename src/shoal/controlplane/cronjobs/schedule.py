"""Missed times of a schedule, and time zones by name. Pure but for the time zone database.

Times without a zone are UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from shoal.kinds.batch.cron import Schedule
from shoal.kinds.batch.cron_times import next_fire_time

TOO_MANY_MISSED = 100


class InvalidSchedule(ValueError):
    pass


def load_zone(name: str) -> tzinfo:
    """Raises ValueError for an unknown zone."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError(f"unknown time zone {name}") from None


@dataclass(frozen=True, slots=True)
class MissedSchedules:
    latest: float | None
    """The most recent time it should have fired; None if nothing was missed."""
    several: bool = False
    """More than one time was missed. One time that has just come is the ordinary case and does not count."""
    too_many: bool = False


def most_recent_schedule(schedule: Schedule, earliest: float, now: float, zone: tzinfo) -> MissedSchedules:
    """Returns the missed times after `earliest` until `now`."""
    first = next_fire_time(schedule, earliest, zone)
    second = next_fire_time(schedule, first, zone) if first is not None else None
    if first is not None and now < first:
        return MissedSchedules(None)
    if second is not None and now < second:
        return MissedSchedules(first)
    if first is None or second is None or round(second - first) < 1:
        raise InvalidSchedule("time difference between two schedules is less than 1 second")
    between = round(second - first)
    count = int(now - first) // between + 1
    # Starts one interval earlier than the first two times suggest: times may not be evenly spaced.
    latest, moment = None, next_fire_time(schedule, first + (count - 2) * between, zone)
    while moment is not None and moment <= now:
        latest, moment = moment, next_fire_time(schedule, moment, zone)
    return MissedSchedules(latest, several=True, too_many=count > TOO_MANY_MISSED)
