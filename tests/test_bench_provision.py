"""The benchmark of provisioning works: with few pods, and its judge is right where the answer is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench import plan, provision, report
from bench.provision_judge import judge, patterns
from bench.provision_loads import MIXES, diverse
from bench.provision_story import ALIKE, MIXED, counts
from bench.provision_watch import BudgetWatcher
from shoal.provision.simulator.catalogues import CATALOGUES

TINY = replace(
    plan.QUICK,
    provisioned=(12,),
    catalogues=("kwok<32",),
    bound_seconds=0.5,
    mip_seconds=0.2,
    scheduled=(20,),
    scheduled_types=5,
)


def test_every_plan_is_judged_and_every_figure_has_a_line(tmp_path: Path) -> None:
    said: list[str] = []
    rows = provision.run(TINY, tmp_path, said.append)
    assert said[0] == "provision: 12 pods, generic, kwok<32"
    cells = [row.figures["Shoal"] for row in rows if row.kind == "provision"]
    assert len(cells) == len(MIXES)
    for each in cells:
        assert 1.0 <= each["value"] <= each["rule"] + 1e-9
        assert each["integer"] >= 1.0
    text = report.tables(rows)
    assert "12 pods, wide, kwok<32" in text
    assert "≤ 1.03 x" in text
    assert "≤ 1 x" in text


def test_the_judge() -> None:
    """Four pods of 0.6 cpu, on nodes of 0.9 for 1 or of 1.9 for 2: three of them on a large one, and a small one."""
    shapes = [("600m", "100Mi")] * 4
    types = [each for each in CATALOGUES["kwok36"]() if each.name in ("c-1x-amd64-linux", "c-2x-amd64-linux")]
    judged = judge(shapes, types, [1.0, 2.0])
    alone = patterns([(0, [shape]) for shape in shapes], shapes)
    assert judged.price(alone) == 4.0
    bound = judged.find_bound(5.0)
    assert 8 / 3 - 0.01 < bound <= 8 / 3 + 1e-6
    assert judged.search(alone, 5.0) == pytest.approx(3.0)


def test_the_mixes() -> None:
    assert [len(MIXES[name](100)) for name in MIXES] == [100, 100, 100]
    assert len(set(MIXES["wide"](1_000))) == 29, "two of upstream's thirty are alike"
    assert MIXES["wide"](1_000).count(("240m", "300Mi")) == 35
    asked = diverse(50)
    assert len(asked) == 50
    assert sum("topologySpreadConstraints" in each["spec"] for each in asked) == 20
    assert sum("affinity" in each["spec"] for each in asked) == 20


def test_the_story_counts_all_pods() -> None:
    assert counts(ALIKE, 500) == {"web": 500}
    assert counts(MIXED, 500) == {"front": 250, "back": 150, "cache": 100}
    assert sum(counts(MIXED, 7).values()) == 7


def test_what_a_watch_tells_of_is_held_against_the_promises() -> None:
    watched = BudgetWatcher(least_ready=2, budget="50%", least_cpu=2000)
    for name in "abc":
        watched.pod(_event("ADDED", name, "Ready"), 1.0)
        watched.claim(_event("ADDED", name, "Ready", "Initialized"), 1.0)
    assert watched.at_rest()
    watched.pod(_event("DELETED", "a", "Ready"), 2.0)
    watched.claim(_event("MODIFIED", "a", "Ready", "Initialized", "DisruptionReason"), 2.0)
    assert not watched.at_rest()
    watched.claim(_event("MODIFIED", "b", "Ready", "Initialized", going=True), 2.0)
    assert (watched.broken, watched.moved, watched.most_down) == ([], 2.0, 2)
    watched.pod(_event("MODIFIED", "b", "Ready", going=True), 3.0)
    watched.claim(_event("MODIFIED", "c", "Ready", "Initialized", going=True), 3.0)
    assert watched.broken == [
        "only 1 pods are ready, not 2",
        "3 of 3 nodes are being disrupted, 2 allowed",
        "only 1000 millicores of CPU remain, not 2000",
    ]
    assert watched.changes == 11


def _event(kind: str, name: str, *conditions: str, going: bool = False) -> dict[str, object]:
    metadata = {"uid": name, "labels": {}, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {})}
    said = [{"type": each, "status": "True"} for each in conditions]
    return {"type": kind, "object": {"metadata": metadata, "status": {"conditions": said, "allocatable": {"cpu": "1"}}}}
