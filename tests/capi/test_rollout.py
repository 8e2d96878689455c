"""Rollouts move replicas between MachineSets: tables, and invariants for any behaviour of the MachineSets."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.capi.machinedeployments.rollout import Limits, Set, limits_of, plan, scale_only


def full(name: str, count: int) -> Set:
    return Set(name, count, count, count)


@pytest.mark.parametrize(
    ("limits", "new", "old", "expected"),
    [
        pytest.param(Limits(3, 1, 0), Set("n", 0), [], {"n": 3}, id="the first MachineSet gets all"),
        pytest.param(Limits(3, 1, 0), full("n", 3), [], {}, id="nothing to do"),
        pytest.param(Limits(5, 1, 0), full("n", 3), [], {"n": 5}, id="up"),
        pytest.param(Limits(1, 1, 0), full("n", 3), [], {"n": 1}, id="down"),
        pytest.param(Limits(3, 1, 0), Set("n", 0), [full("o", 3)], {"n": 1}, id="surge first"),
        pytest.param(Limits(3, 1, 0), Set("n", 1, 1, 0), [full("o", 3)], {}, id="wait for the new one"),
        pytest.param(Limits(3, 1, 0), full("n", 1), [full("o", 3)], {"o": 2}, id="then one old one goes"),
        pytest.param(Limits(3, 0, 1), Set("n", 0), [full("o", 3)], {"o": 2}, id="without surge down first"),
        pytest.param(Limits(3, 0, 1), Set("n", 0), [Set("o", 2, 3, 3)], {}, id="a deletion is under way"),
        pytest.param(Limits(6, 3, 1), Set("n", 0), [full("o", 6)], {"n": 3, "o": 5}, id="both at once"),
        pytest.param(
            Limits(3, 1, 0), full("n", 1), [full("a", 2), Set("b", 1, 1, 0)], {"b": 0}, id="broken ones first"
        ),
        pytest.param(Limits(3, 1, 0), full("n", 1), [Set("o", 3, 3, 2)], {"o": 2}, id="a deadlock is broken"),
        pytest.param(
            Limits(3, 0, 0, on_delete=True), Set("n", 0), [full("o", 3)], {}, id="OnDelete: nothing by itself"
        ),
        pytest.param(
            Limits(3, 0, 0, on_delete=True), Set("n", 0), [Set("o", 3, 2, 2)], {"o": 2}, id="OnDelete: one was deleted"
        ),
        pytest.param(
            Limits(3, 0, 0, on_delete=True), Set("n", 0), [full("o", 2)], {"n": 1}, id="OnDelete: so a new one comes"
        ),
        pytest.param(
            Limits(2, 0, 0, on_delete=True), full("n", 1), [full("o", 3)], {"o": 1}, id="OnDelete: scaled down"
        ),
    ],
)
def test_plan(limits: Limits, new: Set, old: list[Set], expected: dict[str, int]) -> None:
    assert plan(limits, new, old) == expected


@pytest.mark.parametrize(
    ("limits", "new", "old", "expected"),
    [
        pytest.param(Limits(5, 1, 0), full("n", 3), [], {"n": 5}, id="the one there is"),
        pytest.param(Limits(5, 1, 0), None, [full("o", 3)], {"o": 5}, id="an old one, where it is alone"),
        pytest.param(Limits(5, 1, 0), Set("n", 0), [Set("o", 0)], {"n": 5}, id="the new one, where none has any"),
        pytest.param(Limits(3, 1, 0), full("n", 2), [full("o", 2)], {}, id="nothing to do"),
        pytest.param(Limits(9, 3, 0), full("n", 2), [full("o", 4)], {"n": 4, "o": 8}, id="in proportion"),
        pytest.param(Limits(4, 1, 0), full("n", 5), [full("o", 5)], {"n": 3, "o": 2}, id="the rest to the newest"),
        pytest.param(Limits(0, 1, 0), full("n", 2), [full("o", 2)], {"n": 0, "o": 0}, id="to nothing"),
        pytest.param(Limits(9, 0, 0, on_delete=True), full("n", 2), [full("o", 2)], {}, id="OnDelete waits"),
    ],
)
def test_a_paused_rollout_scales(limits: Limits, new: Set | None, old: list[Set], expected: dict[str, int]) -> None:
    assert scale_only(limits, new, old) == expected


@pytest.mark.parametrize(
    ("rolling", "expected"),
    [
        ({}, Limits(10, 1, 0)),
        ({"maxSurge": "25%", "maxUnavailable": "25%"}, Limits(10, 3, 2)),
        ({"maxSurge": 0, "maxUnavailable": 0}, Limits(10, 0, 1)),
        ({"maxSurge": "0%", "maxUnavailable": "5%"}, Limits(10, 0, 1)),
        ({"maxSurge": 0, "maxUnavailable": 50}, Limits(10, 0, 10)),
    ],
)
def test_limits(rolling: dict[str, int | str], expected: Limits) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert limits_of({"replicas": 10, "rollout": {"strategy": strategy}}) == expected


def live(each: Set, dice: Random) -> Set:
    """What a MachineSet and its machines may do in a while; deletions hit available Machines."""
    current, available = each.current, each.available
    if current > each.replicas:
        going = dice.randint(0, current - each.replicas)
        current, available = current - going, max(available - going, 0)
    elif current < each.replicas:
        current += dice.randint(0, each.replicas - current)
    if available < current:
        available += dice.randint(0, current - available)
    return replace(each, current=current, available=available)


@given(
    replicas=st.integers(1, 12),
    surge=st.integers(0, 4),
    unavailable=st.integers(0, 4),
    seed=st.integers(0, 10_000),
    olds=st.integers(1, 3),
)
def test_limits_hold_and_the_end_is_reached(replicas: int, surge: int, unavailable: int, seed: int, olds: int) -> None:
    if surge == 0 and unavailable == 0:
        unavailable = 1
    limits, dice = Limits(replicas, surge, min(unavailable, replicas)), Random(seed)
    parts = [replicas // olds + (1 if i < replicas % olds else 0) for i in range(olds)]
    new, old = Set("new", 0), [full(f"old{i}", part) for i, part in enumerate(parts)]
    least = replicas - limits.unavailable
    for _ in range(400):
        intents = plan(limits, new, old)
        new = replace(new, replicas=intents.get(new.name, new.replicas))
        old = [replace(each, replicas=intents.get(each.name, each.replicas)) for each in old]
        assert sum(max(each.replicas, each.current) for each in (new, *old)) <= replicas + limits.surge
        new, old = live(new, dice), [live(each, dice) for each in old]
        assert sum(each.available for each in (new, *old)) >= least
        if new.available == replicas and not any(each.current for each in old):
            return
    raise AssertionError(f"not done: {new} {old}")
