"""docs/mission.md: each promise has a state and names tests that exist; what is not there says what works instead."""

from __future__ import annotations

import pytest

from tests.docs.pages import ROOT
from tests.docs.tables import missing_tests, named_tests, rows

PAGE = (ROOT / "docs" / "mission.md").read_text()
PROMISES = [row for row in rows(PAGE) if len(row) == 4]
WORDS = {"there": (), "in part": ("Missing: ", "Instead: "), "not there": ("Instead: ",)}
"""What the row of each state has to say."""


def test_there_are_promises_of_every_state_and_no_other_rows() -> None:
    assert len(PROMISES) > 80
    assert {state for _, state, _, _ in PROMISES} == WORDS.keys()
    assert [row[0] for row in rows(PAGE) if len(row) != 4] == list(WORDS)


def test_every_test_it_names_exists() -> None:
    assert missing_tests(PAGE) == []
    assert [promise for promise, _, _, tests in PROMISES if not named_tests(tests)] == []


@pytest.mark.parametrize("word", ["Missing: ", "Instead: "])
def test_what_is_missing_and_what_works_instead_is_said(word: str) -> None:
    wrong = [promise for promise, state, how, _ in PROMISES if (word in how) != (word in WORDS[state])]
    assert wrong == []
