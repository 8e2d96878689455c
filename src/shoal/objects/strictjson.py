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

from shoal.objects.errors import BadRequest, quoted

MAX_DEPTH = 254
MAX_DUPLICATES = 100


def loads(data: bytes | bytearray | memoryview | str) -> Any:
    """Returns the decoded value. Raises BadRequest for invalid JSON."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise BadRequest(_explain(data if isinstance(data, str) else bytes(data))) from None
    raw = data.encode() if isinstance(data, str) else bytes(data) if isinstance(data, memoryview) else data
    # A value that is too deep has more than MAX_DEPTH brackets. For usual objects this count is the whole check.
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and too_deep(value):
        raise BadRequest(_too_deep(raw.decode()))
    return value


def too_deep(value: Any) -> bool:
    """True if the value is nested deeper than can be encoded (254 levels)."""
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return True
    return False


def duplicates(data: bytes | str, value: Any = None) -> list[str]:
    """Returns `duplicate field "spec.a"` for every duplicate member, in text order; at most 100.

    `value` is the unchanged result of `loads`. With it a clean body costs a few microseconds.
    """
    if value is not None and isinstance(data, bytes) and _has_as_many_keys(data, value):
        return []
    try:
        text = data.decode() if isinstance(data, bytes) else data
        _detect(text)
        return []
    except _Twice:
        found: dict[str, None] = {}
        try:
            _collect(_keep_pairs(text), "", found)
        except RecursionError:
            raise BadRequest(_too_deep(text)) from None
        return [f'duplicate field "{path}"' for path in list(found)[:MAX_DUPLICATES]]
    except RecursionError:
        raise BadRequest(_too_deep(text)) from None
    except ValueError:
        raise BadRequest(_explain(data)) from None


def in_text_order(data: bytes, complaints: list[str]) -> list[str]:
    """Sorts `unknown field "a"` and `duplicate field "b"` by their position in the text."""
    try:
        paths: dict[str, int] = {}
        _number(_keep_pairs(data.decode()), "", paths)
    except (ValueError, RecursionError):
        return complaints
    last = len(paths)
    return sorted(complaints, key=lambda complaint: paths.get(complaint, last))


def _number(value: Any, path: str, paths: dict[str, int]) -> None:
    if isinstance(value, _Pairs):
        seen = set()
        for key, member in value:
            here = f"{path}.{key}" if path else key
            paths.setdefault(f'{"duplicate" if key in seen else "unknown"} field "{here}"', len(paths))
            seen.add(key)
            _number(member, here, paths)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            _number(item, f"{path}[{i}]", paths)


def _has_as_many_keys(data: bytes, value: Any) -> bool:
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


class _Twice(Exception):
    """An object has a duplicate member."""


def _refuse_twice(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _Twice


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"invalid character '{name.lstrip('-')[0]}' looking for beginning of value")


def _refuse_infinite(number: str) -> None:
    if isinf(float(number)):
        shown = number if len(number) <= 64 else f"{number[:60]}..."
        raise ValueError(f"json: cannot unmarshal number {shown} into Go value of type float64")


class _Pairs(list[tuple[str, Any]]):
    """All members of an object, to distinguish it from a list."""


_detect = json.JSONDecoder(object_pairs_hook=_refuse_twice, parse_int=len, parse_float=len).decode
_keep_pairs = json.JSONDecoder(object_pairs_hook=_Pairs, parse_int=len, parse_float=len).decode
_check = json.JSONDecoder(
    parse_int=_refuse_infinite, parse_float=_refuse_infinite, parse_constant=_refuse_constant
).decode


def _collect(value: Any, path: str, found: dict[str, None]) -> None:
    if isinstance(value, _Pairs):
        seen = set()
        for key, member in value:
            here = f"{path}.{key}" if path else key
            if key in seen:
                found[here] = None
            seen.add(key)
            _collect(member, here, found)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            _collect(item, f"{path}[{i}]", found)


_GO_SAYS = {
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


def _explain(data: bytes | str) -> str:
    """Returns Go's message for invalid JSON."""
    try:
        text = data.decode() if isinstance(data, bytes) else data
    except UnicodeDecodeError:
        return "invalid UTF-8 in JSON input"
    try:
        _check(text)
    except json.JSONDecodeError as error:
        at, said = error.pos, error.msg
    except RecursionError:
        return _too_deep(text)
    except ValueError as error:
        return str(error)
    else:
        return _too_deep(text) or "invalid Unicode in JSON string"
    if said.startswith("Unterminated string") or at >= len(text):
        return "unexpected end of JSON input"
    if said == "Expecting ',' delimiter":
        where = "after array element" if _open_brackets(text[:at])[-1:] == ["["] else "after object key:value pair"
    else:
        if said.startswith("Illegal trailing comma"):
            at = next(i for i in range(at + 1, len(text)) if not text[i].isspace())
        at += said == "Invalid \\escape"
        if said == "Expecting value" and text[at] in _LITERALS:
            return _no_literal(text, at)
        where = _GO_SAYS.get(said, "looking for beginning of value")
    return f"invalid character {_quoted(text[at])} {where}"


_LITERALS = {"t": "true", "f": "false", "n": "null"}


def _no_literal(text: str, at: int) -> str:
    """Returns the error of a text that starts like true, false or null but continues differently."""
    word = _LITERALS[text[at]]
    for expected, found in zip(word, text[at : at + len(word)], strict=False):
        if found != expected:
            return f"invalid character {_quoted(found)} in literal {word} (expecting '{expected}')"
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


def _too_deep(text: str) -> str:
    """Reports the bracket that exceeds the maximum depth. Empty if there is none."""
    depth = 0
    for token in _brackets(text):
        depth += (token in ("{", "[")) - (token in ("}", "]"))
        if depth > MAX_DEPTH:
            return f"invalid character '{token}' exceeded max depth"
    return ""


def _quoted(character: str) -> str:
    """Quotes one character as Go does."""
    return {"'": "'\\''", '"': "'\"'"}.get(character) or f"'{quoted(character)[1:-1]}'"
