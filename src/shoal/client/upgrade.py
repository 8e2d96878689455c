"""Opens a connection that speaks another protocol than HTTP after the server's 101 response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

import orjson

from shoal.client.transport import Endpoint, Unreachable
from shoal.objects.errors import from_status
from shoal.objects.wire import ByteStream, Receiver

Start = Callable[[ByteStream], Receiver]

CUT = 30.0
"""Seconds the server has to respond."""
_LONGEST = 64 * 1024


async def upgrade(endpoint: Endpoint, path: str, protocol: str, start: Start, cut: float = CUT) -> None:
    """Returns once `new_receiver` has the connection. Raises Unreachable, or the server's rejection as a
    StatusError.
    """
    parts = urlsplit(endpoint.server)
    lines = [f"GET {parts.path.rstrip('/')}{path} HTTP/1.1", f"Host: {parts.netloc}", "User-Agent: shoal"]
    if endpoint.token:
        lines.append(f"Authorization: Bearer {endpoint.token}")
    lines += ["Connection: Upgrade", f"Upgrade: {protocol}", "", ""]
    connection = _Connection(protocol, start)
    try:
        async with asyncio.timeout(cut):
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: connection, parts.hostname or "", parts.port or 443, ssl=endpoint.tls)
            connection.send("\r\n".join(lines).encode())
            await connection.answered
    except (TimeoutError, OSError) as error:
        connection.give_up()
        said = str(error) or "no answer in time"
        raise Unreachable(f"{endpoint.server} cannot be reached: {said}") from error
    except BaseException:
        connection.give_up()
        raise


class _Connection(asyncio.Protocol):
    """Parses the response head, then passes all data to the receiver."""

    _transport: asyncio.Transport

    def __init__(self, protocol: str, start: Start) -> None:
        self._protocol, self._start = protocol, start
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held = b""
        self._receiver: Receiver | None = None

    def send(self, data: bytes) -> None:
        self._transport.write(data)

    def give_up(self) -> None:
        self.answered.cancel()
        if hasattr(self, "_transport"):
            self._transport.abort()

    # --- called by the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._receiver is not None:
            self._receiver.data_received(data)
            return
        self._held += data
        head, complete, rest = self._held.partition(b"\r\n\r\n")
        if complete:
            self._answered(head, rest)
        elif len(self._held) > _LONGEST:
            self._fail(Unreachable("the server's answer is no HTTP"))

    def pause_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.pause_writing()

    def resume_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._receiver is not None:
            self._receiver.connection_lost(exc)
        self._fail(Unreachable("the server closed the connection unanswered"))

    # --- the response ---

    def _answered(self, head: bytes, rest: bytes) -> None:
        if self.answered.done():
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status[:3].isdecimal():
            self._fail(Unreachable("the server's answer is no HTTP"))
            return
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if int(status[:3]) != 101:
            self._refused(int(status[:3]), headers, rest)
        elif headers.get("upgrade", "").lower() != self._protocol:
            self._fail(Unreachable(f"the server does not speak {self._protocol}"))
        else:
            self._held = b""
            self._receiver = self._start(self._transport)
            self.answered.set_result(None)
            if rest:
                self._receiver.data_received(rest)

    def _refused(self, status: int, headers: dict[str, str], body: bytes) -> None:
        length = headers.get("content-length", "")
        if length.isdecimal() and len(body) < min(int(length), _LONGEST):
            return
        try:
            said = orjson.loads(body)
        except ValueError:
            said = None
        self._fail(from_status(said if isinstance(said, dict) else {}, status))

    def _fail(self, error: Exception) -> None:
        if not self.answered.done():
            self.answered.set_exception(error)
