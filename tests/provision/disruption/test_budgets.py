"""Disruption budgets: reasons, percentages, schedules; no decision exceeds them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.provision.disruption.budgets import UNBOUNDED, allowed_disruptions, budget_limit, nodes_consuming_budgets
from shoal.provision.disruption.decide import decide
from shoal.provision.disruption.emptiness import decide_emptiness
from shoal.provision.disruption.model import DisruptionSettings
from shoal.provision.settings import KARPENTER
from tests.provision.catalogue import LARGE, MEDIUM, SMALL, pod, pool
from tests.provision.disruption.fleet import NOW, Fleet, every

MANY: list[dict[str, Any]] = [
    {"nodes": "10"},
    {"nodes": "100"},
    {"nodes": "100%"},
    {"nodes": "15", "reasons": ["Drifted", "Underutilized"]},
    {"nodes": "5", "reasons": ["Drifted"]},
    {"nodes": "0", "schedule": "0 0 1 1 *", "duration": "1m"},
    {"nodes": "4", "reasons": ["Empty"]},
]


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def pool_with(*budgets: dict[str, Any]) -> dict[str, Any]:
    return pool(disruption={"consolidateAfter": "0s", "budgets": list(budgets)}).node_pool


@pytest.mark.parametrize(("reason", "wanted"), [("Empty", 4), ("Drifted", 5), ("Underutilized", 10)])
def test_the_tightest_budget_for_the_reason_holds(reason: str, wanted: int) -> None:
    assert budget_limit(pool_with(*MANY), 100, reason, NOW) == wanted


@pytest.mark.parametrize(
    ("nodes", "total", "wanted"),
    [("10%", 5, 1), ("10%", 10, 1), ("10%", 11, 2), ("0", 9, 0), ("0%", 9, 0), ("3", 9, 3), ("some", 9, 0), ("", 9, 0)],
)
def test_shares_are_rounded_up_and_what_cannot_be_read_allows_nothing(nodes: str, total: int, wanted: int) -> None:
    assert budget_limit(pool_with({"nodes": nodes}), total, "Empty", NOW) == wanted


def test_without_a_word_a_tenth_may_go() -> None:
    spoken = pool().node_pool
    spoken["spec"]["disruption"] = {"consolidateAfter": "0s"}
    assert budget_limit(spoken, 30, "Empty", NOW) == 3
    assert budget_limit(pool_with(), 30, "Empty", NOW) == UNBOUNDED, "no budget at all is no limit"


@pytest.mark.parametrize(
    ("now", "held"),
    [
        ("2026-11-16T08:59:59", False),
        ("2026-11-16T09:00:00", True),
        ("2026-11-16T16:59:59", True),
        ("2026-11-16T17:00:00", False),
        ("2026-11-15T12:00:00", False),
    ],
)
def test_a_budget_holds_from_its_schedule_for_its_duration(now: str, held: bool) -> None:
    office = pool_with({"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"})
    assert budget_limit(office, 10, "Empty", at(now)) == (0 if held else UNBOUNDED)


@pytest.mark.parametrize("schedule", ["", "9 * *", "@sometimes"])
def test_a_schedule_that_cannot_be_read_allows_nothing(schedule: str) -> None:
    assert budget_limit(pool_with({"nodes": "5", "schedule": schedule, "duration": "8h"}), 10, "Empty", NOW) == 0
    assert budget_limit(pool_with({"nodes": "5", "schedule": "@daily"}), 10, "Empty", NOW) == 0


def test_nodes_that_are_going_or_not_ready_were_counted() -> None:
    fleet = Fleet(pool(disruption=every("50%")))
    for number in range(10):
        fleet.add(SMALL, ready=number != 0, going=number == 1, busy=number == 2)
    assert allowed_disruptions(fleet.snapshot(), "Empty") == {"default": 2}
    assert nodes_consuming_budgets(fleet.snapshot()) == {"default": 3}


@pytest.mark.parametrize(("nodes", "left"), [("30%", 7), ("0%", 10), ("100%", 0)])
def test_empty_nodes_go_as_far_as_the_budget_allows(nodes: str, left: int) -> None:
    fleet = Fleet(pool(disruption=every(nodes)))
    for _ in range(10):
        fleet.add(SMALL)
    found = decide_emptiness(fleet.snapshot())
    assert len(found.command.candidates if found.command else ()) == 10 - left
    assert found.budget_limited == (left > 0)


def test_every_pool_has_budgets_of_its_own() -> None:
    fleet = Fleet(*(pool(f"p{number}", disruption=every("50%")) for number in range(10)))
    for each in fleet.pools:
        for _ in range(3):
            fleet.add(SMALL, pool=each.name)
    command = decide_emptiness(fleet.snapshot()).command
    assert command is not None
    by_pool = [each.pool.name for each in command.candidates]
    assert {name: by_pool.count(name) for name in by_pool} == {f"p{number}": 2 for number in range(10)}


@given(
    st.lists(
        st.tuples(st.sampled_from([SMALL, MEDIUM, LARGE]), st.integers(0, 3), st.booleans(), st.booleans()), max_size=12
    ),
    st.sampled_from(["0", "1", "2", "10%", "30%", "100%"]),
    st.sampled_from([["Empty"], ["Drifted"], ["Underutilized"], None]),
)
def test_no_decision_takes_more_than_a_budget_allows(
    nodes: list[tuple[Any, int, bool, bool]], share: str, reasons: list[str] | None
) -> None:
    budget = {"nodes": share, **({"reasons": reasons} if reasons else {})}
    fleet = Fleet(pool(disruption={"consolidateAfter": "0s", "budgets": [budget]}))
    for kind, count, drifted, ready in nodes:
        node = fleet.add(kind, [pod("300m") for _ in range(count)], ready=ready)
        if drifted:
            node.conditions = [*node.conditions, {"type": "Drifted", "status": "True", "lastTransitionTime": "x"}]
    snapshot = fleet.snapshot()
    command = decide(snapshot, DisruptionSettings(planner=KARPENTER)).command
    if command is not None:
        may = allowed_disruptions(snapshot, command.reason)["default"]
        assert 0 < len(command.candidates) <= may
