"""Opens a connection that speaks another protocol than HTTP after the server's 101 response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

import orjson

from shoal.client.transport import RESTConfig, Unreachable
from shoal.objects.errors import from_status
from shoal.objects.wire import ByteStream, Receiver

ReceiverFactory = Callable[[ByteStream], Receiver]

TIMEOUT = 30.0
"""Seconds the server has to respond."""
_MAX_BYTES = 64 * 1024


async def upgrade(
    config: RESTConfig, path: str, protocol: str, new_receiver: ReceiverFactory, timeout_seconds: float = TIMEOUT
) -> None:
    """Returns once `new_receiver` has the connection. Raises Unreachable, or the server's rejection as a
    StatusError.
    """
    parts = urlsplit(config.server)
    lines = [f"GET {parts.path.rstrip('/')}{path} HTTP/1.1", f"Host: {parts.netloc}", "User-Agent: shoal"]
    if config.token:
        lines.append(f"Authorization: Bearer {config.token}")
    lines += ["Connection: Upgrade", f"Upgrade: {protocol}", "", ""]
    connection = _Connection(protocol, new_receiver)
    try:
        async with asyncio.timeout(timeout_seconds):
            loop = asyncio.get_running_loop()
            await loop.create_connection(
                lambda: connection, parts.hostname or "", parts.port or 443, ssl=config.tls_context
            )
            connection.send("\r\n".join(lines).encode())
            await connection.upgraded
    except (TimeoutError, OSError) as error:
        connection.abort()
        reason = str(error) or "no answer in time"
        raise Unreachable(f"{config.server} cannot be reached: {reason}") from error
    except BaseException:
        connection.abort()
        raise


class _Connection(asyncio.Protocol):
    """Parses the response head, then passes all data to the receiver."""

    _transport: asyncio.Transport

    def __init__(self, protocol: str, new_receiver: ReceiverFactory) -> None:
        self._protocol, self._new_receiver = protocol, new_receiver
        self.upgraded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._buffer = b""
        self._receiver: Receiver | None = None

    def send(self, data: bytes) -> None:
        self._transport.write(data)

    def abort(self) -> None:
        self.upgraded.cancel()
        if hasattr(self, "_transport"):
            self._transport.abort()

    # --- called by the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._receiver is not None:
            self._receiver.data_received(data)
            return
        self._buffer += data
        head, complete, rest = self._buffer.partition(b"\r\n\r\n")
        if complete:
            self._handle_response(head, rest)
        elif len(self._buffer) > _MAX_BYTES:
            self._fail(Unreachable("the server's response is not HTTP"))

    def pause_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.pause_writing()

    def resume_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._receiver is not None:
            self._receiver.connection_lost(exc)
        self._fail(Unreachable("the server closed the connection without a response"))

    # --- the response ---

    def _handle_response(self, head: bytes, rest: bytes) -> None:
        if self.upgraded.done():
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status[:3].isdecimal():
            self._fail(Unreachable("the server's response is not HTTP"))
            return
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if int(status[:3]) != 101:
            self._handle_rejection(int(status[:3]), headers, rest)
        elif headers.get("upgrade", "").lower() != self._protocol:
            self._fail(Unreachable(f"the server does not support {self._protocol}"))
        else:
            self._buffer = b""
            self._receiver = self._new_receiver(self._transport)
            self.upgraded.set_result(None)
            if rest:
                self._receiver.data_received(rest)

    def _handle_rejection(self, status: int, headers: dict[str, str], body: bytes) -> None:
        length = headers.get("content-length", "")
        if length.isdecimal() and len(body) < min(int(length), _MAX_BYTES):
            return
        try:
            status_object = orjson.loads(body)
        except ValueError:
            status_object = None
        self._fail(from_status(status_object if isinstance(status_object, dict) else {}, status))

    def _fail(self, error: Exception) -> None:
        if not self.upgraded.done():
            self.upgraded.set_exception(error)
