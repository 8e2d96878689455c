"""Decodes JSON bodies with Go's error messages, and finds the duplicate fields that `fieldValidation` reports.

The fast path is orjson. The standard library's parser is only used to explain what orjson rejected and to find
duplicates. Integers are exact up to 2^64; larger ones become floats, as in upstream's unstructured objects. NaN, lone
surrogates, invalid UTF-8 and anything nested deeper than can be encoded again are rejected.
"""

from __future__ import annotations

import json
import re
from math import isinf
from typing import Any, NoReturn

import orjson

from shoal.objects.errors import BadRequest, go_quote

MAX_DEPTH = 254
MAX_DUPLICATES = 100


def loads(data: bytes | bytearray | memoryview | str) -> Any:
    """Returns the decoded value. Raises BadRequest for invalid JSON."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise BadRequest(_syntax_error(data if isinstance(data, str) else bytes(data))) from None
    raw = data.encode() if isinstance(data, str) else bytes(data) if isinstance(data, memoryview) else data
    # A value that is too deep has more than MAX_DEPTH brackets. For usual objects this count is the whole check.
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and is_too_deep(value):
        raise BadRequest(_depth_error(raw.decode()))
    return value


def is_too_deep(value: Any) -> bool:
    """True if the value is nested deeper than can be encoded (254 levels)."""
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return True
    return False


def duplicate_field_errors(data: bytes | str, value: Any = None) -> list[str]:
    """Returns `duplicate field "spec.a"` for every duplicate member, in text order; at most 100.

    `value` is the unchanged result of `loads`. With it a clean body costs a few microseconds.
    """
    if value is not None and isinstance(data, bytes) and _has_same_key_count(data, value):
        return []
    try:
        text = data.decode() if isinstance(data, bytes) else data
        _detect(text)
        return []
    except _DuplicateKeyError:
        paths: dict[str, None] = {}
        try:
            _collect_duplicates(_keep_pairs(text), "", paths)
        except RecursionError:
            raise BadRequest(_depth_error(text)) from None
        return [f'duplicate field "{path}"' for path in list(paths)[:MAX_DUPLICATES]]
    except RecursionError:
        raise BadRequest(_depth_error(text)) from None
    except ValueError:
        raise BadRequest(_syntax_error(data)) from None


def sort_by_position(data: bytes, field_errors: list[str]) -> list[str]:
    """Sorts `unknown field "a"` and `duplicate field "b"` by their position in the text."""
    try:
        paths: dict[str, int] = {}
        _number_paths(_keep_pairs(data.decode()), "", paths)
    except (ValueError, RecursionError):
        return field_errors
    last = len(paths)
    return sorted(field_errors, key=lambda complaint: paths.get(complaint, last))


def _number_paths(value: Any, path: str, paths: dict[str, int]) -> None:
    if isinstance(value, _ObjectPairs):
        seen = set()
        for key, member in value:
            here = f"{path}.{key}" if path else key
            paths.setdefault(f'{"duplicate" if key in seen else "unknown"} field "{here}"', len(paths))
            seen.add(key)
            _number_paths(member, here, paths)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            _number_paths(item, f"{path}[{i}]", paths)


def _has_same_key_count(data: bytes, value: Any) -> bool:
    """True if text and value have the same number of members, counted by the `":` that ends each key.

    A quote inside a string is escaped, so `":` without a backslash ends a key and nothing else. If escaped backslashes
    or space before a colon make that ambiguous, the result is False, and the slow path decides.
    """
    again = orjson.dumps(value)
    if data.startswith(again) and len(data) - len(again) <= 1:
        return True  # the same bytes, perhaps with a final newline, as most clients send
    if b"\\\\" in data or b" :" in data or b"\n:" in data or b"\t:" in data or b"\r:" in data or b"\\\\" in again:
        return False
    return data.count(b'":') - data.count(b'\\":') == again.count(b'":') - again.count(b'\\":')


class _DuplicateKeyError(Exception):
    """An object has a duplicate member."""


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _DuplicateKeyError


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"invalid character '{name.lstrip('-')[0]}' looking for beginning of value")


def _reject_infinite(number: str) -> None:
    if isinf(float(number)):
        shown = number if len(number) <= 64 else f"{number[:60]}..."
        raise ValueError(f"json: cannot unmarshal number {shown} into Go value of type float64")


class _ObjectPairs(list[tuple[str, Any]]):
    """All members of an object, to distinguish it from a list."""


_detect = json.JSONDecoder(object_pairs_hook=_reject_duplicates, parse_int=len, parse_float=len).decode
_keep_pairs = json.JSONDecoder(object_pairs_hook=_ObjectPairs, parse_int=len, parse_float=len).decode
_check = json.JSONDecoder(
    parse_int=_reject_infinite, parse_float=_reject_infinite, parse_constant=_reject_constant
).decode


def _collect_duplicates(value: Any, path: str, duplicate_paths: dict[str, None]) -> None:
    if isinstance(value, _ObjectPairs):
        seen = set()
        for key, member in value:
            here = f"{path}.{key}" if path else key
            if key in seen:
                duplicate_paths[here] = None
            seen.add(key)
            _collect_duplicates(member, here, duplicate_paths)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            _collect_duplicates(item, f"{path}[{i}]", duplicate_paths)


_GO_MESSAGES = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Illegal trailing comma before end of array": "looking for beginning of value",
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\uXXXX escape": "in \\u hexadecimal character escape",
}


def _syntax_error(data: bytes | str) -> str:
    """Returns Go's message for invalid JSON."""
    try:
        text = data.decode() if isinstance(data, bytes) else data
    except UnicodeDecodeError:
        return "invalid UTF-8 in JSON input"
    try:
        _check(text)
    except json.JSONDecodeError as error:
        at, message = error.pos, error.msg
    except RecursionError:
        return _depth_error(text)
    except ValueError as error:
        return str(error)
    else:
        return _depth_error(text) or "invalid Unicode in JSON string"
    if message.startswith("Unterminated string") or at >= len(text):
        return "unexpected end of JSON input"
    if message == "Expecting ',' delimiter":
        where = "after array element" if _open_brackets(text[:at])[-1:] == ["["] else "after object key:value pair"
    else:
        if message.startswith("Illegal trailing comma"):
            at = next(i for i in range(at + 1, len(text)) if not text[i].isspace())
        at += message == "Invalid \\escape"
        if message == "Expecting value" and text[at] in _LITERALS:
            return _literal_error(text, at)
        where = _GO_MESSAGES.get(message, "looking for beginning of value")
    return f"invalid character {_go_quote_char(text[at])} {where}"


_LITERALS = {"t": "true", "f": "false", "n": "null"}


def _literal_error(text: str, at: int) -> str:
    """Returns the error of a text that starts like true, false or null but continues differently."""
    word = _LITERALS[text[at]]
    for expected, found in zip(word, text[at : at + len(word)], strict=False):
        if found != expected:
            return f"invalid character {_go_quote_char(found)} in literal {word} (expecting '{expected}')"
    return "unexpected end of JSON input"


_brackets = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL).findall


def _open_brackets(text: str) -> list[str]:
    opened: list[str] = []
    for token in _brackets(text):
        if token in ("{", "["):
            opened.append(token)
        elif token in ("}", "]") and opened:
            opened.pop()
    return opened


def _depth_error(text: str) -> str:
    """Reports the bracket that exceeds the maximum depth. Empty if there is none."""
    depth = 0
    for token in _brackets(text):
        depth += (token in ("{", "[")) - (token in ("}", "]"))
        if depth > MAX_DEPTH:
            return f"invalid character '{token}' exceeded max depth"
    return ""


def _go_quote_char(character: str) -> str:
    """Quotes one character as Go does."""
    return {"'": "'\\''", '"': "'\"'"}.get(character) or f"'{go_quote(character)[1:-1]}'"
