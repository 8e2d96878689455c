"""Division by highest averages, compared with the plain rule of one step per replica."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.placement.division import UNBOUNDED, ShareBounds, divide_replicas

weights = st.one_of(st.integers(0, 5), st.integers(0, 10**6), st.floats(0.001, 1000))


@st.composite
def seats(draw: st.DrawFn, size: int = 8) -> list[ShareBounds]:
    made = []
    for place in range(draw(st.integers(1, size))):
        least = draw(st.one_of(st.just(0), st.integers(0, 9)))
        most = draw(st.one_of(st.just(UNBOUNDED), st.integers(least, 30)))
        made.append(ShareBounds(f"c{place}", draw(weights), least, most))
    return made


def one_by_one(total: int, given: list[ShareBounds]) -> dict[str, int]:
    shares = {seat.name: 0 for seat in given}
    if total >= sum(seat.minimum for seat in given):
        shares = {seat.name: seat.minimum for seat in given}
        bounds = {seat.name: seat.maximum if seat.weight > 0 else seat.minimum for seat in given}
    else:
        bounds = {seat.name: seat.minimum for seat in given}
    while sum(shares.values()) < total:
        free = [seat for seat in given if shares[seat.name] < bounds[seat.name]]
        if not free:
            break
        best = max(free, key=lambda seat: (seat.weight or 1e-9) / (2 * shares[seat.name] + 1))
        shares[best.name] += 1
    return shares


@given(st.integers(0, 300), seats())
def test_it_is_the_rule_of_one_step_for_each(total: int, given: list[ShareBounds]) -> None:
    assert divide_replicas(total, given) == one_by_one(total, given)


@given(st.integers(0, 100_000), seats(size=20))
def test_a_share_never_shrinks_when_the_total_grows(total: int, given: list[ShareBounds]) -> None:
    before, after = divide_replicas(total, given), divide_replicas(total + 1, given)
    assert all(after[name] >= share for name, share in before.items())
    assert sum(after.values()) - sum(before.values()) in (0, 1)


@given(st.integers(0, 100_000), seats(size=20))
def test_bounds_hold_and_nothing_is_lost(total: int, given: list[ShareBounds]) -> None:
    shares = divide_replicas(total, given)
    room = sum(seat.maximum if seat.weight > 0 else seat.minimum for seat in given)
    assert sum(shares.values()) == min(total, room)
    for seat in given:
        assert shares[seat.name] <= seat.maximum
        assert shares[seat.name] >= seat.minimum or total < sum(each.minimum for each in given)


@given(st.integers(0, 200), st.integers(1, 12))
def test_equals_differ_by_one_at_most_the_first_having_more(total: int, count: int) -> None:
    shares = list(divide_replicas(total, [ShareBounds(str(place)) for place in range(count)]).values())
    assert max(shares) - min(shares) <= 1
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize(
    ("total", "given", "found"),
    [
        (10, [ShareBounds("a"), ShareBounds("b")], [5, 5]),
        (10, [ShareBounds("a"), ShareBounds("b"), ShareBounds("c")], [4, 3, 3]),
        (10, [ShareBounds("a", 3), ShareBounds("b", 1)], [8, 2]),
        (10, [ShareBounds("a", 3), ShareBounds("b", 1, minimum=4)], [6, 4]),
        (10, [ShareBounds("a", 3, maximum=2), ShareBounds("b", 1)], [2, 8]),
        (10, [ShareBounds("a", maximum=2), ShareBounds("b", maximum=3)], [2, 3]),
        (3, [ShareBounds("a", minimum=2), ShareBounds("b", minimum=2)], [2, 1]),
        (5, [ShareBounds("a", 0), ShareBounds("b")], [0, 5]),
        (5, [ShareBounds("a", 0, minimum=1), ShareBounds("b", maximum=2)], [1, 2]),
        (0, [ShareBounds("a"), ShareBounds("b")], [0, 0]),
        (7, [], []),
    ],
)
def test_shares(total: int, given: list[ShareBounds], found: list[int]) -> None:
    assert list(divide_replicas(total, given).values()) == found


@given(st.integers(0, 12), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
def test_nothing_moves_without_need(total: int, sizes: list[int], data: st.DataObject) -> None:
    """Of all ways to be fair by the rule, none moves fewer."""
    held = [data.draw(st.integers(0, 6)) for _ in sizes]
    shares = divide_replicas(
        total, [ShareBounds(str(place), size, current=held[place]) for place, size in enumerate(sizes)]
    )

    def moved(found: dict[str, int]) -> int:
        return sum(abs(share - held[int(name)]) for name, share in found.items())

    others = (
        divide_replicas(total, [ShareBounds(str(place), sizes[place]) for place in another])
        for another in itertools.permutations(range(len(sizes)))
    )
    assert moved(shares) == min(moved(other) for other in others)
