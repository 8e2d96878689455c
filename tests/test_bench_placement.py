"""The benchmark of placement works: with few clusters and Deployments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench import placement, plan, report
from shoal.placement.snapshot import plan_changes as planned

TINY = replace(plan.QUICK, placed=8, placed_clusters=10, divided=100, planned=60)


def test_everything_is_placed_and_every_figure_has_a_line(tmp_path: Path) -> None:
    said: list[str] = []
    rows = placement.run(TINY, tmp_path, said.append)
    assert said[1] == "placement: 8 Deployments over 10 clusters"
    lines = report.tables(rows).splitlines()[2:]
    assert len(lines) == len(rows)
    assert "≥ 500 /s" in lines[2]
    assert "≤ 3 s" in lines[4]


def test_the_snapshot_that_is_planned_for_is_at_rest() -> None:
    fleet = placement.snapshot(60, 10)
    assert len(fleet.objects) == 60
    assert planned(fleet, [], placement.NOW) == []
