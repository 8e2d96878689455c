"""An upgraded connection through a tunnel: the bytes that follow a 101 response, both ways. Each end of the tunnel has
one.

A side that does not read gets no more than the credit of its stream, and the other side stops to read its own
connection. The connections at both ends are TLS, which ends both directions at once. So END says that the connection
has ended after these bytes, and RESET that it has broken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from shoal.client.relay import Relay
from shoal.fleet.tunnel.connection import TunnelConnection
from shoal.fleet.tunnel.flow_control import ReceiveWindow, SendBuffer
from shoal.fleet.tunnel.frames import DATA, END, RESET, WINDOW, Frame, ProtocolError, decode_window, encode_window
from shoal.objects.wire import ByteStream, Receiver

log = logging.getLogger("shoal.fleet")

MAX_PENDING = 64 * 1024
"""With more bytes than these to send, the connection at this end is not read."""
MAX_IDLE_PINGS = 2
"""A stream that nobody has joined after that many pings is aborted: its client went away."""


class UpgradedStream:
    """A `wire.ByteStream` for what is at this end."""

    def __init__(
        self,
        connection: TunnelConnection,
        send_buffer: SendBuffer,
        receive_window: ReceiveWindow,
        on_done: Callable[[int], object],
    ) -> None:
        """`on_done` is called once, when the stream has ended."""
        self.stream_id = send_buffer.stream_id
        self._connection, self._on_done = connection, on_done
        self._send_buffer, self._receive_window = send_buffer, receive_window
        send_buffer.on_drained = self._on_drained
        self._receiver: Receiver | None = None
        self._early_data: list[bytes] = []
        """Data from before there was a receiver."""
        self._is_reading_paused = self._is_writing_paused = False
        self._pings = 0
        self._has_closed = False
        """This end has closed its side."""
        self._error: Exception | None = None
        """How the stream has ended."""
        self.is_done = False

    def attach(self, receiver: Receiver) -> None:
        self._receiver = receiver
        for data in self._early_data:
            self._deliver(data)
        self._early_data.clear()
        if self.is_done:
            receiver.connection_lost(self._error)
        else:
            self._grant_credit()

    def join(self, client: ByteStream) -> Receiver:
        """Relays to the connection of a client and back: the `start` of a `wire.Upgrade`."""
        self.attach(Relay(client))
        return Relay(self)

    def is_abandoned(self) -> bool:
        """Called with every ping."""
        self._pings += 1
        return self._receiver is None and self._pings > MAX_IDLE_PINGS

    # --- called by the connection at this end ---

    def write(self, data: bytes) -> None:
        if self.is_done or self._has_closed:
            return
        self._send_buffer.add(data)
        self._connection.enqueue(self._send_buffer)
        if self._send_buffer.pending > MAX_PENDING and not self._is_writing_paused and self._receiver is not None:
            self._is_writing_paused = True
            self._receiver.pause_writing()

    def close(self) -> None:
        self._has_closed = True
        if not self.is_done:
            self._send_buffer.is_closing = True
            self._connection.enqueue(self._send_buffer)

    def abort(self) -> None:
        self._has_closed = True
        if not self.is_done:
            self._connection.send(RESET, self.stream_id)
            self._finish(None)

    def pause_reading(self) -> None:
        self._is_reading_paused = True

    def resume_reading(self) -> None:
        self._is_reading_paused = False
        self._grant_credit()

    # --- called by the tunnel ---

    def on_frame(self, frame: Frame) -> None:
        if frame.kind == DATA:
            self._receive_window.consume(len(frame.payload))
            if self._receiver is None:
                self._early_data.append(frame.payload)
            else:
                self._deliver(frame.payload)
                self._grant_credit()
        elif frame.kind == WINDOW:
            self._send_buffer.grant(decode_window(frame.payload))
            self._connection.enqueue(self._send_buffer)
        elif frame.kind == END:
            self._finish(None)
        elif frame.kind == RESET:
            self.drop()
        else:
            raise ProtocolError(f"frame of kind {frame.kind} on an upgraded connection")

    def drop(self) -> None:
        """Cuts the connection at this end: the other side or the tunnel is gone."""
        self._finish(ConnectionResetError("the tunnel has dropped the connection"))

    def _deliver(self, data: bytes) -> None:
        """Nothing is passed to a connection that has closed its side."""
        if self._receiver is None or self._has_closed:
            return
        try:
            self._receiver.data_received(data)
        except Exception:
            log.exception("upgraded connection through the tunnel failed")
            self.abort()

    def _on_drained(self) -> None:
        if self._send_buffer.has_ended:
            self._finish(None)
        elif self._is_writing_paused and self._receiver is not None:
            self._is_writing_paused = False
            self._receiver.resume_writing()

    def _finish(self, error: Exception | None) -> None:
        if self.is_done:
            return
        self.is_done, self._error = True, error
        self._send_buffer.drop()
        self._on_done(self.stream_id)
        if self._receiver is not None:
            self._receiver.connection_lost(error)

    def _grant_credit(self) -> None:
        if self._is_reading_paused or self.is_done or self._receiver is None:
            return
        credit = self._receive_window.grant()
        if credit:
            self._connection.send_encoded(encode_window(self.stream_id, credit))
