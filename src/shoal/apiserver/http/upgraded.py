"""A hijacked connection: after 101 its bytes go to a receiver of another protocol, but the server can still close it.

Request deadlines do not apply here. Liveness of the peer is checked by the protocol itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from shoal.objects.wire import Receiver, Upgrade

log = logging.getLogger(__name__)


class Upgraded(asyncio.Protocol):
    __slots__ = ("_forget", "_paused", "_receiver", "_transport")

    def __init__(self, transport: asyncio.Transport, forget: Callable[[Upgraded], None]) -> None:
        self._transport = transport
        self._forget = forget
        self._receiver: Receiver | None = None
        self._paused = False

    def begin(self, answer: Upgrade, opening: bytes) -> None:
        """Writes the 101 head and hands the connection to the receiver."""
        self._transport.set_protocol(self)
        self._transport.write(opening)
        self._receiver = answer.start(self._transport)
        if self._paused:
            self._receiver.pause_writing()

    def finish(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    # --- called by the transport ---

    def data_received(self, data: bytes) -> None:
        if self._receiver is not None:
            try:
                self._receiver.data_received(data)
            except Exception:
                log.exception("an upgraded connection failed")
                self._transport.abort()

    def pause_writing(self) -> None:
        self._paused = True
        if self._receiver is not None:
            self._receiver.pause_writing()

    def resume_writing(self) -> None:
        self._paused = False
        if self._receiver is not None:
            self._receiver.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget(self)
        if self._receiver is not None:
            self._receiver.connection_lost(exc)
