"""Rolling steps towards a target: no replica is lost, availability holds, and the target is reached."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.kinds.apps.deployment import scaled_value
from shoal.placement.cluster_info import CurrentShare
from shoal.placement.interpreter import DIVIDED
from shoal.placement.policy import PlacementPolicy
from shoal.placement.rollout import MoveBudget, move_budget, rolling_step, strategy_of

NAMES = "abcde"


@st.composite
def situations(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, CurrentShare], int]:
    parts = {}
    for name in draw(st.sets(st.sampled_from(NAMES))):
        replicas = draw(st.integers(0, 8))
        parts[name] = CurrentShare(replicas, draw(st.integers(0, replicas)))
    wanted = {name: draw(st.integers(0, 8)) for name in draw(st.sets(st.sampled_from(NAMES)))}
    return wanted, parts, draw(st.integers(0, sum(wanted.values())))


@given(situations())
def test_nothing_is_lost_and_the_floor_stands(given: tuple[dict[str, int], dict[str, CurrentShare], int]) -> None:
    wanted, parts, floor = given
    total, running = sum(wanted.values()), sum(part.available for part in parts.values())
    for surge in (0, 2):
        shares = rolling_step(wanted, parts, MoveBudget(floor, surge))
        assert 0 <= sum(shares.values()) - total <= surge
        left = sum(min(part.available, shares[name]) for name, part in parts.items())
        assert left >= min(total if surge else floor, running), "a replica was given up before its successor ran"
        forced = rolling_step(wanted, parts, MoveBudget(floor, surge), NAMES)
        assert sum(min(part.available, forced[name]) for name, part in parts.items()) >= min(floor, running)


@given(situations())
def test_steps_arrive_by_the_fewest_moves(given: tuple[dict[str, int], dict[str, CurrentShare], int]) -> None:
    """When all that was placed runs before the next look, and one at least may move or be there in addition."""
    wanted, parts, floor = given
    surge = int(floor == sum(wanted.values()))
    moved, fewest = 0, sum(max(part.replicas - wanted.get(name, 0), 0) for name, part in parts.items())
    for _ in range(50):
        shares = rolling_step(wanted, parts, MoveBudget(floor, surge))
        moved += sum(max(part.replicas - shares[name], 0) for name, part in parts.items())
        if all(share == wanted.get(name, 0) for name, share in shares.items()):
            break
        parts = {name: CurrentShare(share, share) for name, share in shares.items()}
    assert {name: share for name, share in shares.items() if share} == {name: n for name, n in wanted.items() if n}
    idle_elsewhere = any(part.available < part.replicas for part in given[1].values())
    assert moved == fewest or idle_elsewhere


@given(situations())
def test_who_is_there_stays(given: tuple[dict[str, int], dict[str, CurrentShare], int]) -> None:
    wanted, _, floor = given
    assert (
        rolling_step(wanted, {name: CurrentShare(size, size) for name, size in wanted.items()}, MoveBudget(floor, 0))
        == wanted
    )


@pytest.mark.parametrize(
    ("wanted", "parts", "floor", "found"),
    [
        ({"a": 5, "b": 5}, {}, 8, {"a": 5, "b": 5}),
        ({"a": 5, "b": 5}, {"a": CurrentShare(10, 10)}, 8, {"a": 8, "b": 2}),
        ({"a": 5, "b": 5}, {"a": CurrentShare(8, 8), "b": CurrentShare(2, 0)}, 8, {"a": 8, "b": 2}),
        ({"a": 5, "b": 5}, {"a": CurrentShare(8, 8), "b": CurrentShare(2, 2)}, 8, {"a": 6, "b": 4}),
        ({"b": 10}, {"a": CurrentShare(5, 0), "b": CurrentShare(5, 5)}, 8, {"b": 10, "a": 0}),
        ({"a": 2, "b": 3}, {"a": CurrentShare(5, 5), "b": CurrentShare(5, 0)}, 4, {"a": 4, "b": 1}),
        ({"a": 5, "b": 5}, {"a": CurrentShare(10, 10)}, 10, {"a": 10, "b": 0}),
    ],
)
def test_steps(wanted: dict[str, int], parts: dict[str, CurrentShare], floor: int, found: dict[str, int]) -> None:
    assert rolling_step(wanted, parts, MoveBudget(floor, 0)) == found


def test_where_nothing_may_be_missing_the_successor_comes_first() -> None:
    parts = {"a": CurrentShare(2, 2)}
    for found in ({"a": 2, "b": 1}, {"a": 1, "b": 1}):
        shares = rolling_step({"a": 1, "b": 1}, parts, MoveBudget(2, 1))
        assert shares == found
        parts = {name: CurrentShare(share, share) for name, share in shares.items()}
    waiting = {"a": CurrentShare(2, 2), "b": CurrentShare(1, 0)}
    assert rolling_step({"a": 1, "b": 1}, waiting, MoveBudget(2, 1)) == {"a": 2, "b": 1}


def test_what_runs_stays_if_no_cluster_can_take_it_unless_it_has_to_leave() -> None:
    parts = {"a": CurrentShare(3, 3), "b": CurrentShare(3, 2)}
    assert rolling_step({}, parts, MoveBudget(5, 2), requested=6) == {"a": 3, "b": 2}
    assert rolling_step({}, parts, MoveBudget(5, 2), forced="a", requested=6) == {"a": 0, "b": 2}


def test_without_a_surge_successors_wait_until_pods_have_terminated() -> None:
    budget = MoveBudget(2, 0)
    first = rolling_step({"b": 3}, {"a": CurrentShare(3, 3, pods=3)}, budget)
    assert first == {"b": 0, "a": 2}
    assert rolling_step({"b": 3}, {"a": CurrentShare(2, 2, pods=3)}, budget) == {"b": 0, "a": 2}
    assert rolling_step({"b": 3}, {"a": CurrentShare(2, 2, pods=2)}, budget) == {"b": 1, "a": 2}
    assert rolling_step({"b": 3}, {"a": CurrentShare(3, 3, pods=3)}, MoveBudget(2, 1)) == {"b": 1, "a": 3}


def test_a_rollout_keeps_its_share_while_a_smaller_one_would_end_what_runs() -> None:
    rolling = CurrentShare(6, 5, is_rolling_out=True)
    wanted, parts = {"a": 4, "b": 4, "c": 4}, {"a": rolling, "b": rolling}
    assert rolling_step(wanted, parts, MoveBudget(9, 3)) == {"a": 5, "b": 6, "c": 4}
    settled = {"a": CurrentShare(6, 5), "b": CurrentShare(6, 5)}
    assert rolling_step(wanted, settled, MoveBudget(9, 3)) == {"a": 5, "b": 5, "c": 4}


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ({"replicas": 8, "updatedReplicas": 3, "availableReplicas": 5}, True),
        ({"replicas": 7, "availableReplicas": 5}, True),
        ({"replicas": 6, "updatedReplicas": 6, "availableReplicas": 5}, False),
        ({}, False),
    ],
)
def test_a_rollout_is_seen_in_the_status(status: dict[str, int], found: bool) -> None:
    leaf = {
        **deployment(),
        "metadata": {"name": "web--a"},
        "spec": {"replicas": 6, "template": {"spec": {"containers": []}}},
        "status": status,
    }
    assert DIVIDED.current_share_of(leaf).is_rolling_out is found
    assert not DIVIDED.current_share_of({**leaf, "kind": "ReplicaSet"}).is_rolling_out


@pytest.mark.parametrize(
    ("wanted", "shares", "budget", "lowest"),
    [
        ({"a": 4, "b": 4, "c": 4}, {"a": 6, "b": 6}, MoveBudget(9, 3), 9),
        ({"c": 12}, {"a": 6, "b": 6}, MoveBudget(9, 3), 9),
        ({"c": 24}, {"a": 12, "b": 12}, MoveBudget(18, 6), 18),
        ({"c": 24}, {"a": 8, "b": 8, "c": 8}, MoveBudget(18, 0, "25%", 0), 18),
        # The rollouts left no more than that, or fewer: one at a time.
        ({"c": 12}, {"a": 4, "b": 4, "c": 4}, MoveBudget(11, 1, 1, 1), 9),
    ],
)
def test_moves_during_a_rollout_that_waits_keep_what_may_not_be_unavailable(
    wanted: dict[str, int], shares: dict[str, int], budget: MoveBudget, lowest: int
) -> None:
    """New pods start in c only, for long. The others keep what their rollout may not end, and lose pods with their
    share.
    """
    available, former = dict(shares), dict(shares)
    for step in range(100):
        is_rolling_out = step < 50
        for name, share in shares.items():
            kept = max(share - scaled_value(budget.max_unavailable, share, round_up=False), 0)
            fewer = _most_pods(former.get(name, 0), budget) - _most_pods(share, budget)
            if name != "c":
                available[name] = max(min(kept, available[name] - fewer), 0) if is_rolling_out else share
        assert sum(available.values()) >= lowest
        parts = {
            name: CurrentShare(
                share, available.get(name, 0), available.get(name, 0), is_rolling_out=is_rolling_out and name != "c"
            )
            for name, share in shares.items()
        }
        available["c"] = shares.get("c", 0)  # Successors run before the next step but one.
        former, shares = shares, rolling_step(wanted, parts, budget)
        if {name: share for name, share in shares.items() if share} == wanted:
            break
    assert {name: share for name, share in shares.items() if share} == wanted


def _most_pods(share: int, budget: MoveBudget) -> int:
    return share + scaled_value(budget.surge, share, round_up=True)


CLAIM = {"persistentVolumeClaim": {"claimName": "data"}}

CAREFUL = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}


def deployment(strategy: object = None, *volumes: object) -> dict[str, object]:
    spec = {"template": {"spec": {"volumes": list(volumes)}}, **({"strategy": strategy} if strategy else {})}
    return {"kind": "Deployment", "spec": spec}


@pytest.mark.parametrize(
    ("root", "policy", "total", "found"),
    [
        (deployment(), PlacementPolicy(), 12, MoveBudget(9, 3)),
        (deployment(CAREFUL), PlacementPolicy(), 12, MoveBudget(12, 1)),
        (deployment(CAREFUL), PlacementPolicy(max_unavailable="50%"), 12,
         MoveBudget(12, 1)),  # the Placement allows no more than the Deployment does
        (deployment(), PlacementPolicy(max_unavailable=1, max_surge=5), 12, MoveBudget(11, 5)),
        (deployment(), PlacementPolicy(max_surge=0), 12, MoveBudget(9, 0)),
        (deployment(), PlacementPolicy(max_surge=0), 2, MoveBudget(2, 1)),
        (deployment({"type": "Recreate"}), PlacementPolicy(), 12, MoveBudget(9, 0)),
        (deployment({"type": "Recreate"}), PlacementPolicy(), 1, MoveBudget(0, 0)),
        (deployment(None, CLAIM), PlacementPolicy(), 4, MoveBudget(3, 0)),
        (deployment(None, {"persistentVolumeClaim": {"claimName": "data", "readOnly": True}}), PlacementPolicy(), 4,
         MoveBudget(3, 1)),
        ({"kind": "Widget", "spec": {"strategy": "fast"}}, PlacementPolicy(), 4, MoveBudget(3, 1)),
    ],
)  # fmt: skip
def test_the_objects_own_strategy_bounds_its_moves(
    root: dict[str, object], policy: PlacementPolicy, total: int, found: MoveBudget
) -> None:
    assert move_budget(total, policy, strategy_of(root)) == found
