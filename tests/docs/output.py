"""Whether a command printed what the page shows.

`...` in a line stands for anything in it, a line of `...` for any lines. Runs of spaces count as one, because the width
of a column depends on what is in it. What no two runs have in common (ages, random names) is any of its kind. Pure.
"""

from __future__ import annotations

import difflib
import re

ANYTHING = "..."
_ANY = (
    (r"(?<![\w.-])(?=\d)(?:\d+d)?(?:\d+h)?(?:\d+m)?(?:\d+s)?(?![\w.-])", r"(?:(?:\d+[dhms])+|<invalid>)"),
    (r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}(?![a-z0-9])", r"[bcdfghjklmnpqrstvwxz2456789]{5}"),
    (r"(?<=-)[0-9a-f]{8}(?![a-z0-9])", r"[0-9a-f]{8}"),
    (r"worker-[12](?![\w-])", r"worker-[12]"),
)
"""What differs from run to run: ages, the random end of a name, a name by hash, which of two equal workers it is."""
_KNOWN = re.compile("|".join(f"({shown})" for shown, _ in _ANY))


def differs(shown: str, said: str, *, so_far: bool = False) -> str:
    """Empty where it is what is shown; `so_far`: something may follow. Else both, side by side."""
    pattern = "".join(_line(line) for line in _lines(shown)) + (r"(?:.*\n)*" if so_far else "")
    lines = _lines(said)
    if re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)):
        return ""
    return "\n".join(difflib.ndiff(_lines(shown), lines))


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.strip("\n").splitlines()]


def _line(shown: str) -> str:
    if shown == ANYTHING:
        return r"(?:.*\n)*"
    return ".*".join(_words(part) for part in shown.split(ANYTHING)) + r"\n"


def _words(text: str) -> str:
    parts, at = [], 0
    for match in _KNOWN.finditer(text):
        if match.lastindex and match[0]:
            parts += [re.escape(text[at : match.start()]), _ANY[match.lastindex - 1][1]]
            at = match.end()
    return "".join([*parts, re.escape(text[at:])])
