"""Texts that are cheap to send and may be dear to read: each is a beginning, a unit that is repeated, and an end."""

from __future__ import annotations

import json
from collections.abc import Callable

KB, MB = 1024, 1024 * 1024
NEAR_LIMIT = 3 * MB - 64 * KB
"""Bytes of a value whose object still fits into a body."""
LIGHT, LIGHT_YAML = 28 * KB, 14 * KB
"""What the loop still reads itself; larger bodies go to a child process."""
STORED = 600 * KB
"""An object of this size is stored, with what its managers own."""

TEXTS: dict[str, tuple[str, str, str]] = {
    "letters": ("", "a", ""),
    "letters-end": ("", "a", "!"),
    "spaces": ("", " ", ""),
    "spaces-end": ("a", " ", "a"),
    "digits": ("", "1", ""),
    "dots": ("", ".", ""),
    "labels": ("", "a.", "a"),
    "dashes": ("a", "-", "!"),
    "slashes": ("", "/", ""),
    "parents": ("", "a/../", "a"),
    "colons": ("", "a:", ""),
    "commas": ("a", ",a", ""),
    "lines": ("", "a\n", ""),
    "parentheses": ("", "(", ""),
    "brackets": ("", "[", ""),
    "percents": ("", "%41", "%"),
    "quotes": ("", '"', ""),
    "backslashes": ("", "\\", ""),
    "dollars": ("", "$(a", ""),
    "accents": ("", "é", ""),
    "astral": ("", "\U0001f600", ""),
    "pem": ("", "-----BEGIN A-----", ""),
    "pem-lines": ("", "-----BEGIN A-----\n", ""),
    "pem-requests": ("", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n", ""),
    "iqn": ("iqn.2001-04.com.", "a.", "!"),
    "iqn-letters": ("iqn.2001-04.a", "a", ":!"),
    "iqn-again": ("", "iqn.2001-01.", "!"),
    "address": ("", "a@", "a"),
    "url": ("https://a/", "a?a#", ""),
    "host": ("https://", "a.", ":1"),
    "time": ("2024-01-02T03:04:05.", "1", "Z"),
    "duration": ("", "1h", "x"),
    "quantity": ("1.", "1", "Gi"),
    "address-v6": ("", "1:", ":1"),
    "base64": ("", "AAAA", "=="),
}
"""By name. An end that no reader expects makes a pattern that backtracks try everything before it."""

FORMS: dict[str, tuple[str, str, str]] = {
    "cron": ("", "1,", "1 * * * *"),
    "sum": ("1", "+1", "==1"),
    "and": ("true", "&&true", ""),
    "nots": ("", "!", "true"),
    "minuses": ("", "-", "1"),
    "dotted": ("self", ".a", ""),
    "calls": ("", "size(", "1"),
    "ternary": ("", "true?1:", "1"),
    "list": ("[1", ",1", "]==[]"),
    "text": ("'", "a", "'=='b'"),
    "selector": ("a", ",a", ""),
    "selector-in": ("a in (a", ",a", ")"),
    "selector-open": ("a in ", "(", ""),
    "selector-equals": ("a=a", ",a=a", ""),
    "jsonpath": ("", ".a", ""),
    "jsonpath-deep": ("", "..a", ""),
    "jsonpath-all": (".a", "[*]", ""),
    "jsonpath-open": (".a", "[", ""),
    "jsonpath-filter": (".a[?(@.b==", "'a'", ")]"),
    "pattern-groups": ("", "(a", ""),
    "pattern-repeats": ("", "a{1000}", ""),
    "pattern-nested": ("", "(", "a" + ")" * 20),
    "pattern-classes": ("", "[a-z]*", "$"),
}
"""What a language has: schedules, expressions, selectors, JSONPaths, patterns."""


def text_of(name: str, size: int) -> str:
    """The text as long as fits into so many bytes of UTF-8."""
    begin, unit, end = TEXTS.get(name) or FORMS[name]
    count = max((size - len(begin.encode()) - len(end.encode())) // len(unit.encode()), 1)
    return begin + unit * count + end


def repeat(one: Callable[[int], str], size: int) -> str:
    """A JSON list of about so many bytes; the element is JSON text."""
    return "[" + _joined(one, size) + "]"


def repeat_pairs(one: Callable[[int], str], size: int) -> str:
    """A JSON object of about so many bytes; the element is `"key":value`."""
    return "{" + _joined(one, size) + "}"


def _joined(one: Callable[[int], str], size: int) -> str:
    parts, length, number = [], 0, 0
    while length < size:
        parts.append(one(number))
        length += len(parts[-1]) + 1
        number += 1
    return ",".join(parts[:-1] or parts)


def size_name(size: int) -> str:
    if size >= NEAR_LIMIT:
        return "limit"
    return f"{size // MB}M" if size >= MB else f"{size // KB}K"


def quoted(text: str) -> str:
    """As JSON, without escapes that make it longer than it is."""
    return json.dumps(text, ensure_ascii=False)
