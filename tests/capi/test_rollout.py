"""Rollouts move replicas between MachineSets: tables, and invariants for any behaviour of the MachineSets."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.capi.machinedeployments.rollout import (
    MachineSetScale,
    RolloutLimits,
    plan_rollout,
    rollout_limits,
    scale_while_paused,
)


def full(name: str, count: int) -> MachineSetScale:
    return MachineSetScale(name, count, count, count)


@pytest.mark.parametrize(
    ("limits", "new", "old", "expected"),
    [
        pytest.param(RolloutLimits(3, 1, 0), MachineSetScale("n", 0), [], {"n": 3}, id="the first MachineSet gets all"),
        pytest.param(RolloutLimits(3, 1, 0), full("n", 3), [], {}, id="nothing to do"),
        pytest.param(RolloutLimits(5, 1, 0), full("n", 3), [], {"n": 5}, id="up"),
        pytest.param(RolloutLimits(1, 1, 0), full("n", 3), [], {"n": 1}, id="down"),
        pytest.param(RolloutLimits(3, 1, 0), MachineSetScale("n", 0), [full("o", 3)], {"n": 1}, id="surge first"),
        pytest.param(
            RolloutLimits(3, 1, 0), MachineSetScale("n", 1, 1, 0), [full("o", 3)], {}, id="wait for the new one"
        ),
        pytest.param(RolloutLimits(3, 1, 0), full("n", 1), [full("o", 3)], {"o": 2}, id="then one old one goes"),
        pytest.param(
            RolloutLimits(3, 0, 1), MachineSetScale("n", 0), [full("o", 3)], {"o": 2}, id="without surge down first"
        ),
        pytest.param(
            RolloutLimits(3, 0, 1),
            MachineSetScale("n", 0),
            [MachineSetScale("o", 2, 3, 3)],
            {},
            id="a deletion is under way",
        ),
        pytest.param(
            RolloutLimits(6, 3, 1), MachineSetScale("n", 0), [full("o", 6)], {"n": 3, "o": 5}, id="both at once"
        ),
        pytest.param(
            RolloutLimits(3, 1, 0),
            full("n", 1),
            [full("a", 2), MachineSetScale("b", 1, 1, 0)],
            {"b": 0},
            id="broken ones first",
        ),
        pytest.param(
            RolloutLimits(3, 1, 0), full("n", 1), [MachineSetScale("o", 3, 3, 2)], {"o": 2}, id="a deadlock is broken"
        ),
        pytest.param(
            RolloutLimits(3, 0, 0, on_delete=True),
            MachineSetScale("n", 0),
            [full("o", 3)],
            {},
            id="OnDelete: nothing by itself",
        ),
        pytest.param(
            RolloutLimits(3, 0, 0, on_delete=True),
            MachineSetScale("n", 0),
            [MachineSetScale("o", 3, 2, 2)],
            {"o": 2},
            id="OnDelete: one was deleted",
        ),
        pytest.param(
            RolloutLimits(3, 0, 0, on_delete=True),
            MachineSetScale("n", 0),
            [full("o", 2)],
            {"n": 1},
            id="OnDelete: so a new one comes",
        ),
        pytest.param(
            RolloutLimits(2, 0, 0, on_delete=True), full("n", 1), [full("o", 3)], {"o": 1}, id="OnDelete: scaled down"
        ),
    ],
)
def test_plan(
    limits: RolloutLimits, new: MachineSetScale, old: list[MachineSetScale], expected: dict[str, int]
) -> None:
    assert plan_rollout(limits, new, old) == expected


@pytest.mark.parametrize(
    ("limits", "new", "old", "expected"),
    [
        pytest.param(RolloutLimits(5, 1, 0), full("n", 3), [], {"n": 5}, id="the one there is"),
        pytest.param(RolloutLimits(5, 1, 0), None, [full("o", 3)], {"o": 5}, id="an old one, where it is alone"),
        pytest.param(
            RolloutLimits(5, 1, 0),
            MachineSetScale("n", 0),
            [MachineSetScale("o", 0)],
            {"n": 5},
            id="the new one, where none has any",
        ),
        pytest.param(RolloutLimits(3, 1, 0), full("n", 2), [full("o", 2)], {}, id="nothing to do"),
        pytest.param(RolloutLimits(9, 3, 0), full("n", 2), [full("o", 4)], {"n": 4, "o": 8}, id="in proportion"),
        pytest.param(
            RolloutLimits(4, 1, 0), full("n", 5), [full("o", 5)], {"n": 3, "o": 2}, id="the rest to the newest"
        ),
        pytest.param(RolloutLimits(0, 1, 0), full("n", 2), [full("o", 2)], {"n": 0, "o": 0}, id="to nothing"),
        pytest.param(RolloutLimits(9, 0, 0, on_delete=True), full("n", 2), [full("o", 2)], {}, id="OnDelete waits"),
    ],
)
def test_a_paused_rollout_scales(
    limits: RolloutLimits, new: MachineSetScale | None, old: list[MachineSetScale], expected: dict[str, int]
) -> None:
    assert scale_while_paused(limits, new, old) == expected


@pytest.mark.parametrize(
    ("rolling", "expected"),
    [
        ({}, RolloutLimits(10, 1, 0)),
        ({"maxSurge": "25%", "maxUnavailable": "25%"}, RolloutLimits(10, 3, 2)),
        ({"maxSurge": 0, "maxUnavailable": 0}, RolloutLimits(10, 0, 1)),
        ({"maxSurge": "0%", "maxUnavailable": "5%"}, RolloutLimits(10, 0, 1)),
        ({"maxSurge": 0, "maxUnavailable": 50}, RolloutLimits(10, 0, 10)),
    ],
)
def test_limits(rolling: dict[str, int | str], expected: RolloutLimits) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert rollout_limits({"replicas": 10, "rollout": {"strategy": strategy}}) == expected


def live(each: MachineSetScale, dice: Random) -> MachineSetScale:
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
    limits, dice = RolloutLimits(replicas, surge, min(unavailable, replicas)), Random(seed)
    parts = [replicas // olds + (1 if i < replicas % olds else 0) for i in range(olds)]
    new, old = MachineSetScale("new", 0), [full(f"old{i}", part) for i, part in enumerate(parts)]
    least = replicas - limits.max_unavailable
    for _ in range(400):
        intents = plan_rollout(limits, new, old)
        new = replace(new, replicas=intents.get(new.name, new.replicas))
        old = [replace(each, replicas=intents.get(each.name, each.replicas)) for each in old]
        assert sum(max(each.replicas, each.current) for each in (new, *old)) <= replicas + limits.max_surge
        new, old = live(new, dice), [live(each, dice) for each in old]
        assert sum(each.available for each in (new, *old)) >= least
        if new.available == replicas and not any(each.current for each in old):
            return
    raise AssertionError(f"not done: {new} {old}")
