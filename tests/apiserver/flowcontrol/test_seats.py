"""Concurrent writes of a priority level: nominal seats, lending and borrowing."""

from __future__ import annotations

from shoal.apiserver.flowcontrol.flowschema import PriorityLevel
from shoal.apiserver.flowcontrol.seats import SeatAllocator

HIGH = PriorityLevel("high", shares=60)
LOW = PriorityLevel("low", shares=40, lendable_percent=50)
STRICT = PriorityLevel("strict", shares=60, borrowing_limit_percent=50)


def seats_acquired(seats: SeatAllocator, name: str) -> int:
    count = 0
    while seats.can_acquire(("root", name)):
        seats.acquire(("root", name))
        count += 1
    return count


def seats(*levels: PriorityLevel, total: int = 100) -> SeatAllocator:
    return SeatAllocator(total, lambda cluster: levels)


def test_a_level_has_its_share_and_what_others_lend() -> None:
    assert seats_acquired(seats(HIGH, LOW), "high") == 80


def test_what_others_do_not_lend_is_kept_for_them() -> None:
    found = seats(HIGH, LOW)
    assert seats_acquired(found, "low") == 40
    assert seats_acquired(found, "high") == 60
    assert not found.has_free


def test_a_limit_of_borrowing_holds() -> None:
    assert seats_acquired(seats(STRICT, PriorityLevel("other", shares=40, lendable_percent=100)), "strict") == 90


def test_a_level_without_shares_still_has_one() -> None:
    found = seats(PriorityLevel("none"), HIGH)
    assert seats_acquired(found, "none") == 1


def test_who_is_not_asked_takes_a_seat_too() -> None:
    found = seats(HIGH, total=4)
    assert found.has_slack
    found.acquire(None)
    found.acquire(None)
    assert not found.has_slack
    assert seats_acquired(found, "high") == 2
    found.release(None)
    assert found.has_free
    found.release(("root", "high"))
    assert found.can_acquire(("root", "high"))
