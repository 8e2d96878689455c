"""The reference is what the definitions say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "scripts" / "reference_pages.py"


def test_the_pages_are_what_the_definitions_say() -> None:
    spec = importlib.util.spec_from_file_location("reference_pages", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    wanted = script.pages()
    there = {path.name: path.read_text() for path in script.PAGES.glob("*.md")}
    stale = sorted(name for name in {*wanted, *there} if wanted.get(name) != there.get(name))
    assert stale == [], "write them anew: .venv/bin/python scripts/reference_pages.py"
    for name, text in wanted.items():
        broken = [
            line for line in text.splitlines() if line.startswith("|") and len(re.findall(r"(?<!\\)\|", line)) < 4
        ]
        assert broken == [], name
    kinds = {line for text in wanted.values() for line in text.splitlines() if line.startswith("## ")}
    assert {"## ManagedCluster", "## Placement", "## NodePool", "## Worker", "## LogicalCluster"} <= kinds
