"""Parses bytes into requests: httptools callbacks, request limits and rejections.

Everything a client sends ends up in `parsed`, in order: requests, and at most one error, after which nothing more is
read. There is no transport and no clock here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import httptools

from shoal.apiserver.http.limits import Limits, Phase
from shoal.objects.errors import BadRequest, StatusError, TooLarge, UnsupportedMedia
from shoal.objects.wire import ClientCertificate, Request

_METHODS = {name.encode(): name for name in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")}
_BYTES = {f"{a}{b}": bytes.fromhex(f"{a}{b}") for a in "0123456789abcdefABCDEF" for b in "0123456789abcdefABCDEF"}
_NAMES: dict[bytes, str] = {}
_NAMES_KEPT = 512
_CHECKED = frozenset({"content-length", "content-encoding", "expect"})
_IDLE, _HEAD, _BODY = Phase.IDLE, Phase.HEAD, Phase.BODY
_READ, _VERSION = b"GET ", b" HTTP/1.1\r\n"


@dataclass(slots=True)
class Incoming:
    """A complete request and the framing its response needs."""

    request: Request
    keep_alive: bool
    chunks: bool
    """False for HTTP/1.0: a stream then ends with the connection."""
    upgrade: bool = False
    """The client offers another protocol on this connection."""


class RequestReader:
    __slots__ = (
        "_body", "_bound", "_certificate", "_fed", "_headers", "_known", "_known_headers", "_limits", "_lines",
        "_parser", "_refusal", "_remote", "_repeated", "_size", "_target", "_version", "ended", "hasty", "phase",
        "ready", "wants_continue",
    )  # fmt: skip

    def __init__(self, limits: Limits, remote: str, certificate: ClientCertificate | None) -> None:
        self._limits = limits
        self._remote = remote
        self._certificate = certificate
        self._parser = httptools.HttpRequestParser(self)
        self._refusal: StatusError | None = None
        self.ready: deque[Incoming | StatusError] = deque()
        self.ended = False
        """Nothing more is read: the last request closes the connection or was rejected."""
        self.hasty = False
        """Bytes arrived after the last request. After an upgrade request they belong to a protocol that was not agreed
        on yet.
        """
        self.phase = Phase.IDLE
        self.wants_continue = False
        self._target = b""
        self._lines: list[tuple[str, str]] = []
        self._headers: dict[str, str] = {}
        self._repeated: tuple[tuple[str, str], ...] = ()
        self._version = ""
        self._body: list[bytes] = []
        self._size = 0
        """Body bytes received so far."""
        self._fed = 0
        """Bytes fed since httptools last reported progress."""
        self._bound = 0
        """Upper bound of the length of the current head."""
        self._known = b""
        """Everything after the target of the last GET that arrived in one piece. Empty if there was none."""
        self._known_headers: dict[str, str] = {}

    def feed(self, data: bytes) -> None:
        if self.ended:
            self.hasty = True
            return
        begins = self.phase is _IDLE
        if begins:
            if self._known and data.endswith(self._known) and self._read_again(data):
                return
            self._bound = 0
        before = len(self.ready)
        self._bound += len(data)
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
            # httptools does not report an unfinished header or trailer, so its length is only visible here.
            if self._fed > self._limits.max_header_bytes:
                self._refuse(_headers_too_large(self._limits))
        except httptools.HttpParserUpgrade as upgrade:
            self.ended = True
            self.hasty = upgrade.args[0] < len(data)
        except (httptools.HttpParserError, StatusError) as error:
            if not self.ended:
                self.ended = True
                self.ready.append(self._refusal or BadRequest(f"malformed HTTP request: {error}"))
        if begins and self.phase is _IDLE and len(self.ready) == before + 1 and not self.ended:
            self._remember(data)

    # --- fast path: most GETs of one client differ only in their target, so the headers need not be parsed again

    def _remember(self, data: bytes) -> None:
        """Keeps the headers of a bodyless GET that arrived as exactly one request, for `_parse_from_cache`."""
        at = data.find(_VERSION)
        if data[:at] == _READ + self._target and not self._size and not self._repeated:
            self._known, self._known_headers = data[at:], self._headers

    def _read_again(self, data: bytes) -> bool:
        """Returns True if the data is a GET with the cached headers and appends it to `parsed`. Any doubtful request is
        left to the parser.
        """
        target = data[len(_READ) : -len(self._known)]
        if not data.startswith(_READ) or not target.isascii() or len(data) > self._limits.max_header_bytes:
            return False
        text = target.decode("ascii")
        if not text.startswith("/") or not text.isprintable() or " " in text or "%" in text or "#" in text:
            return False
        path, _, query = text.partition("?")
        request = Request("GET", path, query, self._known_headers, b"", self._certificate, self._remote)
        self.ready.append(Incoming(request, True, True))
        return True

    # --- called by httptools ---

    def on_message_begin(self) -> None:
        self.phase = _HEAD
        self._target = b""
        self._lines = []
        self._repeated = ()
        self._body = []
        self._size = self._fed = 0

    def on_url(self, url: bytes) -> None:
        self._target = self._target + url if self._target else url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._lines.append((_NAMES.get(name) or _lower(name), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self.phase = _BODY
        self._fed = 0
        # Copied now: httptools later reports trailers as headers, and they must not be taken for headers.
        lines = self._lines
        self._headers = headers = dict(lines)
        if len(headers) != len(lines):
            self._repeated = tuple(lines)
            self._headers = headers = _joined(lines)
        self._version = self._parser.get_http_version()
        if self._version != "1.1" or "host" not in headers:
            self._check_version(headers)
        if self._bound > self._limits.max_header_bytes:
            self._check_length()
        if self._repeated or not _CHECKED.isdisjoint(headers):
            self._check(headers)

    def on_body(self, data: bytes) -> None:
        self.wants_continue = False
        self._fed = 0
        self._body.append(data)
        self._size += len(data)
        if self._size > self._limits.max_body:
            self._refuse(_body_too_large(self._limits))

    def on_message_complete(self) -> None:
        parser = self._parser
        verb = parser.get_method()
        path, query = self._split_target()
        request = Request(
            _METHODS.get(verb) or verb.decode(),
            path,
            query,
            self._headers,
            b"".join(self._body),
            self._certificate,
            self._remote,
            self._repeated,
        )
        # Bytes after an upgrade request are not HTTP/1.1.
        upgrade = parser.should_upgrade()
        keep_alive = parser.should_keep_alive() and not upgrade
        self.ready.append(Incoming(request, keep_alive, self._version == "1.1", upgrade))
        self.ended = not keep_alive
        self.phase = _IDLE
        self.wants_continue = False
        self._fed = 0

    # --- checks ---

    def _check_version(self, headers: Mapping[str, str]) -> None:
        if self._version == "1.1":
            self._refuse(BadRequest("missing required Host header"))
        if self._version != "1.0":
            message = f"HTTP/{self._version} is not supported"
            self._refuse(StatusError(message, code=505, reason="HTTPVersionNotSupported"))
        if "transfer-encoding" in headers:
            self._refuse(BadRequest("Transfer-Encoding is not part of HTTP/1.0"))

    def _check_length(self) -> None:
        """Called only if the head may be too large: measuring it costs every request."""
        length = len(self._target) + sum(len(name) + len(value) + 4 for name, value in self._lines)
        if length > self._limits.max_header_bytes:
            self._refuse(_headers_too_large(self._limits))

    def _check(self, headers: Mapping[str, str]) -> None:
        if sum(name == "host" for name, _ in self._repeated) > 1:
            self._refuse(BadRequest("too many Host headers"))
        if int(headers.get("content-length", "0")) > self._limits.max_body:
            self._refuse(_body_too_large(self._limits))
        encoding = headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity"):
            self._refuse(UnsupportedMedia(f"request bodies with Content-Encoding {encoding} are not supported"))
        expected = headers.get("expect", "").strip().lower()
        if expected not in ("", "100-continue"):
            self._refuse(StatusError(f"unknown expectation: {expected}", code=417, reason="ExpectationFailed"))
        self.wants_continue = bool(expected) and self._version == "1.1"

    def _split_target(self) -> tuple[str, str]:
        target = self._target.decode("latin-1")
        if not target.startswith("/"):
            scheme, separator, rest = target.partition("://")
            if not separator or scheme.lower() not in ("http", "https"):
                self._refuse(BadRequest(f"unsupported request target: {target}"))
            target = rest[len(rest.split("/", 1)[0].split("?", 1)[0]) :]
            target = target if target.startswith("/") else "/" + target
        path, _, query = target.partition("#")[0].partition("?")
        if "%" in path:
            try:
                path = _unescape(path)
            except (KeyError, UnicodeDecodeError):
                self._refuse(BadRequest(f"invalid URL escape in path: {path}"))
        return path, query

    def _refuse(self, error: StatusError) -> None:
        self._refusal = error
        raise error


def _lower(name: bytes) -> str:
    lowered = name.decode("latin-1").lower()
    if len(_NAMES) < _NAMES_KEPT:
        _NAMES[name] = lowered
    return lowered


def _joined(lines: list[tuple[str, str]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in lines:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _unescape(path: str) -> str:
    first, *rest = path.split("%")
    return b"".join(
        [first.encode("latin-1"), *(_BYTES[part[:2]] + part[2:].encode("latin-1") for part in rest)]
    ).decode()


def _body_too_large(limits: Limits) -> StatusError:
    return TooLarge(f"Request entity too large: limit is {limits.max_body}")


def _headers_too_large(limits: Limits) -> StatusError:
    return StatusError(
        f"request headers too large: limit is {limits.max_header_bytes}", code=431, reason="RequestHeaderFieldsTooLarge"
    )
