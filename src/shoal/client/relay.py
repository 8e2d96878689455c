"""Joins two byte streams: what one receives, the other writes, no faster than its peer reads."""

from __future__ import annotations

from shoal.objects.wire import ByteStream


class Relay:
    """The receiver of one stream that writes to the other one."""

    def __init__(self, other: ByteStream) -> None:
        self._other = other

    def data_received(self, data: bytes) -> None:
        self._other.write(data)

    def pause_writing(self) -> None:
        self._other.pause_reading()

    def resume_writing(self) -> None:
        self._other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """A stream that ended cleanly ends the other one when its last bytes are sent."""
        if exc is None:
            self._other.close()
        else:
            self._other.abort()
