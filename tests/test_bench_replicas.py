"""The benchmark of one large Deployment works: with few replicas, beside a whole Kubernetes where it is built."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench import peer, plan, replicas, report
from bench.measure import SHOAL, Row

TINY = replace(plan.QUICK, replicas=6, replica_nodes=2, settle=0)


def test_all_replicas_are_ready_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "find_programs", lambda _: None)
    ready, none = replicas.run(TINY, tmp_path, lambda _: None)
    assert ready.title == "6 replicas on 2 nodes: all Ready"
    assert ready.figures[SHOAL]["writes"] >= 3, "a pod is made, bound and said to be Ready"
    assert none.figures[SHOAL]["writes"] >= 2
    assert report.tables([ready]).splitlines()[-1].split("|")[3].strip() == "", "there is no peer"


def test_a_line_with_a_peer_has_ratios() -> None:
    ours = {"value": 2.0, "cpu_seconds": 1.0, "writes": 3.2}
    theirs = {"value": 10.0, "cpu_seconds": 8.0, "writes": 4.0}
    row = Row("5,000 replicas", "replicas", 15.0, {SHOAL: ours, replicas.KUBERNETES: theirs})
    cells = [cell.strip() for cell in report.tables([row]).splitlines()[-1].split("|")[1:-1]]
    assert cells == ["5,000 replicas", "2", "10", "5x", "1", "8", "8x", "3.2", "4", "≤ 15 s", "met"]


@pytest.mark.real
@pytest.mark.skipif(not peer.find_programs(peer.Kubernetes.PROGRAMS), reason="Kubernetes is not built")
def test_a_whole_kubernetes_is_measured_beside_it(tmp_path: Path) -> None:
    ready, none = replicas.run(TINY, tmp_path, lambda _: None)
    assert ready.figures[replicas.KUBERNETES]["cpu_seconds"] > 0
    assert none.figures[replicas.KUBERNETES]["value"] > 0
