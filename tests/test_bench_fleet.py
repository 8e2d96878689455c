"""The benchmark of the fleet works: with few Workers and ManagedClusters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench import fleet, plan, report

TINY = replace(plan.QUICK, fleet_workers=3, fleet_clusters=30, fleet_applies=10, settle=0)


@pytest.mark.soak
def test_all_are_bound_and_every_figure_has_a_line(tmp_path: Path) -> None:
    said: list[str] = []
    rows = fleet.run(TINY, tmp_path, said.append)
    assert said[0] == "fleet: 3 Workers and 30 ManagedClusters are created"
    assert all(row.figures["Shoal"]["value"] > 0 for row in rows)
    lines = report.tables(rows).splitlines()[2:]
    assert len(lines) == len(rows)
    assert "≥ 2000 /s" in lines[0]
