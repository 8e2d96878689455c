"""A hijacked connection: after 101 its bytes go to a receiver of another protocol, but the server can still close it.

Request deadlines do not apply here. Liveness of the peer is checked by the protocol itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from shoal.objects.wire import ClientConnection, Receiver, Upgrade

log = logging.getLogger(__name__)


class HijackedConnection(asyncio.Protocol):
    __slots__ = ("_connection", "_on_close", "_receiver", "_transport", "_write_paused")

    def __init__(self, transport: asyncio.Transport, on_close: Callable[[HijackedConnection], None]) -> None:
        self._transport = transport
        self._on_close = on_close
        self._connection: ClientConnection | None = None
        self._receiver: Receiver | None = None
        self._write_paused = False

    def start(self, upgrade: Upgrade, head: bytes, connection: ClientConnection | None = None) -> None:
        """Writes the 101 head and hands the connection to the receiver."""
        self._connection = connection
        self._transport.set_protocol(self)
        self._transport.write(head)
        self._receiver = upgrade.start(self._transport)
        if self._write_paused:
            self._receiver.pause_writing()

    def shut_down(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    # --- called by the transport ---

    def data_received(self, data: bytes) -> None:
        if self._receiver is not None:
            try:
                self._receiver.data_received(data)
            except Exception:
                log.exception("upgraded connection failed")
                self._transport.abort()

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._receiver is not None:
            self._receiver.pause_writing()

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._receiver is not None:
            self._receiver.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_close(self)
        if self._connection is not None:
            self._connection.close()
        if self._receiver is not None:
            self._receiver.connection_lost(exc)
