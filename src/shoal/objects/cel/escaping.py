"""Escaping of field names that are not identifiers: `foo-bar` is written `foo__dash__bar`, `namespace`
`__namespace__`.
"""

from __future__ import annotations

import re
from functools import lru_cache

KEYWORDS = frozenset({
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
    "namespace", "return", "var", "void", "while",
})  # fmt: skip
"""Identifiers reserved by the language."""
RESERVED = KEYWORDS | {"true", "false", "null", "in"}
_ESCAPED = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_UNESCAPED = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}
_SPECIAL = re.compile(r"__|[-./]")
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*", re.ASCII).fullmatch
_SEQUENCE = re.compile(r"__([^_]+)__")


@lru_cache(maxsize=4096)
def escaped(name: str) -> str | None:
    """Returns the identifier of a field, or None if it has none."""
    if name in RESERVED:
        return f"__{name}__"
    if not _NAME(name):
        return None
    return _SPECIAL.sub(lambda found: _ESCAPED[found.group()], name)


@lru_cache(maxsize=4096)
def unescaped(identifier: str) -> str | None:
    """Returns the field of an identifier, or None if it contains unknown escapes."""
    if "__" not in identifier:
        return identifier
    sound = True

    def plain(found: re.Match[str]) -> str:
        nonlocal sound
        inner = found.group(1)
        if inner in RESERVED and len(found.group()) == len(identifier):
            return inner
        if inner not in _UNESCAPED:
            sound = False
            return ""
        return _UNESCAPED[inner]

    name = _SEQUENCE.sub(plain, identifier)
    return name if sound else None
