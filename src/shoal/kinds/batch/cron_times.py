"""Computes the next fire time of a cron schedule in a time zone. Pure.

Times skipped by a forward clock change are left out. Times repeated by a backward clock change fire twice.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, tzinfo

from shoal.kinds.batch.cron import Schedule

MAX_YEARS_AHEAD = 5
"""A schedule without a time within this span never fires: the 31st of February."""


def next_fire_time(schedule: Schedule, after: float, zone: tzinfo) -> float | None:
    """Returns the first fire time after `after`; None: there is none."""
    if schedule.every:
        return int(after) + schedule.every
    start = int(after) + 1
    day = datetime.fromtimestamp(start, zone).date()
    last_year = day.year + MAX_YEARS_AHEAD
    while day.year <= last_year:
        if day.month not in schedule.months:
            day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
            continue
        fire_time = _fire_time_on_day(schedule, day, start, zone) if _is_scheduled_day(schedule, day) else None
        if fire_time is not None:
            return float(fire_time)
        day += timedelta(days=1)
    return None


def _is_scheduled_day(schedule: Schedule, day: date) -> bool:
    of_month, of_week = day.day in schedule.days, day.isoweekday() % 7 in schedule.weekdays
    if schedule.any_day or schedule.any_weekday:
        return of_month and of_week
    return of_month or of_week


def _fire_time_on_day(schedule: Schedule, day: date, start: int, zone: tzinfo) -> int | None:
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
