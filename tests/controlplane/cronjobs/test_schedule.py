"""Tests of schedule times, in time zones and across changes of the clock."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.controlplane.cronjobs.decide import InvalidSchedule, MissedSchedules, load_zone, most_recent_schedule
from shoal.kinds.batch.cron import parse_schedule
from shoal.kinds.batch.cron_times import next_fire_time

NEW_YORK = ZoneInfo("America/New_York")


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def isoformat(moment: float | None, zone: object = UTC) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, zone).isoformat()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2024-03-01T10:00:00", "2024-03-01T10:01:00+00:00"),
        ("* * * * *", "2024-03-01T10:00:59.9", "2024-03-01T10:01:00+00:00"),
        ("*/15 * * * *", "2024-03-01T23:46:00", "2024-03-02T00:00:00+00:00"),
        ("30 6-16/4 * * 1-5", "2024-03-01T14:30:00", "2024-03-04T06:30:00+00:00"),
        ("0 0 29 2 *", "2024-03-01T00:00:00", "2028-02-29T00:00:00+00:00"),
        ("0 0 31 2 *", "2024-03-01T00:00:00", None),
        ("0 0 13 * 5", "2024-03-02T00:00:00", "2024-03-08T00:00:00+00:00"),
        ("0 0 13 * *", "2024-03-02T00:00:00", "2024-03-13T00:00:00+00:00"),
        ("0 12 * * sun", "2024-03-02T00:00:00", "2024-03-03T12:00:00+00:00"),
        ("59 23 31 12 *", "2024-12-31T23:59:00", "2025-12-31T23:59:00+00:00"),
        ("@hourly", "2024-03-01T10:00:00", "2024-03-01T11:00:00+00:00"),
        ("@every 90s", "2024-03-01T10:00:00.5", "2024-03-01T10:01:30+00:00"),
    ],
)
def test_the_next_time(schedule: str, after: str, expected: str | None) -> None:
    assert isoformat(next_fire_time(parse_schedule(schedule), at(after), UTC)) == expected


def times(schedule: str, after: str, zone: ZoneInfo, number: int) -> list[str | None]:
    found, moment = [], at(after)
    for _ in range(number):
        moment = next_fire_time(parse_schedule(schedule), moment, zone) or 0.0
        found.append(isoformat(moment, zone))
    return found


def test_a_time_that_does_not_exist_is_left_out_and_one_that_comes_twice_fires_twice() -> None:
    assert times("30 2 * * *", "2024-03-09T12:00:00", NEW_YORK, 2) == [
        "2024-03-11T02:30:00-04:00",
        "2024-03-12T02:30:00-04:00",
    ]
    assert times("30 1 * * *", "2024-11-02T12:00:00", NEW_YORK, 3) == [
        "2024-11-03T01:30:00-04:00",
        "2024-11-03T01:30:00-05:00",
        "2024-11-04T01:30:00-05:00",
    ]


def test_a_day_without_midnight_begins_an_hour_later() -> None:
    zone = ZoneInfo("America/Sao_Paulo")
    assert times("0 * 4 11 *", "2018-11-03T12:00:00", zone, 1) == ["2018-11-04T01:00:00-02:00"]


def test_zones_by_name() -> None:
    assert load_zone("") is load_zone("UTC") is UTC
    assert load_zone("Asia/Kathmandu").utcoffset(datetime(2024, 1, 1)) is not None
    for name in ("Mars/Olympus", "../etc/passwd", "America"):
        with pytest.raises(ValueError, match=f"unknown time zone {name}"):
            load_zone(name)


FIELDS = st.sampled_from(["*", "*/7", "5", "3-9", "1,4"])


@given(FIELDS, FIELDS, FIELDS, FIELDS, st.integers(1_704_000_000, 1_710_000_000), st.sampled_from([UTC, NEW_YORK]))
def test_it_is_the_first_minute_that_matches(
    minute: str, hour: str, day: str, weekday: str, after: int, zone: ZoneInfo
) -> None:
    weekday = {"*/7": "*", "3-9": "3-6"}.get(weekday, weekday)
    schedule = parse_schedule(f"{minute} {hour} {day} * {weekday}")
    found = next_fire_time(schedule, after, zone)
    assert found is not None
    assert found % 60 == 0

    def matches(moment: int) -> bool:
        local = datetime.fromtimestamp(moment, zone)
        of_month, of_week = local.day in schedule.days, local.isoweekday() % 7 in schedule.weekdays
        both = schedule.any_day or schedule.any_weekday
        on = (of_month and of_week) if both else (of_month or of_week)
        return on and local.hour in schedule.hours and local.minute in schedule.minutes

    assert matches(int(found))
    first = (after // 60 + 1) * 60
    assert not any(matches(moment) for moment in range(first, min(int(found), first + 86_400), 60))


@pytest.mark.parametrize(
    ("schedule", "since", "now", "expected"),
    [
        ("0 * * * *", "10:10:00", "10:59:59", MissedSchedules(None)),
        ("0 * * * *", "10:10:00", "11:00:00", MissedSchedules(at("2024-03-01T11:00:00"))),
        ("0 * * * *", "10:10:00", "12:00:00", MissedSchedules(at("2024-03-01T12:00:00"), several=True)),
        ("0 * * * *", "10:10:00", "15:30:00", MissedSchedules(at("2024-03-01T15:00:00"), several=True)),
        ("* * * * *", "10:00:00", "11:40:30", MissedSchedules(at("2024-03-01T11:40:00"), several=True)),
        ("* * * * *", "10:00:00", "11:41:30", MissedSchedules(at("2024-03-01T11:41:00"), several=True, too_many=True)),
        # Not evenly apart: the times between the first two are a guess, the answer is not.
        ("30 6-16/4 * * *", "06:00:00", "15:00:00", MissedSchedules(at("2024-03-01T14:30:00"), several=True)),
        ("@every 10m", "10:00:00", "10:35:00", MissedSchedules(at("2024-03-01T10:30:00"), several=True)),
    ],
)
def test_what_was_missed(schedule: str, since: str, now: str, expected: MissedSchedules) -> None:
    assert (
        most_recent_schedule(parse_schedule(schedule), at(f"2024-03-01T{since}"), at(f"2024-03-01T{now}"), UTC)
        == expected
    )


def test_a_schedule_without_times_is_none() -> None:
    with pytest.raises(InvalidSchedule, match="time difference between two schedules is less than 1 second"):
        most_recent_schedule(parse_schedule("0 0 31 2 *"), at("2024-03-01T00:00:00"), at("2024-03-02T00:00:00"), UTC)
