"""The `Warning` headers of an answer, with upstream's limits."""

from __future__ import annotations

from collections.abc import Iterable

MAX_WARNINGS_LENGTH, MAX_CUT_WARNING_LENGTH = 4_096, 256
"""Characters of all warnings of an answer, and of one of them if there are more."""
_CONTROL_CHARACTERS = dict.fromkeys((*range(32), 127), " ")


def warning_headers(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Long texts are cut, as upstream does, if they are too long together."""
    first = first_warnings(texts)
    if sum(map(len, first)) > MAX_WARNINGS_LENGTH:
        first = [text[:MAX_CUT_WARNING_LENGTH] for text in first]
    return tuple(("Warning", f'299 - "{_escape(text)}"') for text in first)


def first_warnings(texts: Iterable[str]) -> list[str]:
    """Returns each text once, and no more of them than an answer has. A client may cause a warning for each element of
    a long list.
    """
    unique: dict[str, None] = {}
    length = 0
    for text in texts:
        if length >= MAX_WARNINGS_LENGTH:
            break
        if text and text not in unique:
            unique[text] = None
            length += min(len(text), MAX_CUT_WARNING_LENGTH)
    return list(unique)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').translate(_CONTROL_CHARACTERS)
