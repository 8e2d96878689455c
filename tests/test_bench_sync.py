"""The benchmark of the syncer works: with few clusters and objects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench import plan, report, sync

TINY = replace(plan.QUICK, sync_clusters=5, sync_objects=4, sync_changes=40, sync_pulled=20, settle=0)


@pytest.mark.soak
def test_all_changes_come_back_and_every_figure_has_a_line(tmp_path: Path) -> None:
    said: list[str] = []
    rows = sync.run(TINY, tmp_path, said.append)
    assert said[0] == "sync: 5 clusters are registered, with 4 objects each"
    lines = report.tables(rows).splitlines()[2:]
    assert len(lines) == len(rows)
    assert "≤ 250 ms" in lines[1]
