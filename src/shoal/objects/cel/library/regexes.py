"""`matches`, `find` and `findAll`."""

from __future__ import annotations

from shoal.objects.cel.errors import CelError
from shoal.objects.cel.overloads import Overload, function, method
from shoal.objects.cel.overloads import regex as regex_cost
from shoal.objects.cel.regex import regex
from shoal.objects.cel.types import BOOL, INT, STRING, list_of


def _matches(text: str, pattern: str) -> bool:
    try:
        return regex(pattern).matches(text)
    except ValueError as why:
        raise CelError(str(why)) from None


def _find(text: str, pattern: str) -> str:
    found = _find_all(text, pattern, 1)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    try:
        return regex(pattern).find_all(text, max(limit, -1))
    except ValueError as why:
        raise CelError(f"Illegal regex: {why}") from None


OVERLOADS: list[Overload] = [
    function("matches", (STRING, STRING), BOOL, _matches, regex_cost),
    method("matches", (STRING, STRING), BOOL, _matches, regex_cost),
    method("find", (STRING, STRING), STRING, _find, regex_cost),
    method("findAll", (STRING, STRING), list_of(STRING), _find_all, regex_cost),
    method("findAll", (STRING, STRING, INT), list_of(STRING), _find_all, regex_cost),
]
