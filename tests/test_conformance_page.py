"""docs/conformance.md names the workload specs that tests/real/specs/workloads.txt has, and counts them rightly."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SPECS = [line for line in (ROOT / "tests/real/specs/workloads.txt").read_text().splitlines() if line]
PAGE = (ROOT / "docs/conformance.md").read_text()
HEADINGS = {"DaemonSet": "Daemon set"}
"""Where upstream's name of a subject is another than ours."""


def plain(spec: str) -> str:
    """Without labels, but for whether it is a conformance spec."""
    text = re.sub(r"Basic StatefulSet functionality |\[[^]]*\]", "", spec)
    return " ".join(text.split()) + (" ✓" if "[Conformance]" in spec else "")


def test_every_workload_spec_is_named_under_its_kind() -> None:
    found = dict(_sections())
    wanted = {}
    for kind in found:
        subject = f"[sig-apps] {HEADINGS.get(kind, kind)} "
        wanted[kind] = [plain(spec.removeprefix(subject)) for spec in SPECS if spec.startswith(subject)]
    assert found == wanted
    assert {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"} <= set(found)


def _sections() -> list[tuple[str, list[str]]]:
    sections = []
    for kind, count, lines in re.findall(r"^### (\w+): (\d+)\n\n((?:- .*\n)+)", PAGE, re.MULTILINE):
        names = [line.removeprefix("- ") for line in lines.splitlines()]
        assert len(names) == int(count), kind
        sections.append((kind, names))
    return sections


def test_the_whole_is_counted() -> None:
    conformance = sum("[Conformance]" in spec for spec in SPECS)
    assert f"{len(SPECS)} specs pass, {conformance} of them conformance specs" in PAGE
    table = PAGE.partition("## Workloads on simulated nodes")[2].partition("## ")[0]
    rows = re.findall(r"^\| [^|]+ \| (\d+) \| (\d+) \|", table, re.MULTILINE)
    assert sum(int(passed) for passed, _ in rows) == len(SPECS)
    assert sum(int(count) for _, count in rows) == conformance
