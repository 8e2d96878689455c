"""URLs as Go's net/url parses them for a request: absolute, or a path from the root."""

from __future__ import annotations

import json
import re
from urllib.parse import quote, unquote

from shoal.objects.cel.errors import CelError
from shoal.objects.cel.overloads import Overload, function, method, traversal
from shoal.objects.cel.types import BOOL, STRING, list_of, map_of, opaque
from shoal.objects.cel.values import Opaque

URL = opaque("kubernetes.URL")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_HOST_BAD = re.compile(r"[\x00-\x20\"<>\\^`{|}\x7f#/?@]|%(?![0-9A-Fa-f]{2})")
_PATH_SAFE = "/$&+,:;=@!'()*[]~"
_PATH_FINE = re.compile(r"(?:[A-Za-z0-9\-_.~!$&'()*+,;=:@/\[\]]|%[0-9A-Fa-f]{2})*").fullmatch


class Parts:
    """A parsed URL. Two are equal if their texts are."""

    __slots__ = ("host", "path", "query", "scheme", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.host = self.path = self.query = ""
        found = _SCHEME.match(text)
        self.scheme = found.group()[:-1].lower() if found else ""
        rest = text[found.end() :] if found else text
        if not found and (text.startswith(":") or re.match(r"[^/?#]*:", text)):
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
        if bad := _ESCAPE.search(rest):
            raise ValueError(f"invalid URL escape {json.dumps(bad.group())}")
        self.path = rest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parts) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


def parsed(text: str) -> Parts:
    """Raises ValueError with Go's message."""
    why = "empty url" if not text else ""
    if any(char < " " or char == "\x7f" for char in text):
        why = "net/url: invalid control character in URL"
    try:
        if why:
            raise ValueError(why)
        return Parts(text)
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
    if bad := _HOST_BAD.search(name):
        raise ValueError(f"invalid character {json.dumps(bad.group())} in host name")


def _url(text: str) -> Opaque:
    try:
        return Opaque("kubernetes.URL", parsed(text))
    except ValueError as why:
        raise CelError(f"URL parse error during conversion from string: {why}") from None


def _is_url(text: str) -> bool:
    try:
        return bool(parsed(text))
    except ValueError:
        return False


def _hostname(url: Opaque) -> str:
    host: str = url.core.host
    if host.startswith("["):
        return host[1 : host.rfind("]")]
    return host.rpartition(":")[0] if ":" in host else host


def _port(url: Opaque) -> str:
    host: str = url.core.host
    after = host[host.rfind("]") + 1 :]
    return after.rpartition(":")[2] if ":" in after else ""


def _escaped_path(url: Opaque) -> str:
    path: str = url.core.path
    return path if _PATH_FINE(path) else quote(unquote(path), safe=_PATH_SAFE)


def _query(url: Opaque) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in url.core.query.split("&"):
        if not pair or ";" in pair or _ESCAPE.search(pair):
            continue
        key, _, value = pair.partition("=")
        found.setdefault(unquote(key.replace("+", " ")), []).append(unquote(value.replace("+", " ")))
    return found


OVERLOADS: list[Overload] = [
    function("url", (STRING,), URL, _url, traversal),
    function("isURL", (STRING,), BOOL, _is_url),
    method("getScheme", (URL,), STRING, lambda url: url.core.scheme),
    method("getHost", (URL,), STRING, lambda url: url.core.host),
    method("getHostname", (URL,), STRING, _hostname),
    method("getPort", (URL,), STRING, _port),
    method("getEscapedPath", (URL,), STRING, _escaped_path),
    method("getQuery", (URL,), map_of(STRING, list_of(STRING)), _query),
]
