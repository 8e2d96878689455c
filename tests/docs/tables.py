"""Tables of a page, and the test files that its cells name. Pure but for the look whether such a file exists."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.docs.pages import ROOT

_is_delimiter = re.compile(r"^\|[-:| ]+\|$").match
_named_tests = re.compile(r"`([a-z0-9_/]+\.py)`").findall


def rows(text: str) -> Iterator[list[str]]:
    """The cells of each row of its tables, without their headers."""
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("|") and not _is_delimiter(line) and not _is_delimiter(following):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def named_tests(text: str) -> list[str]:
    """Paths below tests/."""
    found: list[str] = _named_tests(text)
    return found


def missing_tests(text: str) -> list[str]:
    return [path for path in named_tests(text) if not (ROOT / "tests" / path).is_file()]
