"""Batch windows: how long pods are waited for, and which NodeClaims wait for more pods."""

from __future__ import annotations

import pytest

from shoal.fit.requirements import Requirements
from shoal.fit.resources import parse_amounts
from shoal.provision.provisioning.batch_window import MIN_REPLAN_SECONDS, ArrivalGaps, BatchWindow, is_full
from shoal.provision.simulation.model import NewNodeClaim

IDLE, LONGEST = 0.05, 1.0


def window_of(*arrivals: float) -> tuple[BatchWindow, ArrivalGaps]:
    window, gaps = BatchWindow(arrivals[0], arrivals[0], {"0"}), ArrivalGaps()
    for number, at in enumerate(arrivals):
        gaps.record(at, LONGEST)
        window.add(str(number), at)
    return window, gaps


@pytest.mark.parametrize(
    ("arrivals", "end"),
    [
        ((0.0,), 0.05),
        ((0.0, 0.01, 0.02), 0.07),
        ((0.0, 0.1), 0.4),
        ((0.0, 0.1, 0.2, 0.3), 0.6),
        ((0.0, 0.3), 1.0),
    ],
    ids=["alone", "at once", "two with a gap", "one by one", "slowly: the maximum"],
)
def test_a_window_waits_for_pods_that_come_one_by_one(arrivals: tuple[float, ...], end: float) -> None:
    window, gaps = window_of(*arrivals)
    assert window.end(IDLE, LONGEST, gaps) == pytest.approx(end)


def test_the_same_pod_does_not_extend_the_window() -> None:
    window, gaps = window_of(0.0, 0.01)
    window.add("1", 0.04)
    assert window.end(IDLE, LONGEST, gaps) == pytest.approx(0.06)


def test_after_a_long_gap_pods_are_not_expected_one_by_one() -> None:
    gaps = ArrivalGaps()
    for at in (0.0, 0.2, 0.4):
        gaps.record(at, LONGEST)
    assert [gaps.expects_more(at) for at in (0.9, 1.1)] == [True, False]
    gaps.record(5.0, LONGEST)
    assert not gaps.expects_more(5.0)


def test_pods_that_are_planned_again_wait_no_longer_than_the_maximum() -> None:
    window, gaps = BatchWindow(2.0, 2.0), ArrivalGaps(2.0, 0.5)
    window.extend_for((1.4, 1.8), 2.0, LONGEST)
    assert window.end(IDLE, LONGEST, gaps) == pytest.approx(2.0 + MIN_REPLAN_SECONDS), "not at once, either"
    window.extend_for((1.9,), 2.0, LONGEST)
    assert window.end(IDLE, LONGEST, gaps) == pytest.approx(2.0 + MIN_REPLAN_SECONDS)


@pytest.mark.parametrize(("cpu", "memory", "full"), [("3600m", "1Gi", True), ("1", "15Gi", True), ("3", "12Gi", False)])
def test_a_node_is_full_by_cpu_or_memory(cpu: str, memory: str, full: bool) -> None:
    requests = parse_amounts({"cpu": cpu, "memory": memory})
    claim = NewNodeClaim("default", "one", ("medium",), Requirements(()), requests, (), 0.08)
    assert is_full(claim, parse_amounts({"cpu": "4", "memory": "16Gi"})) == full
