"""Parsing of cron schedules equals upstream's."""

from __future__ import annotations

import re

import pytest

from shoal.kinds.batch.cron import parse_schedule


def test_fields_are_sets_of_numbers() -> None:
    found = parse_schedule("*/15 0-6/2,23 1 jan-mar SUN")
    assert found.minutes == {0, 15, 30, 45}
    assert found.hours == {0, 2, 4, 6, 23}
    assert found.days == {1}
    assert found.months == {1, 2, 3}
    assert found.weekdays == {0}
    assert (found.any_day, found.any_weekday) == (False, False)
    assert parse_schedule("5/20 * * * *").minutes == {5, 25, 45}
    assert (parse_schedule("0 0 ? * *").any_day, parse_schedule("@weekly").any_day) == (True, True)
    assert parse_schedule("@daily") == parse_schedule("@midnight") == parse_schedule("0 0 * * *")


def test_every_so_often() -> None:
    assert parse_schedule("@every 1h30m").every == 5400
    assert parse_schedule("@every 10ms").every == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
        ("61 * * * *", "end of range (61) above maximum (59): 61"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("@foo", "unrecognized descriptor: @foo"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
        ("", "empty spec string"),
    ],
)
def test_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        parse_schedule(text)
