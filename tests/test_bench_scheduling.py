"""The benchmark of the scheduler works: with few pods, beside the real one where it is built."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench import peer, plan, report, scheduling

TINY = replace(plan.QUICK, nodes=3, pods=20)


def test_all_pods_get_a_node_and_a_line(tmp_path: Path) -> None:
    said: list[str] = []
    (row,) = scheduling.run(TINY, tmp_path, said.append)
    assert said[0] == "20 pods on 3 nodes: Shoal"
    assert {scheduling.REAL} & set(row.figures) == (
        {scheduling.REAL} if peer.find_programs((scheduling.REAL,)) else set()
    )
    for figures in row.figures.values():
        assert figures["operations"] == 20
        assert figures["rate"] > 0
    line = report.tables([row]).splitlines()[-1]
    assert line.startswith("| 20 pods on 3 nodes |")
    assert "≥ 1,000 /s" in line
