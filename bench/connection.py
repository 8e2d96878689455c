"""One keep-alive connection of the load generator: HTTP/1.1 over TLS, as little work per answer as possible.

TLS is done in memory beside a plain socket: an event loop's own TLS layer costs more than all the rest.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

import httptools

Then = Callable[["LoadConnection"], None]
_RECORD = 16 * 1024
"""The largest piece TLS decrypts at once."""
_SEALED = memoryview(bytearray(256 * 1024))
_OPENED = memoryview(bytearray(_RECORD))
"""Where bytes are received and decrypted, for all connections: nothing stays there from one call to the next."""


class LoadConnection:
    """Sends one request at a time and calls back when its answer is complete; bodies are dropped."""

    _socket: socket.socket
    _tls: ssl.SSLObject
    _then: Then

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.received = 0
        """Bytes of all answers, heads included."""
        self.on_lost: Callable[[], None] = _nothing

    @property
    def status(self) -> int:
        return int(self._parser.get_status_code())

    async def open(self, host: str, port: int, context: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(self._socket, (host, port))
        self._tls = context.wrap_bio(self._incoming, self._outgoing)
        while not self._shake():
            await loop.sock_sendall(self._socket, self._outgoing.read())
            self._incoming.write(await loop.sock_recv(self._socket, _RECORD))
        await loop.sock_sendall(self._socket, self._outgoing.read())
        loop.add_reader(self._socket, self._readable)

    def _shake(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def send(self, request: bytes, then: Then) -> None:
        self._then = then
        self._tls.write(request)
        data = self._outgoing.read()
        # With one request under way the socket's buffer is empty, and larger than any request.
        if self._socket.send(data) != len(data):
            raise BufferError("a request did not fit into the socket's buffer")

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def _readable(self) -> None:
        try:
            size = self._socket.recv_into(_SEALED)
        except BlockingIOError:
            return
        except ConnectionError:
            size = 0
        if not size:
            self.close()
            self.on_lost()
            return
        incoming, read = self._incoming, self._tls.read
        incoming.write(_SEALED[:size])
        while incoming.pending:
            try:
                size = read(_RECORD, _OPENED)  # type: ignore[assignment]  # any buffer; then a number
            except ssl.SSLError:  # half a record, or the peer's goodbye
                return
            self.received += size
            self._parser.feed_data(_OPENED[:size])

    def on_message_complete(self) -> None:
        self._then(self)


class BodyConnection(LoadConnection):
    """Keeps the body of the last answer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = b""

    def on_message_begin(self) -> None:
        self.body = b""

    def on_body(self, part: bytes) -> None:
        self.body = self.body + part if self.body else part


class WatchConnection(LoadConnection):
    """Reads a watch and passes every event, one line each, to `event`."""

    def __init__(self, event: Callable[[bytes], None]) -> None:
        super().__init__()
        self._event = event
        self._rest = b""

    def on_body(self, part: bytes) -> None:
        if self._rest:
            part, self._rest = self._rest + part, b""
        if part.endswith(b"\n") and part.find(b"\n") == len(part) - 1:
            self._event(part)
            return
        *lines, self._rest = part.split(b"\n")
        for line in lines:
            self._event(line)


def _nothing() -> None:
    """A connection that nobody awaits may end."""


def tls() -> ssl.SSLContext:
    """Accepts any certificate: the identity of the servers is not measured."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
