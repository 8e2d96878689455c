"""URLs as Go's net/url parses them for a request: absolute, or a path from the root."""

from __future__ import annotations

import json
import re
from urllib.parse import quote, unquote

from shoal.objects.cel.errors import CELError
from shoal.objects.cel.overloads import Overload, conversion_cost, function_overload, method_overload, traversal_cost
from shoal.objects.cel.types import BOOL, STRING, list_of, map_of, opaque_type
from shoal.objects.cel.values import OpaqueValue

URL = opaque_type("kubernetes.URL")
_match_scheme = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII).match
_match_first_segment = re.compile(r"[^/?#:]*:").match
_find_invalid_escape = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL).search
_find_invalid_host_char = re.compile(r"[\x00-\x20\"<>\\^`{|}\x7f#/?@]|%(?![0-9A-Fa-f]{2})").search
_find_control_char = re.compile(r"[\x00-\x1f\x7f]").search
_PATH_SAFE = "/$&+,:;=@!'()*[]~"
_IS_ESCAPED_PATH = re.compile(r"(?:[A-Za-z0-9\-_.~!$&'()*+,;=:@/\[\]]|%[0-9A-Fa-f]{2})*").fullmatch


class ParsedURL:
    """A parsed URL. Two are equal if their texts are."""

    __slots__ = ("host", "path", "query", "scheme", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.host = self.path = self.query = ""
        scheme_match = _match_scheme(text)
        self.scheme = scheme_match.group()[:-1].lower() if scheme_match else ""
        rest = text[scheme_match.end() :] if scheme_match else text
        if not scheme_match and (text.startswith(":") or _match_first_segment(text)):
            raise ValueError("missing protocol scheme" if text.startswith(":") else "invalid URI for request")
        rest = rest.split("#", 1)[0]
        rest, _, self.query = rest.partition("?")
        if not rest.startswith("/"):
            if not self.scheme:
                raise ValueError("invalid URI for request")
            return
        if self.scheme and rest.startswith("//"):
            authority, slash, path = rest[2:].partition("/")
            rest = slash + path
            self.host = authority.rpartition("@")[2]
            _check_host(self.host)
        if bad := _find_invalid_escape(rest):
            raise ValueError(f"invalid URL escape {json.dumps(bad.group())}")
        self.path = rest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ParsedURL) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


def parse_url(text: str) -> ParsedURL:
    """Raises ValueError with Go's message."""
    reason = "empty url" if not text else ""
    if _find_control_char(text):
        reason = "net/url: invalid control character in URL"
    try:
        if reason:
            raise ValueError(reason)
        return ParsedURL(text)
    except ValueError as problem:
        raise ValueError(f"parse {json.dumps(text, ensure_ascii=False)}: {problem}") from None


def _check_host(host: str) -> None:
    name, port = host, ""
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise ValueError("missing ']' in host")
        name, port = host[1:end], host[end + 1 :]
    elif ":" in host:
        name, _, after = host.rpartition(":")
        port = f":{after}"
    if port and not (port[0] == ":" and (port == ":" or (port[1:].isascii() and port[1:].isdigit()))):
        raise ValueError(f"invalid port {json.dumps(port)} after host")
    if bad := _find_invalid_host_char(name):
        raise ValueError(f"invalid character {json.dumps(bad.group())} in host name")


def _url(text: str) -> OpaqueValue:
    try:
        return OpaqueValue("kubernetes.URL", parse_url(text))
    except ValueError as why:
        raise CELError(f"URL parse error during conversion from string: {why}") from None


def _is_url(text: str) -> bool:
    try:
        return bool(parse_url(text))
    except ValueError:
        return False


def _hostname(url: OpaqueValue) -> str:
    host: str = url.core.host
    if host.startswith("["):
        return host[1 : host.rfind("]")]
    return host.rpartition(":")[0] if ":" in host else host


def _port(url: OpaqueValue) -> str:
    host: str = url.core.host
    after = host[host.rfind("]") + 1 :]
    return after.rpartition(":")[2] if ":" in after else ""


def _escaped_path(url: OpaqueValue) -> str:
    path: str = url.core.path
    return path if _IS_ESCAPED_PATH(path) else quote(unquote(path), safe=_PATH_SAFE)


def _query(url: OpaqueValue) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for pair in url.core.query.split("&"):
        if not pair or ";" in pair or _find_invalid_escape(pair):
            continue
        key, _, value = pair.partition("=")
        values.setdefault(unquote(key.replace("+", " ")), []).append(unquote(value.replace("+", " ")))
    return values


OVERLOADS: list[Overload] = [
    function_overload("url", (STRING,), URL, _url, traversal_cost),
    function_overload("isURL", (STRING,), BOOL, _is_url, conversion_cost),
    method_overload("getScheme", (URL,), STRING, lambda url: url.core.scheme),
    method_overload("getHost", (URL,), STRING, lambda url: url.core.host),
    method_overload("getHostname", (URL,), STRING, _hostname),
    method_overload("getPort", (URL,), STRING, _port),
    method_overload("getEscapedPath", (URL,), STRING, _escaped_path, lambda url: conversion_cost(url.core.path)),
    method_overload(
        "getQuery", (URL,), map_of(STRING, list_of(STRING)), _query, lambda url: conversion_cost(url.core.query)
    ),
]
