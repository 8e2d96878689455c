"""Parses bytes into requests: httptools callbacks, request limits and rejections.

Everything a client sends ends up in `parsed`, in order: requests, and at most one error, after which nothing more is
read. What comes after a request that was not taken yet is kept unparsed in `backlog`. There is no transport and no
clock here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import httptools

from shoal.apiserver.http.body_budget import BodyBudget, BodyHold, body_refused_error
from shoal.apiserver.http.limits import ConnectionPhase, HTTPLimits
from shoal.apiserver.http.target import split_target
from shoal.objects.errors import BadRequest, StatusError, TooLarge, UnsupportedMedia
from shoal.objects.wire import ClientCertificate, ClientConnection, Request

_METHODS = {name.encode(): name for name in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")}
_HEADER_NAMES: dict[bytes, str] = {}
_MAX_HEADER_NAMES = 512
_CHECKED_HEADERS = frozenset({"content-length", "transfer-encoding", "content-encoding", "expect"})
_IDLE, _HEAD, _BODY = ConnectionPhase.IDLE, ConnectionPhase.HEAD, ConnectionPhase.BODY
_GET, _HTTP_1_1 = b"GET ", b" HTTP/1.1\r\n"
_SKIPPED_BODY_BYTES = 64 * 1024
"""A refused body up to this size is read and dropped, so that the connection can be used again."""
_PARSE_AHEAD_BYTES = 4096
"""Bytes parsed at once outside of a body: a request takes many times more memory than its bytes."""


@dataclass(slots=True)
class ParsedRequest:
    """A complete request and the framing its response needs."""

    request: Request
    keep_alive: bool
    is_http_1_1: bool
    """False for HTTP/1.0: a stream then ends with the connection."""
    wants_upgrade: bool = False
    """The client offers another protocol on this connection."""

    def release(self) -> None:
        """Drops the body. An idle connection remembers its last request."""
        request = self.request
        if isinstance(request.hold, BodyHold):
            request.hold.release()
            self.request = Request(request.method, request.path, request.query, request.headers)


class RequestParser:
    __slots__ = (
        "_announced_bytes", "_bodies", "_body", "_cached_headers", "_cached_tail", "_certificate", "_error",
        "_head_bytes_bound", "_header_lines", "_headers", "_http_version", "_is_skipping", "_limits", "_parser",
        "_raw_headers", "_remote_addr", "_target", "_unreported_bytes", "backlog", "body_bytes", "connection",
        "has_trailing_bytes", "hold", "is_done", "parsed", "phase", "wants_continue",
    )  # fmt: skip

    def __init__(
        self, limits: HTTPLimits, remote_addr: str, certificate: ClientCertificate | None, bodies: BodyBudget
    ) -> None:
        self._limits = limits
        self._bodies = bodies
        self._remote_addr = remote_addr
        self._certificate = certificate
        self.connection = ClientConnection()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._error: StatusError | None = None
        self.parsed: deque[ParsedRequest | StatusError] = deque()
        self.is_done = False
        """Nothing more is read: the last request closes the connection or was rejected."""
        self.has_trailing_bytes = False
        """Bytes arrived after the last request. After an upgrade request they belong to a protocol that was not agreed
        on yet.
        """
        self.backlog = b""
        """Bytes that are parsed when everything in `parsed` was taken."""
        self.hold: BodyHold | None = None
        """Counts the body that is being received. None until its head was answered with 100."""
        self._is_skipping = False
        """The current body is dropped as it comes: its request was answered."""
        self.phase = ConnectionPhase.IDLE
        self.wants_continue = False
        self._target = b""
        self._header_lines: list[tuple[str, str]] = []
        self._headers: dict[str, str] = {}
        self._raw_headers: tuple[tuple[str, str], ...] = ()
        self._http_version = ""
        self._body: bytes | bytearray = b""
        self._announced_bytes: int | None = 0
        """Length of the current body by its header. None: it is sent in chunks."""
        self.body_bytes = 0
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
        if self.backlog:
            self.backlog += data
            return
        if len(data) <= _PARSE_AHEAD_BYTES:
            self._parse(data)
        else:
            self._parse_in_steps(data)

    def keep(self, data: bytes) -> None:
        """Keeps bytes that come while an earlier request is in progress."""
        if self.is_done:
            self.has_trailing_bytes = True
        else:
            self.backlog += data

    def parse_backlog(self) -> None:
        data, self.backlog = self.backlog, b""
        self.feed(data)

    @property
    def needs_head_answer(self) -> bool:
        """True if a body is announced that nobody has decided about."""
        return self.phase is _BODY and self.hold is None and not self._is_skipping and not self.is_done

    def skip_body(self) -> bool:
        """Drops the current body as it comes. Returns False if that is not worth it, or no request can follow."""
        announced = self._announced_bytes
        if announced is None or announced > _SKIPPED_BODY_BYTES or self.wants_continue:
            return False
        if self.is_done or self._parser.should_upgrade() or not self._parser.should_keep_alive():
            return False
        self.discard()
        self._is_skipping = True
        return True

    def discard(self) -> None:
        """Drops everything that was received."""
        for each in self.parsed:
            if isinstance(each, ParsedRequest):
                each.release()
        self.parsed.clear()
        self.backlog = self._body = b""
        if self.hold is not None:
            self.hold.release()
            self.hold = None

    @property
    def method(self) -> str:
        method = self._parser.get_method()
        return _METHODS.get(method) or str(method.decode())

    def close(self) -> None:
        """Drops everything, and references to itself. A closed connection must not wait for the garbage collector: its
        transport has a quarter of a megabyte.
        """
        self.is_done = True
        self.discard()
        self.connection.close()
        self._parser = self._error = None

    def head(self) -> Request:
        """The request whose body is being received, without the body."""
        try:
            path, query = split_target(self._target)
        except BadRequest as error:
            self._fail(error)
        return Request(
            self.method,
            path,
            query,
            self._headers,
            b"",
            self._certificate,
            self._remote_addr,
            self._raw_headers,
            connection=self.connection,
        )

    def new_hold(self) -> BodyHold:
        """Counts what was received of the current body."""
        return self._bodies.hold(self.body_bytes, self._announced_bytes)

    def _parse_in_steps(self, data: bytes) -> None:
        """Stops after the step that completes a request. A body is one step, if its length is known."""
        view, at = memoryview(data), 0
        while at < len(data) and not self.is_done:
            if self.parsed:
                self.backlog = bytes(view[at:])
                return
            step = _PARSE_AHEAD_BYTES
            if self.phase is _BODY:
                step = max(step, (self._announced_bytes or 0) - self.body_bytes)
            self._parse(bytes(view[at : at + step]))
            at += step
        if at < len(data):
            self.has_trailing_bytes = True

    def _parse(self, data: bytes) -> None:
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
        if data[:tail_start] == _GET + self._target and not self.body_bytes and not self._raw_headers:
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
        request.connection = self.connection
        self.parsed.append(ParsedRequest(request, True, True))
        return True

    # --- called by httptools ---

    def on_message_begin(self) -> None:
        self.phase = _HEAD
        self._target = b""
        self._header_lines = []
        self._raw_headers = ()
        self._body = b""
        self.body_bytes = self._unreported_bytes = 0

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
        self._announced_bytes = 0
        if self._raw_headers or not _CHECKED_HEADERS.isdisjoint(headers):
            self._check_headers(headers)

    def on_body(self, data: bytes) -> None:
        self.wants_continue = False
        self._unreported_bytes = 0
        self.body_bytes += len(data)
        if self._is_skipping:
            return
        if self.body_bytes > self._limits.max_body_bytes:
            self._fail(_body_too_large_error(self._limits))
        if self.hold is not None and not self.hold.grow(len(data)):
            self.hold = None
            self._fail(body_refused_error())
        if not self._body:
            self._body = data
        elif isinstance(self._body, bytearray):
            self._body += data
        else:
            # One buffer: a list of small pieces would take many times more memory than the body.
            self._body = bytearray(self._body) + data

    def on_message_complete(self) -> None:
        if self._is_skipping:
            self._is_skipping = False
            self.phase = _IDLE
            return
        parser = self._parser
        request = self.head()
        if self.body_bytes:
            request.hold = hold = self.hold or self.new_hold()
            hold.finish_reception()
            self.hold = None
            body, self._body = self._body, b""
            request.body = body if isinstance(body, bytes) else bytes(body)
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
        self._announced_bytes = None if "transfer-encoding" in headers else int(headers.get("content-length", "0"))
        if (self._announced_bytes or 0) > self._limits.max_body_bytes:
            self._fail(_body_too_large_error(self._limits))
        encoding = headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity"):
            self._fail(UnsupportedMedia(f"request bodies with Content-Encoding {encoding} are not supported"))
        expectation = headers.get("expect", "").strip().lower()
        if expectation not in ("", "100-continue"):
            self._fail(StatusError(f"unknown expectation: {expectation}", code=417, reason="ExpectationFailed"))
        self.wants_continue = bool(expectation) and self._http_version == "1.1"

    def check_upgrade(self, parsed: ParsedRequest, protocol: str) -> None:
        """Raises BadRequest if the connection cannot become one of another protocol."""
        if not (parsed.wants_upgrade and parsed.is_http_1_1):
            raise BadRequest(f"an HTTP/1.1 request with Connection: Upgrade and Upgrade: {protocol} is required")
        if self.has_trailing_bytes:
            raise BadRequest("data was sent before the upgrade response")

    def _fail(self, error: StatusError) -> NoReturn:
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


def _body_too_large_error(limits: HTTPLimits) -> StatusError:
    return TooLarge(f"Request entity too large: limit is {limits.max_body_bytes}")


def _headers_too_large_error(limits: HTTPLimits) -> StatusError:
    return StatusError(
        f"request headers too large: limit is {limits.max_header_bytes}", code=431, reason="RequestHeaderFieldsTooLarge"
    )
