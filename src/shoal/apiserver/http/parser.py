"""Parses bytes into requests: httptools callbacks, request limits and rejections.

Everything a client sends ends up in `parsed`, in order: requests, and at most one error, after which nothing more is
read. There is no transport and no clock here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import httptools

from shoal.apiserver.http.limits import ConnectionPhase, HTTPLimits
from shoal.objects.errors import BadRequest, StatusError, TooLarge, UnsupportedMedia
from shoal.objects.wire import ClientCertificate, Request

_METHODS = {name.encode(): name for name in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")}
_HEX_BYTES = {f"{a}{b}": bytes.fromhex(f"{a}{b}") for a in "0123456789abcdefABCDEF" for b in "0123456789abcdefABCDEF"}
_HEADER_NAMES: dict[bytes, str] = {}
_MAX_HEADER_NAMES = 512
_CHECKED_HEADERS = frozenset({"content-length", "content-encoding", "expect"})
_IDLE, _HEAD, _BODY = ConnectionPhase.IDLE, ConnectionPhase.HEAD, ConnectionPhase.BODY
_GET, _HTTP_1_1 = b"GET ", b" HTTP/1.1\r\n"


@dataclass(slots=True)
class ParsedRequest:
    """A complete request and the framing its response needs."""

    request: Request
    keep_alive: bool
    is_http_1_1: bool
    """False for HTTP/1.0: a stream then ends with the connection."""
    wants_upgrade: bool = False
    """The client offers another protocol on this connection."""


class RequestParser:
    __slots__ = (
        "_body",
        "_body_bytes",
        "_cached_headers",
        "_cached_tail",
        "_certificate",
        "_error",
        "_head_bytes_bound",
        "_header_lines",
        "_headers",
        "_http_version",
        "_limits",
        "_parser",
        "_raw_headers",
        "_remote_addr",
        "_target",
        "_unreported_bytes",
        "has_trailing_bytes",
        "is_done",
        "parsed",
        "phase",
        "wants_continue",
    )  # fmt: skip

    def __init__(self, limits: HTTPLimits, remote_addr: str, certificate: ClientCertificate | None) -> None:
        self._limits = limits
        self._remote_addr = remote_addr
        self._certificate = certificate
        self._parser = httptools.HttpRequestParser(self)
        self._error: StatusError | None = None
        self.parsed: deque[ParsedRequest | StatusError] = deque()
        self.is_done = False
        """Nothing more is read: the last request closes the connection or was rejected."""
        self.has_trailing_bytes = False
        """Bytes arrived after the last request. After an upgrade request they belong to a protocol that was not agreed
        on yet.
        """
        self.phase = ConnectionPhase.IDLE
        self.wants_continue = False
        self._target = b""
        self._header_lines: list[tuple[str, str]] = []
        self._headers: dict[str, str] = {}
        self._raw_headers: tuple[tuple[str, str], ...] = ()
        self._http_version = ""
        self._body: list[bytes] = []
        self._body_bytes = 0
        """Body bytes received so far."""
        self._unreported_bytes = 0
        """Bytes fed since httptools last reported progress."""
        self._head_bytes_bound = 0
        """Upper bound of the length of the current head."""
        self._cached_tail = b""
        """Everything after the target of the last GET that arrived in one piece. Empty if there was none."""
        self._cached_headers: dict[str, str] = {}

    def feed(self, data: bytes) -> None:
        if self.is_done:
            self.has_trailing_bytes = True
            return
        is_start = self.phase is _IDLE
        if is_start:
            if self._cached_tail and data.endswith(self._cached_tail) and self._parse_from_cache(data):
                return
            self._head_bytes_bound = 0
        parsed_before = len(self.parsed)
        self._head_bytes_bound += len(data)
        self._unreported_bytes += len(data)
        try:
            self._parser.feed_data(data)
            # httptools does not report an unfinished header or trailer, so its length is only visible here.
            if self._unreported_bytes > self._limits.max_header_bytes:
                self._fail(_headers_too_large_error(self._limits))
        except httptools.HttpParserUpgrade as upgrade:
            self.is_done = True
            self.has_trailing_bytes = upgrade.args[0] < len(data)
        except (httptools.HttpParserError, StatusError) as error:
            if not self.is_done:
                self.is_done = True
                self.parsed.append(self._error or BadRequest(f"malformed HTTP request: {error}"))
        if is_start and self.phase is _IDLE and len(self.parsed) == parsed_before + 1 and not self.is_done:
            self._cache_headers(data)

    # --- fast path: most GETs of one client differ only in their target, so the headers need not be parsed again

    def _cache_headers(self, data: bytes) -> None:
        """Keeps the headers of a bodyless GET that arrived as exactly one request, for `_parse_from_cache`."""
        tail_start = data.find(_HTTP_1_1)
        if data[:tail_start] == _GET + self._target and not self._body_bytes and not self._raw_headers:
            self._cached_tail, self._cached_headers = data[tail_start:], self._headers

    def _parse_from_cache(self, data: bytes) -> bool:
        """Returns True if the data is a GET with the cached headers and appends it to `parsed`. Any doubtful request is
        left to the parser.
        """
        target = data[len(_GET) : -len(self._cached_tail)]
        if not data.startswith(_GET) or not target.isascii() or len(data) > self._limits.max_header_bytes:
            return False
        text = target.decode("ascii")
        if not text.startswith("/") or not text.isprintable() or " " in text or "%" in text or "#" in text:
            return False
        path, _, query = text.partition("?")
        request = Request("GET", path, query, self._cached_headers, b"", self._certificate, self._remote_addr)
        self.parsed.append(ParsedRequest(request, True, True))
        return True

    # --- called by httptools ---

    def on_message_begin(self) -> None:
        self.phase = _HEAD
        self._target = b""
        self._header_lines = []
        self._raw_headers = ()
        self._body = []
        self._body_bytes = self._unreported_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._target = self._target + url if self._target else url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_lines.append((_HEADER_NAMES.get(name) or _lower_header_name(name), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self.phase = _BODY
        self._unreported_bytes = 0
        # Copied now: httptools later reports trailers as headers, and they must not be taken for headers.
        lines = self._header_lines
        self._headers = headers = dict(lines)
        if len(headers) != len(lines):
            self._raw_headers = tuple(lines)
            self._headers = headers = _join_repeated_headers(lines)
        self._http_version = self._parser.get_http_version()
        if self._http_version != "1.1" or "host" not in headers:
            self._check_version(headers)
        if self._head_bytes_bound > self._limits.max_header_bytes:
            self._check_head_size()
        if self._raw_headers or not _CHECKED_HEADERS.isdisjoint(headers):
            self._check_headers(headers)

    def on_body(self, data: bytes) -> None:
        self.wants_continue = False
        self._unreported_bytes = 0
        self._body.append(data)
        self._body_bytes += len(data)
        if self._body_bytes > self._limits.max_body_bytes:
            self._fail(_body_too_large_error(self._limits))

    def on_message_complete(self) -> None:
        parser = self._parser
        method = parser.get_method()
        path, query = self._split_target()
        request = Request(
            _METHODS.get(method) or method.decode(),
            path,
            query,
            self._headers,
            b"".join(self._body),
            self._certificate,
            self._remote_addr,
            self._raw_headers,
        )
        # Bytes after an upgrade request are not HTTP/1.1.
        upgrade = parser.should_upgrade()
        keep_alive = parser.should_keep_alive() and not upgrade
        self.parsed.append(ParsedRequest(request, keep_alive, self._http_version == "1.1", upgrade))
        self.is_done = not keep_alive
        self.phase = _IDLE
        self.wants_continue = False
        self._unreported_bytes = 0

    # --- checks ---

    def _check_version(self, headers: Mapping[str, str]) -> None:
        if self._http_version == "1.1":
            self._fail(BadRequest("missing required Host header"))
        if self._http_version != "1.0":
            message = f"HTTP/{self._http_version} is not supported"
            self._fail(StatusError(message, code=505, reason="HTTPVersionNotSupported"))
        if "transfer-encoding" in headers:
            self._fail(BadRequest("Transfer-Encoding is not part of HTTP/1.0"))

    def _check_head_size(self) -> None:
        """Called only if the head may be too large: measuring it costs every request."""
        length = len(self._target) + sum(len(name) + len(value) + 4 for name, value in self._header_lines)
        if length > self._limits.max_header_bytes:
            self._fail(_headers_too_large_error(self._limits))

    def _check_headers(self, headers: Mapping[str, str]) -> None:
        if sum(name == "host" for name, _ in self._raw_headers) > 1:
            self._fail(BadRequest("too many Host headers"))
        if int(headers.get("content-length", "0")) > self._limits.max_body_bytes:
            self._fail(_body_too_large_error(self._limits))
        encoding = headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity"):
            self._fail(UnsupportedMedia(f"request bodies with Content-Encoding {encoding} are not supported"))
        expectation = headers.get("expect", "").strip().lower()
        if expectation not in ("", "100-continue"):
            self._fail(StatusError(f"unknown expectation: {expectation}", code=417, reason="ExpectationFailed"))
        self.wants_continue = bool(expectation) and self._http_version == "1.1"

    def _split_target(self) -> tuple[str, str]:
        target = self._target.decode("latin-1")
        if not target.startswith("/"):
            scheme, separator, rest = target.partition("://")
            if not separator or scheme.lower() not in ("http", "https"):
                self._fail(BadRequest(f"unsupported request target: {target}"))
            target = rest[len(rest.split("/", 1)[0].split("?", 1)[0]) :]
            target = target if target.startswith("/") else "/" + target
        path, _, query = target.partition("#")[0].partition("?")
        if "%" in path:
            try:
                path = _percent_decode(path)
            except (KeyError, UnicodeDecodeError):
                self._fail(BadRequest(f"invalid URL escape in path: {path}"))
        return path, query

    def _fail(self, error: StatusError) -> None:
        self._error = error
        raise error


def _lower_header_name(name: bytes) -> str:
    lowered = name.decode("latin-1").lower()
    if len(_HEADER_NAMES) < _MAX_HEADER_NAMES:
        _HEADER_NAMES[name] = lowered
    return lowered


def _join_repeated_headers(lines: list[tuple[str, str]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in lines:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _percent_decode(path: str) -> str:
    first, *rest = path.split("%")
    return b"".join(
        [first.encode("latin-1"), *(_HEX_BYTES[part[:2]] + part[2:].encode("latin-1") for part in rest)]
    ).decode()


def _body_too_large_error(limits: HTTPLimits) -> StatusError:
    return TooLarge(f"Request entity too large: limit is {limits.max_body_bytes}")


def _headers_too_large_error(limits: HTTPLimits) -> StatusError:
    return StatusError(
        f"request headers too large: limit is {limits.max_header_bytes}", code=431, reason="RequestHeaderFieldsTooLarge"
    )
