"""When a schedule fires next, in a time zone, and which of its times were missed. Pure but for the zones' tables.

Without a zone, times are UTC. Where clocks are put forward, times that do not exist are left out; where they are put
back, times that come twice fire twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from shoal.kinds.cron import Schedule

LONGEST_YEARS = 5
"""A time further away does not come: the 31st of February."""
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


def next_time(schedule: Schedule, after: float, zone: tzinfo) -> float | None:
    """The first time that is later; None: there is none."""
    if schedule.every:
        return int(after) + schedule.every
    start = int(after) + 1
    day = datetime.fromtimestamp(start, zone).date()
    last_year = day.year + LONGEST_YEARS
    while day.year <= last_year:
        if day.month not in schedule.months:
            day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
            continue
        found = _time_of_day(schedule, day, start, zone) if _is_on(schedule, day) else None
        if found is not None:
            return float(found)
        day += timedelta(days=1)
    return None


def _is_on(schedule: Schedule, day: date) -> bool:
    of_month, of_week = day.day in schedule.days, day.isoweekday() % 7 in schedule.weekdays
    if schedule.any_day or schedule.any_weekday:
        return of_month and of_week
    return of_month or of_week


def _time_of_day(schedule: Schedule, day: date, start: int, zone: tzinfo) -> int | None:
    moment = max(start, int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()))
    while True:
        local = datetime.fromtimestamp(moment, zone)
        if local.date() != day:
            return None
        if local.hour not in schedule.hours:
            moment += 3600 - local.minute * 60 - local.second
        elif local.minute not in schedule.minutes or local.second:
            moment += 60 - local.second
        else:
            return moment


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
