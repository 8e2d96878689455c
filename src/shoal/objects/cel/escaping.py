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
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_UNESCAPES = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}
_replace_special = re.compile(r"__|[-./]").sub
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*", re.ASCII).fullmatch
_replace_sequences = re.compile(r"__([^_]+)(__)?").sub


@lru_cache(maxsize=4096)
def escape(name: str) -> str | None:
    """Returns the identifier of a field, or None if it has none."""
    if name in RESERVED:
        return f"__{name}__"
    if not _NAME(name):
        return None
    return _replace_special(lambda found: _ESCAPES[found.group()], name)


@lru_cache(maxsize=4096)
def unescape(identifier: str) -> str | None:
    """Returns the field of an identifier, or None if it contains unknown escapes."""
    if "__" not in identifier:
        return identifier
    is_valid = True

    def replace(found: re.Match[str]) -> str:
        nonlocal is_valid
        inner = found.group(1)
        if not found.group(2):
            return found.group()
        if inner in RESERVED and len(found.group()) == len(identifier):
            return inner
        if inner not in _UNESCAPES:
            is_valid = False
            return ""
        return _UNESCAPES[inner]

    name = _replace_sequences(replace, identifier)
    return name if is_valid else None
