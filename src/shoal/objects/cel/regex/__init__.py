"""Regular expressions of RE2, in linear time: what RE2 does not have (backreferences, look-around) is refused.

`matches` runs on the engine of the schemas; `find` needs to know where, and runs on the machine of this package.
"""

from __future__ import annotations

from functools import lru_cache

import jsonschema_rs

from shoal.objects.cel.regex.machine import Machine
from shoal.objects.cel.regex.reading import Tree, emitted, parse

__all__ = ["Regex", "regex"]

_LINEAR = jsonschema_rs.RegexOptions(size_limit=10 * 1024 * 1024)


class Regex:
    """One compiled expression. Use `regex`, which remembers them."""

    def __init__(self, pattern: str) -> None:
        self._tree: Tree = parse(pattern)
        try:
            told = {"pattern": emitted(self._tree)}
            self._engine = jsonschema_rs.Draft202012Validator(told, pattern_options=_LINEAR)
        except (jsonschema_rs.ValidationError, ValueError):
            raise ValueError(f"error parsing regexp: expression too large: `{pattern}`") from None
        self._machine: Machine | None = None

    def matches(self, text: str) -> bool:
        return self._engine.is_valid(text)

    def find(self, text: str) -> str:
        """The leftmost match, or nothing."""
        found = self.find_all(text, 1)
        return found[0] if found else ""

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        if limit == 0 or not self._engine.is_valid(text):
            return []
        if self._machine is None:
            self._machine = Machine(self._tree)
        return [text[start:end] for start, end in self._machine.matches(text, limit)]


@lru_cache(maxsize=512)
def regex(pattern: str) -> Regex:
    """A ValueError says, in Go's words, what is wrong with the pattern."""
    return Regex(pattern)
