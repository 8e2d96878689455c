"""Passes a request on that takes its connection over (WebSocket, SPDY), on a connection of its own.

The head of the response is parsed here; the bytes behind a 101 are relayed as they are. Any other response is read as a
whole.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Sequence
from typing import cast
from urllib.parse import urlsplit

from shoal.client.relay import Relay
from shoal.client.transport import Unreachable
from shoal.objects.wire import ByteStream, Receiver, Response, Upgrade

TIMEOUT = 30.0
"""Seconds for the connection and the head of the response."""
JOIN_SECONDS = 30.0
"""A connection that nobody has joined after this time is closed: the client went away."""
MAX_HEAD = 64 * 1024
MAX_BODY = 256 * 1024
_is_token = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_has_control = re.compile(r"[\x00-\x1f\x7f]").search
_is_target = re.compile(r"/[\x21-\x7e]*").fullmatch
_HOP_BY_HOP = ("connection", "content-length", "keep-alive", "transfer-encoding", "upgrade")


async def forward_upgrade(
    server: str,
    tls_context: ssl.SSLContext,
    method: str,
    target: str,
    headers: Sequence[tuple[str, str]],
    body: bytes,
) -> Response | Upgrade:
    """`headers` contain the upgrade, but no Host and no Content-Length. Raises Unreachable, or ValueError for what
    cannot be written as an HTTP request.
    """
    parts = urlsplit(server)
    head = encode_request_head(method, target, (("host", parts.netloc), *headers, ("content-length", str(len(body)))))
    connection = _UpgradeConnection()
    try:
        async with asyncio.timeout(TIMEOUT):
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: connection, parts.hostname or "", parts.port or 443, ssl=tls_context)
            connection.write(head + body)
            return await connection.answer
    except (TimeoutError, OSError) as error:
        connection.abort()
        raise Unreachable(f"{server} cannot be reached: {str(error) or 'no answer in time'}") from error
    except BaseException:
        connection.abort()
        raise


def encode_request_head(method: str, target: str, headers: Sequence[tuple[str, str]]) -> bytes:
    """Raises ValueError for a head that a server could read as another request."""
    if not _is_token(method) or not _is_target(target):
        raise ValueError("not an HTTP request")
    for name, value in headers:
        if not _is_token(name) or _has_control(value):
            raise ValueError("not an HTTP header")
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


class _UpgradeConnection(asyncio.Protocol):
    _transport: asyncio.Transport

    def __init__(self) -> None:
        self.answer: asyncio.Future[Response | Upgrade] = asyncio.get_running_loop().create_future()
        self._buffer = bytearray()
        self._status = 0
        self._headers: tuple[tuple[str, str], ...] = ()
        """Of the response; empty until its head is complete."""
        self._receiver: Receiver | None = None
        self._is_upgraded = self._is_lost = False
        self._timer: asyncio.TimerHandle | None = None

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def abort(self) -> None:
        self.answer.cancel()
        if hasattr(self, "_transport"):
            self._transport.abort()

    def join(self, client: ByteStream) -> Receiver:
        """Relays to the connection of the client and back."""
        if self._timer is not None:
            self._timer.cancel()
        self._receiver = Relay(client)
        early, self._buffer = bytes(self._buffer), bytearray()
        if early:
            self._receiver.data_received(early)
        if self._is_lost:
            self._receiver.connection_lost(None)
        else:
            self._transport.resume_reading()
        return Relay(self._transport)

    # --- called by the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # uvloop discards what it has received but not passed on when a TLS connection ends while reading is paused.
        # With these limits it receives nothing more meanwhile, and learns of the end afterwards.
        transport.set_read_buffer_limits(1, 0)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if self._receiver is not None:
            self._receiver.data_received(data)
            return
        self._buffer += data
        if not self._is_upgraded:
            self._parse()

    def pause_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.pause_writing()

    def resume_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        if self._receiver is not None:
            self._receiver.connection_lost(exc)
        elif self.answer.done():
            return
        elif self._status:
            self._finish_response()
        else:
            self._fail("the server closed the connection without an answer")

    # --- the response ---

    def _parse(self) -> None:
        if self.answer.done():
            return
        if not self._status:
            head, complete, rest = bytes(self._buffer).partition(b"\r\n\r\n")
            if not complete:
                if len(self._buffer) > MAX_HEAD:
                    self._fail("the server's response is not HTTP")
                return
            if not self._parse_head(head):
                return
            self._buffer = bytearray(rest)
        if self._is_complete():
            self._finish_response()
        elif len(self._buffer) > MAX_BODY:
            self._fail("the server's response is too long")

    def _parse_head(self, head: bytes) -> bool:
        """Returns False if it is not the head of a response without an upgrade."""
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status[:3].isdecimal():
            self._fail("the server's response is not HTTP")
            return False
        pairs = (line.partition(":") for line in lines)
        headers = tuple((name.strip().lower(), value.strip()) for name, _, value in pairs)
        if status[:3] == "101":
            self._upgrade(headers, bytes(self._buffer)[len(head) + 4 :])
            return False
        self._status, self._headers = int(status[:3]), headers
        return True

    def _upgrade(self, headers: tuple[tuple[str, str], ...], rest: bytes) -> None:
        self._transport.pause_reading()
        self._is_upgraded, self._buffer = True, bytearray(rest)
        self._timer = asyncio.get_running_loop().call_later(JOIN_SECONDS, self._transport.abort)
        protocol = dict(headers).get("upgrade", "")
        self.answer.set_result(Upgrade(protocol, self.join, headers=_end_to_end(headers)))

    def _is_complete(self) -> bool:
        headers = dict(self._headers)
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._buffer.endswith(b"0\r\n\r\n")
        length = headers.get("content-length", "")
        return length.isdecimal() and len(self._buffer) >= int(length)

    def _finish_response(self) -> None:
        headers, body = dict(self._headers), bytes(self._buffer)
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = _dechunk(body)
        content_type = headers.get("content-type", "application/json")
        rest = tuple(pair for pair in _end_to_end(self._headers) if pair[0] != "content-type")
        self.answer.set_result(Response(self._status, body, content_type, rest))
        self._transport.abort()

    def _fail(self, reason: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(Unreachable(reason))
        self._transport.abort()


def _end_to_end(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in headers if pair[0] not in _HOP_BY_HOP)


def _dechunk(body: bytes) -> bytes:
    """Joins the chunks of a body. What is not well-formed ends it."""
    pieces: list[bytes] = []
    rest = body
    while True:
        size, separator, rest = rest.partition(b"\r\n")
        try:
            count = int(size.partition(b";")[0], 16)
        except ValueError:
            count = 0
        if not separator or count <= 0:
            return b"".join(pieces)
        pieces.append(rest[:count])
        rest = rest[count + 2 :]
