"""String functions of CEL and of Kubernetes, regular expressions included. Positions count characters."""

from __future__ import annotations

import math

from shoal.objects.cel.errors import CELError
from shoal.objects.cel.library.string_format import format_string
from shoal.objects.cel.overloads import (
    TRAVERSAL_COST,
    Overload,
    function_overload,
    method_overload,
    printing_cost,
    product_cost,
    regex_search_cost,
    traversal_and_result_cost,
    traversal_cost,
    tree_cost,
)
from shoal.objects.cel.regex import compile_regex
from shoal.objects.cel.types import BOOL, DYN, INT, STRING, list_of

STRING_LIST = list_of(STRING)
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_FREE_RESULT_LENGTH = 100
_UPPER = {code + 32: code for code in _LOWER}
_QUOTE_ESCAPES = str.maketrans({
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
})  # fmt: skip
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def _index_error(index: int) -> CELError:
    return CELError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _index_error(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise _index_error(start)
    return text.find(part, start)


def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part)


def _last_index_from(text: str, part: str, start: int) -> int:
    if not part:
        return start
    if start < 0:
        raise _index_error(start)
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def _substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _index_error(start)
    return text[start:]


def _substring_range(text: str, start: int, end: int) -> str:
    if start > end:
        raise CELError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _index_error(index)
    return text[start:end]


def _replace(text: str, old: str, new: str, times: int = -1) -> str:
    return text.replace(old, new, min(times, len(text) + 1) if times >= 0 else -1)


def _replace_cost(text: str, old: str, new: str, times: int = -1) -> int:
    """Upstream counts a result of the size of the text."""
    count = text.count(old)
    longer = (count if times < 0 else min(count, times)) * (len(new) - len(old))
    return traversal_and_result_cost(text) + int(max(longer - _FREE_RESULT_LENGTH, 0) * TRAVERSAL_COST)


def _split(text: str, by: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if by:
        return text.split(by, min(limit - 1, len(text)) if limit > 0 else -1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _join(texts: list[str], by: str = "") -> str:
    for text in texts:
        if text.__class__ is not str:
            raise CELError(f"join: invalid input: {text}")
    return by.join(texts)


def _join_cost(texts: list[str], by: str = "") -> int:
    total = sum(len(text) for text in texts if text.__class__ is str) + max(len(texts) - 1, 0) * len(by)
    return math.ceil(total * 2 * TRAVERSAL_COST)


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
    method_overload("contains", (STRING, STRING), BOOL, str.__contains__, product_cost),
    method_overload("endsWith", (STRING, STRING), BOOL, str.endswith, traversal_cost),
    method_overload("startsWith", (STRING, STRING), BOOL, str.startswith, traversal_cost),
    method_overload("charAt", (STRING, INT), STRING, _char_at),
    method_overload("indexOf", (STRING, STRING), INT, _index_of, tree_cost),
    method_overload("indexOf", (STRING, STRING, INT), INT, _index_of, tree_cost),
    method_overload("lastIndexOf", (STRING, STRING), INT, _last_index_of, tree_cost),
    method_overload("lastIndexOf", (STRING, STRING, INT), INT, _last_index_from, tree_cost),
    method_overload("lowerAscii", (STRING,), STRING, lambda text: text.translate(_LOWER), traversal_cost),
    method_overload("upperAscii", (STRING,), STRING, lambda text: text.translate(_UPPER), traversal_cost),
    method_overload("replace", (STRING, STRING, STRING), STRING, _replace, _replace_cost),
    method_overload("replace", (STRING, STRING, STRING, INT), STRING, _replace, _replace_cost),
    method_overload("split", (STRING, STRING), STRING_LIST, _split, traversal_and_result_cost),
    method_overload("split", (STRING, STRING, INT), STRING_LIST, _split, traversal_and_result_cost),
    method_overload("substring", (STRING, INT), STRING, _substring, traversal_cost),
    method_overload("substring", (STRING, INT, INT), STRING, _substring_range, traversal_cost),
    method_overload("trim", (STRING,), STRING, lambda text: text.strip(_SPACE), traversal_cost),
    method_overload("format", (STRING, list_of(DYN)), STRING, format_string, printing_cost),
    function_overload(
        "strings.quote", (STRING,), STRING, lambda text: f'"{text.translate(_QUOTE_ESCAPES)}"', traversal_cost
    ),
    method_overload("join", (STRING_LIST,), STRING, _join, _join_cost),
    method_overload("join", (STRING_LIST, STRING), STRING, _join, _join_cost),
    function_overload("matches", (STRING, STRING), BOOL, _matches, regex_search_cost),
    method_overload("matches", (STRING, STRING), BOOL, _matches, regex_search_cost),
    method_overload("find", (STRING, STRING), STRING, _find, regex_search_cost),
    method_overload("findAll", (STRING, STRING), list_of(STRING), _find_all, regex_search_cost),
    method_overload("findAll", (STRING, STRING, INT), list_of(STRING), _find_all, regex_search_cost),
]
