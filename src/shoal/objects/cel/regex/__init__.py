"""RE2 regular expressions in linear time. Constructs RE2 does not have (backreferences, look-around) are rejected.

`matches` runs on jsonschema-rs, as schema patterns do. `find` needs match positions and runs on this package's
RegexMachine.
"""

from __future__ import annotations

from functools import lru_cache

import jsonschema_rs

from shoal.objects.cel.regex.machine import RegexMachine
from shoal.objects.cel.regex.syntax import RegexNode, parse, to_pattern

__all__ = ["CompiledRegex", "compile_regex"]

_REGEX_OPTIONS = jsonschema_rs.RegexOptions(size_limit=10 * 1024 * 1024)


class CompiledRegex:
    """One compiled expression. Use `compile_regex`, which caches them."""

    def __init__(self, pattern: str) -> None:
        self._tree: RegexNode = parse(pattern)
        try:
            schema = {"pattern": to_pattern(self._tree)}
            self._engine = jsonschema_rs.Draft202012Validator(schema, pattern_options=_REGEX_OPTIONS)
        except (jsonschema_rs.ValidationError, ValueError):
            raise ValueError(f"error parsing regexp: expression too large: `{pattern}`") from None
        self._machine: RegexMachine | None = None

    def matches(self, text: str) -> bool:
        return self._engine.is_valid(text)

    def find(self, text: str) -> str:
        """Returns the leftmost match, or an empty string."""
        found = self.find_all(text, 1)
        return found[0] if found else ""

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        if limit == 0 or not self._engine.is_valid(text):
            return []
        if self._machine is None:
            self._machine = RegexMachine(self._tree)
        return [text[start:end] for start, end in self._machine.matches(text, limit)]


@lru_cache(maxsize=512)
def compile_regex(pattern: str) -> CompiledRegex:
    """Raises ValueError with Go's message for an invalid pattern."""
    return CompiledRegex(pattern)
