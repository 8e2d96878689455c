"""Concurrent writes of a priority level: nominal seats, lending and borrowing."""

from __future__ import annotations

from shoal.apiserver.fairness.flows import Level
from shoal.apiserver.fairness.seats import Seats

HIGH = Level("high", shares=60)
LOW = Level("low", shares=40, lendable=50)
STRICT = Level("strict", shares=60, borrowing=50)


def taken(seats: Seats, name: str) -> int:
    count = 0
    while seats.may(("root", name)):
        seats.take(("root", name))
        count += 1
    return count


def seats(*levels: Level, total: int = 100) -> Seats:
    return Seats(total, lambda cluster: levels)


def test_a_level_has_its_share_and_what_others_lend() -> None:
    assert taken(seats(HIGH, LOW), "high") == 80


def test_what_others_do_not_lend_is_kept_for_them() -> None:
    found = seats(HIGH, LOW)
    assert taken(found, "low") == 40
    assert taken(found, "high") == 60
    assert not found.free


def test_a_limit_of_borrowing_holds() -> None:
    assert taken(seats(STRICT, Level("other", shares=40, lendable=100)), "strict") == 90


def test_a_level_without_shares_still_has_one() -> None:
    found = seats(Level("none"), HIGH)
    assert taken(found, "none") == 1


def test_who_is_not_asked_takes_a_seat_too() -> None:
    found = seats(HIGH, total=4)
    assert found.plenty
    found.take(None)
    found.take(None)
    assert not found.plenty
    assert taken(found, "high") == 2
    found.give_back(None)
    assert found.free
    found.give_back(("root", "high"))
    assert found.may(("root", "high"))
