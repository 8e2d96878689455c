"""String functions of CEL and of Kubernetes. Positions count characters."""

from __future__ import annotations

import math

from shoal.objects.cel.errors import CelError
from shoal.objects.cel.library.formatting import formatted
from shoal.objects.cel.overloads import (
    TRAVERSAL,
    Overload,
    function,
    method,
    product,
    through,
    traversal,
    traversal_and_result,
)
from shoal.objects.cel.types import BOOL, DYN, INT, STRING, list_of

TEXTS = list_of(STRING)
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code + 32: code for code in _LOWER}
_QUOTED = str.maketrans({
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
})  # fmt: skip
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_MAX_TEXT = 10_000_000
"""Maximum characters of a result: as much as the cost limit allows to traverse."""


def _out(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise _out(start)
    return text.find(part, start)


def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part)


def _last_index_from(text: str, part: str, start: int) -> int:
    if not part:
        return start
    if start < 0:
        raise _out(start)
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def _substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out(start)
    return text[start:]


def _between(text: str, start: int, end: int) -> str:
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out(index)
    return text[start:end]


def _replace(text: str, old: str, new: str, times: int = -1) -> str:
    count = text.count(old)
    if len(text) + (count if times < 0 else min(count, times)) * len(new) > _MAX_TEXT:
        raise CelError(f"replace: the result is longer than {_MAX_TEXT} characters")
    return text.replace(old, new, min(times, len(text) + 1) if times >= 0 else -1)


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
            raise CelError(f"join: invalid input: {text}")
    return by.join(texts)


def _join_cost(texts: list[str], by: str = "") -> int:
    total = sum(len(text) for text in texts if text.__class__ is str) + max(len(texts) - 1, 0) * len(by)
    return math.ceil(total * 2 * TRAVERSAL)


OVERLOADS: list[Overload] = [
    method("contains", (STRING, STRING), BOOL, str.__contains__, product),
    method("endsWith", (STRING, STRING), BOOL, str.endswith, traversal),
    method("startsWith", (STRING, STRING), BOOL, str.startswith, traversal),
    method("charAt", (STRING, INT), STRING, _char_at),
    method("indexOf", (STRING, STRING), INT, _index_of, through),
    method("indexOf", (STRING, STRING, INT), INT, _index_of, through),
    method("lastIndexOf", (STRING, STRING), INT, _last_index_of, through),
    method("lastIndexOf", (STRING, STRING, INT), INT, _last_index_from, through),
    method("lowerAscii", (STRING,), STRING, lambda text: text.translate(_LOWER), traversal),
    method("upperAscii", (STRING,), STRING, lambda text: text.translate(_UPPER), traversal),
    method("replace", (STRING, STRING, STRING), STRING, _replace, traversal_and_result),
    method("replace", (STRING, STRING, STRING, INT), STRING, _replace, traversal_and_result),
    method("split", (STRING, STRING), TEXTS, _split, traversal_and_result),
    method("split", (STRING, STRING, INT), TEXTS, _split, traversal_and_result),
    method("substring", (STRING, INT), STRING, _substring, traversal),
    method("substring", (STRING, INT, INT), STRING, _between, traversal),
    method("trim", (STRING,), STRING, lambda text: text.strip(_SPACE), traversal),
    method("format", (STRING, list_of(DYN)), STRING, formatted, traversal),
    function("strings.quote", (STRING,), STRING, lambda text: f'"{text.translate(_QUOTED)}"', traversal),
    method("join", (TEXTS,), STRING, _join, _join_cost),
    method("join", (TEXTS, STRING), STRING, _join, _join_cost),
]
