"""The tests that docs/security.md names exist."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT
from tests.docs.tables import missing_tests, rows

PAGE = (ROOT / "docs" / "security.md").read_text()


def test_every_attempt_names_tests_that_exist() -> None:
    section = PAGE.partition("## Attempts")[2].partition("## What it does not do")[0]
    attempts = list(rows(section))
    assert len(attempts) > 40
    assert missing_tests(section) == []
    # A row without a test of its own refers to the row above.
    assert [row for row in attempts if not re.search(r"\.py`|the same", row[-1])] == []
