"""Tokenizes the source. Literals are parsed here; the grammar is in `parser`."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from shoal.objects.cel.errors import MAX_REPORTED_ERRORS, CELCompileError
from shoal.objects.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt

MAX_SOURCE = 100_000
"""Characters; cel-go's own limit."""
_MAX_DIGITS = 1000


class CELToken(NamedTuple):
    kind: str
    """`name`, `literal`, `end`, or the operator itself."""
    offset: int
    value: Any
    text: str


_match_token = re.compile(
    r"""
    (?P<space>[\t\n\f\r ]+|//[^\n]*)
  | (?P<string>[bB]?[rR]?(?:\"{3}|'{3}|"|')|[rR][bB](?:\"{3}|'{3}|"|'))
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<int>(?:0x[0-9a-fA-F]+|[0-9]+)[uU]?)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<op>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE,
).match
_ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "?": 63, '"': 34, "'": 39, "`": 96}
_HEX_ESCAPES = {"x": 2, "X": 2, "u": 4, "U": 8}
_KEYWORD_LITERALS = {"true": True, "false": False, "null": None}


def tokenize(source: str, errors: list[tuple[int, str]]) -> list[CELToken]:
    """Appends unrecognised characters to `errors` and continues after them, until there are too many, as cel-go."""
    if len(source) > MAX_SOURCE:
        message = f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_SOURCE}"
        raise CELCompileError("", [(0, message)])
    result, at = [], 0
    while at < len(source):
        if len(errors) > MAX_REPORTED_ERRORS:
            raise CELCompileError(source, errors)
        match = _match_token(source, at)
        if match is None:
            text = source[at : at + (2 if source[at] in "=&|" else 1)]
            errors.append((at, f"Syntax error: token recognition error at: '{text}'"))
            at += len(text)
            continue
        kind, text, end = match.lastgroup or "", match.group(), match.end()
        if kind == "string":
            value, end = _read_string(source, at, text, end)
            if value is None:
                errors.append((at, f"Syntax error: token recognition error at: '{source[at:end]}'"))
            else:
                result.append(CELToken("literal", at, value, source[at:end]))
        elif kind in ("float", "int"):
            result.append(CELToken("number", at, None, text))
        elif kind == "name" and text in _KEYWORD_LITERALS:
            result.append(CELToken("literal", at, _KEYWORD_LITERALS[text], text))
        elif kind == "name":
            result.append(CELToken("in" if text == "in" else "name", at, None, text))
        elif kind == "op":
            result.append(CELToken(text, at, None, text))
        at = end
    result.append(CELToken("end", len(source), None, "<EOF>"))
    return result


def parse_number(source: str, token: CELToken, negative: bool) -> int | float:
    """Parses a number with its sign. The sign is part of it: -9223372036854775808 has no positive."""
    text, radix = token.text, 16 if token.text.startswith("0x") else 10
    if radix == 10 and any(char in text for char in ".eE"):
        value = float(text)
        if math.isinf(value):
            raise CELCompileError(source, [(token.offset, "invalid double literal")])
        return -value if negative else value
    unsigned = text[-1] in "uU"
    digits = text[:-1] if unsigned else text
    # Python refuses to parse decimal numbers of thousands of digits.
    integer = int(digits, radix) if len(digits) < _MAX_DIGITS else 1 << 64
    if unsigned:
        if integer > UINT_MAX:
            raise CELCompileError(source, [(token.offset, "invalid uint literal")])
        return UInt(integer)
    integer = -integer if negative else integer
    if not INT_MIN <= integer <= INT_MAX:
        raise CELCompileError(source, [(token.offset, "invalid int literal")])
    return integer


def _read_string(source: str, at: int, opening: str, start: int) -> tuple[str | bytes | None, int]:
    quote = opening.lstrip("bBrR")
    prefix = opening[: -len(quote)].lower()
    end = start
    while True:
        if end >= len(source) or (len(quote) == 1 and source[end] in "\r\n"):
            return None, min(end, len(source))
        if source.startswith(quote, end):
            break
        end += 2 if source[end] == "\\" and "r" not in prefix else 1
    body = source[start:end]
    if "r" not in prefix and "\\" in body:
        return _unescape_literal(source, at, body, "b" in prefix), end + len(quote)
    return (body.encode() if "b" in prefix else body), end + len(quote)


def _unescape_literal(source: str, at: int, body: str, as_bytes: bool) -> str | bytes:
    """In bytes `\\xff` and `\\377` are one byte; in strings, one character."""
    text: list[str] = []
    raw = bytearray()
    index = 0
    while index < len(body):
        char = body[index]
        index += 1
        code: int | None = None
        octet = False
        if char == "\\":
            char = body[index : index + 1]
            index += 1
            if char in _ESCAPES and char:
                code = _ESCAPES[char]
            elif char in _HEX_ESCAPES and char:
                digits = body[index : index + _HEX_ESCAPES[char]]
                code, octet = _parse_digits(digits, 16, _HEX_ESCAPES[char]), char in "xX"
                index += _HEX_ESCAPES[char]
            elif char and char in "0123":
                code, octet = _parse_digits(body[index - 1 : index + 2], 8, 3), True
                index += 2
            if code is None or code > 0x10FFFF or 0xD800 <= code < 0xE000 or (as_bytes and char in ("u", "U")):
                raise CELCompileError(source, [(at, "unable to unescape string")])
            char = chr(code)
        if as_bytes:
            raw += bytes([code]) if octet and code is not None else char.encode()
        else:
            text.append(char)
    return bytes(raw) if as_bytes else "".join(text)


def _parse_digits(text: str, radix: int, length: int) -> int | None:
    try:
        return int(text, radix) if len(text) == length and text.isalnum() else None
    except ValueError:
        return None
