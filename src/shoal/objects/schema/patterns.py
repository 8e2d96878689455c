"""Regular expressions in linear time: patterns are RE2 (as upstream's Go), never Python's backtracking `re`.

The engine is that of the jsonschema-rs pass, so that both passes always agree. It does not support POSIX classes and
RE2's quoted literals, so they are rewritten.
"""

from __future__ import annotations

import re
from functools import lru_cache

import jsonschema_rs

REGEX_OPTIONS = jsonschema_rs.RegexOptions(size_limit=10 * 1024 * 1024)

_POSIX = {
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:ascii:]": r"\x00-\x7F",
    "[:blank:]": r"\t ",
    "[:cntrl:]": r"\x00-\x1F\x7F",
    "[:digit:]": "0-9",
    "[:graph:]": "!-~",
    "[:lower:]": "a-z",
    "[:print:]": " -~",
    "[:punct:]": r"!-/:-@\[-`{-~",
    "[:space:]": r"\t\n\x0B\f\r ",
    "[:upper:]": "A-Z",
    "[:word:]": "0-9A-Za-z_",
    "[:xdigit:]": "0-9A-Fa-f",
}


def to_engine_pattern(pattern: str) -> str:
    """Returns the pattern in the engine's syntax."""
    if "[:" in pattern:
        for name, members in _POSIX.items():
            pattern = pattern.replace(name, members)
    return _escape_quoted(pattern) if "\\Q" in pattern else pattern


def _escape_quoted(pattern: str) -> str:
    """Escapes what stands between `\\Q` and `\\E` or the end."""
    pieces, at = [], 0
    while (start := pattern.find("\\Q", at)) >= 0:
        end = pattern.find("\\E", start + 2)
        end = len(pattern) if end < 0 else end
        pieces += [pattern[at:start], re.escape(pattern[start + 2 : end])]
        at = end + 2
    return "".join([*pieces, pattern[at:]])


@lru_cache(maxsize=512)
def _compile_pattern(pattern: str) -> jsonschema_rs.Draft202012Validator | None:
    try:
        return jsonschema_rs.Draft202012Validator(
            {"pattern": to_engine_pattern(pattern)}, pattern_options=REGEX_OPTIONS
        )
    except (jsonschema_rs.ValidationError, ValueError):
        return None


def is_valid_pattern(pattern: str) -> bool:
    return _compile_pattern(pattern) is not None


def matches(pattern: str, text: str) -> bool:
    """True if the pattern is found in the text. A pattern that does not compile matches nothing."""
    engine = _compile_pattern(pattern)
    return engine is not None and engine.is_valid(text)
