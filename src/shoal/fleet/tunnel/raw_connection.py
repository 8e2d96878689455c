"""A raw connection through a tunnel: the bytes of one socket, both ways. Each end of the tunnel has one.

Each direction ends by itself (half-close). A side that does not read gets no more than the credit of its stream: the
other side then stops to read its own socket, so neither buffers without bound. The connection ends with the tunnel.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import cast

from shoal.fleet.tunnel.connection import TunnelConnection
from shoal.fleet.tunnel.flow_control import ReceiveWindow, SendBuffer
from shoal.fleet.tunnel.frames import (
    DATA,
    END,
    RESET,
    WINDOW,
    Frame,
    ProtocolError,
    decode_window,
    encode_window,
)
from shoal.fleet.tunnel.paths import HostedPath

SocketHandler = Callable[[socket.socket, str, Callable[[], None]], None]
"""Takes over an accepted connection: its socket, the address of the client, and what to call when it has ended."""
Connector = Callable[[HostedPath], Awaitable[SocketHandler]]
"""Returns what takes over the connections to one hosted cluster. Raises a StatusError if there is no such cluster."""

CONNECT = "CONNECT"
"""Method of an OPEN frame that opens a raw connection."""
CLIENT_ADDRESS_HEADER = "x-forwarded-for"
REFUSAL_HEADER = "x-shoal-refusal"
"""Header of a HEAD frame: why a worker refuses a raw connection. An old worker answers without it."""
MAX_PENDING = 64 * 1024
"""With more bytes than these to send, the socket is not read. Also the size of the buffer of its own writes."""
HALF_CLOSED_SECONDS = 60.0
"""A connection of which one direction has ended is cut after this time without a byte in the other one. TLS needs both
directions.
"""


class RawConnection(asyncio.Protocol):
    def __init__(
        self,
        stream_id: int,
        connection: TunnelConnection,
        on_done: Callable[[int], object],
        on_closed: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_done` is called once when the stream has ended, `on_closed` once when the socket is closed."""
        self.stream_id = stream_id
        self._connection, self._on_done, self._on_closed = connection, on_done, on_closed
        self.send_buffer = SendBuffer(stream_id)
        self.send_buffer.on_drained = self._on_drained
        self._receive_window = ReceiveWindow()
        self._transport: asyncio.Transport | None = None
        self._early_data: list[bytes] = []
        """Data from before the socket was attached."""
        self._peer_has_ended = False
        self._is_reading_paused = self._is_writing_paused = False
        self._progress = 0
        self._timer: asyncio.TimerHandle | None = None
        self.is_done = False

    async def attach(self, sock: socket.socket) -> None:
        """Takes over the socket."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: self, sock)
        except OSError:
            sock.close()
            self.abort()
            self._on_closed()

    # --- called by the socket ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.is_done:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(MAX_PENDING)
        for data in self._early_data:
            self._transport.write(data)
        self._early_data.clear()
        if self._peer_has_ended:
            self._transport.write_eof()
        elif not self._is_writing_paused:
            self._grant_credit()

    def data_received(self, data: bytes) -> None:
        self._progress += 1
        self.send_buffer.add(data)
        self._connection.enqueue(self.send_buffer)
        if self.send_buffer.pending > MAX_PENDING and not self._is_reading_paused and self._transport is not None:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """True keeps the socket open: the other direction goes on."""
        self.send_buffer.is_closing = True
        self._connection.enqueue(self.send_buffer)
        self._watch_half_closed()
        return True

    def pause_writing(self) -> None:
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._grant_credit()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._cancel_timer()
        self.abort()
        self._on_closed()

    # --- called by the tunnel ---

    def on_frame(self, frame: Frame) -> None:
        if frame.kind == DATA:
            self._on_data(frame.payload)
        elif frame.kind == END:
            self._on_end()
        elif frame.kind == WINDOW:
            self.send_buffer.grant(decode_window(frame.payload))
            self._connection.enqueue(self.send_buffer)
        elif frame.kind == RESET:
            self.drop()
        else:
            raise ProtocolError(f"frame of kind {frame.kind} on a raw connection")

    def _on_data(self, data: bytes) -> None:
        self._receive_window.consume(len(data))
        if self._peer_has_ended:
            raise ProtocolError("DATA frame after END frame")
        self._progress += 1
        if self._transport is None:
            self._early_data.append(data)
            return
        if not self._transport.is_closing():
            self._transport.write(data)
        if not self._is_writing_paused:
            self._grant_credit()

    def _on_end(self) -> None:
        self._peer_has_ended = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()
        if self.send_buffer.has_ended:
            self._finish()
        else:
            self._watch_half_closed()

    def abort(self) -> None:
        """Ends the stream at once and tells the other side."""
        if not self.is_done:
            self._connection.send(RESET, self.stream_id)
            self.drop()

    def drop(self) -> None:
        """Cuts the socket: the other side or the tunnel is gone."""
        if not self.is_done:
            self._mark_done()
            self._cut()

    # --- its end ---

    def _on_drained(self) -> None:
        if self.send_buffer.has_ended:
            if self._peer_has_ended:
                self._finish()
        elif self._is_reading_paused and self._transport is not None:
            self._is_reading_paused = False
            self._transport.resume_reading()

    def _finish(self) -> None:
        """Both directions have ended. The socket is closed when its last bytes are sent."""
        if not self.is_done:
            self._mark_done()
            if self._transport is not None:
                self._transport.close()
                self._timer = asyncio.get_running_loop().call_later(HALF_CLOSED_SECONDS, self._cut)

    def _mark_done(self) -> None:
        self.is_done = True
        self._cancel_timer()
        self.send_buffer.drop()
        self._early_data.clear()
        self._on_done(self.stream_id)

    def _watch_half_closed(self) -> None:
        if not self.is_done:
            self._cancel_timer()
            self._timer = asyncio.get_running_loop().call_later(
                HALF_CLOSED_SECONDS, self._on_half_closed_timeout, self._progress
            )

    def _on_half_closed_timeout(self, progress: int) -> None:
        if self._progress == progress:
            self.abort()
        else:
            self._watch_half_closed()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _grant_credit(self) -> None:
        credit = self._receive_window.grant()
        if credit and not self.is_done:
            self._connection.send_encoded(encode_window(self.stream_id, credit))
