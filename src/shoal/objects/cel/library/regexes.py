"""`matches`, `find` and `findAll`."""

from __future__ import annotations

from shoal.objects.cel.errors import CELError
from shoal.objects.cel.overloads import Overload, function_overload, method_overload, regex_search_cost
from shoal.objects.cel.regex import compile_regex
from shoal.objects.cel.types import BOOL, INT, STRING, list_of


def _matches(text: str, pattern: str) -> bool:
    try:
        return compile_regex(pattern).matches(text)
    except ValueError as why:
        raise CELError(str(why)) from None


def _find(text: str, pattern: str) -> str:
    matches = _find_all(text, pattern, 1)
    return matches[0] if matches else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    try:
        return compile_regex(pattern).find_all(text, max(limit, -1))
    except ValueError as why:
        raise CELError(f"Illegal regex: {why}") from None


OVERLOADS: list[Overload] = [
    function_overload("matches", (STRING, STRING), BOOL, _matches, regex_search_cost),
    method_overload("matches", (STRING, STRING), BOOL, _matches, regex_search_cost),
    method_overload("find", (STRING, STRING), STRING, _find, regex_search_cost),
    method_overload("findAll", (STRING, STRING), list_of(STRING), _find_all, regex_search_cost),
    method_overload("findAll", (STRING, STRING, INT), list_of(STRING), _find_all, regex_search_cost),
]
