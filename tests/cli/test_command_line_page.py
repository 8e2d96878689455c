"""docs/command-line.md is what its script writes: every command and flag is in it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from shoal.cli.main import COMMANDS

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "command_line_page.py"


def test_the_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("command_line_page", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text() == script.page(), "write it anew: .venv/bin/python scripts/command_line_page.py"
    assert all(f"\n## shoal {name}\n" in script.page() for name in COMMANDS)
