"""Go's time parse errors, and times as Go writes them."""

from __future__ import annotations

import pytest

from shoal.objects.gotime import MICROSECONDS, SECONDS, is_micro_time, normalize_time, parse_error

AS = 'parsing time "{0}" as "2006-01-02T15:04:05Z07:00": cannot parse "{1}" as "{2}"'
AS_MICRO = 'parsing time "{0}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "{1}" as "{2}"'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2024-01-02T03:04:05Z", ""),
        ("2024-01-02T03:04:05.5+01:00", ""),
        ("", AS.format("", "", "2006")),
        ("yesterday", AS.format("yesterday", "yesterday", "2006")),
        ("2024/01", AS.format("2024/01", "/01", "-")),
        ("2024-01-02 03:04:05Z", AS.format("2024-01-02 03:04:05Z", " 03:04:05Z", "T")),
        ("2024-01-02T03:04:05", AS.format("2024-01-02T03:04:05", "", "Z07:00")),
        ("2024-13-02T03:04:05Z", 'parsing time "2024-13-02T03:04:05Z": month out of range'),
        ("2024-02-29T03:04:05Z", ""),
        ("2023-02-29T03:04:05Z", 'parsing time "2023-02-29T03:04:05Z": day out of range'),
        ("2024-01-02T03:04:05+99:00", 'parsing time "2024-01-02T03:04:05+99:00": time zone offset hour out of range'),
        ("9999-12-31T23:04:05-05:00", 'parsing time "9999-12-31T23:04:05-05:00": year out of range'),
        ("2024-01-02T03:04:05Zx", 'parsing time "2024-01-02T03:04:05Zx": extra text: "x"'),
    ],
)
def test_a_time(text: str, said: str) -> None:
    assert parse_error(text, SECONDS) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2024-01-02T03:04:05.000000Z", ""),
        ("2024-01-02T03:04:05Z", AS_MICRO.format("2024-01-02T03:04:05Z", "Z", ".000000")),
        ("2024-01-02T03:04:05.1234567Z", AS_MICRO.format("2024-01-02T03:04:05.1234567Z", "7Z", "Z07:00")),
    ],
)
def test_a_time_with_microseconds(text: str, said: str) -> None:
    assert parse_error(text, MICROSECONDS) == said
    assert is_micro_time(text) is not bool(said)


@pytest.mark.parametrize(
    ("layout", "text", "again"),
    [
        (SECONDS, "2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z"),
        (SECONDS, "2024-01-02T03:04:05.9+01:00", "2024-01-02T02:04:05Z"),
        (MICROSECONDS, "2024-01-02T03:04:05.000009-01:30", "2024-01-02T04:34:05.000009Z"),
        (MICROSECONDS, "2024-01-02T03:04:05+01:00", "2024-01-02T03:04:05+01:00"),
        (SECONDS, "2024-02-31T03:04:05+01:00", "2024-02-31T03:04:05+01:00"),
        (SECONDS, "2024-01-02", "2024-01-02"),
        (SECONDS, "0001-01-01T00:00:00+01:00", "0001-01-01T00:00:00+01:00"),
    ],
)
def test_a_time_is_written_again(layout: str, text: str, again: str) -> None:
    assert normalize_time(text, layout) == again


@pytest.mark.parametrize("text", ["2023-02-29T03:04:05.000000Z", "2024-01-02T03:04:05.000000+99:99"])
def test_microseconds_of_no_day(text: str) -> None:
    assert not is_micro_time(text)
