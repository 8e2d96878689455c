"""Flow control of one tunnel stream: buffered data to send within the peer's credit, and the receive window."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from shoal.fleet.tunnel.frames import INITIAL_CREDIT, ProtocolError

MAX_FRAME_DATA = 32 * 1024
"""Bytes of one stream per turn: other streams wait no longer than that takes."""
_MAX_CREDIT = 1 << 31


class SendBuffer:
    """Pieces are kept unjoined: events are encoded once and shared by all their watchers."""

    __slots__ = (
        "_credit",
        "_offset",
        "_pieces",
        "has_ended",
        "is_closing",
        "is_queued",
        "on_drained",
        "pending",
        "stream_id",
    )

    def __init__(self, stream_id: int) -> None:
        self.stream_id = stream_id
        self._pieces: deque[bytes] = deque()
        self._offset = 0
        """How much of the first piece was sent."""
        self._credit = INITIAL_CREDIT
        self.pending = 0
        """Bytes that are not sent yet."""
        self.is_closing = False
        """No more data is added."""
        self.has_ended = False
        """END was sent, or nothing will be."""
        self.is_queued = False
        """Queued for a turn."""
        self.on_drained: Callable[[], None] | None = None
        """Called whenever the buffer is empty."""

    def add(self, data: bytes) -> None:
        if data and not self.is_closing:
            self._pieces.append(data)
            self.pending += len(data)

    def grant(self, credit: int) -> None:
        self._credit += credit
        if self._credit > _MAX_CREDIT:
            raise ProtocolError("credit exceeds the maximum")

    @property
    def is_sendable(self) -> bool:
        if self.has_ended:
            return False
        return self._credit > 0 if self.pending else self.is_closing

    def take(self) -> bytes:
        """Returns the next bytes that may be sent; empty when only the end is left."""
        size = min(MAX_FRAME_DATA, self._credit, self.pending)
        self._credit -= size
        self.pending -= size
        parts: list[bytes | memoryview] = []
        while size:
            piece = self._pieces[0]
            rest = len(piece) - self._offset
            if rest <= size:
                parts.append(memoryview(piece)[self._offset :] if self._offset else piece)
                self._pieces.popleft()
                self._offset = 0
                size -= rest
            else:
                parts.append(memoryview(piece)[self._offset : self._offset + size])
                self._offset += size
                size = 0
        return b"".join(parts)

    def drop(self) -> None:
        self._pieces.clear()
        self.pending = self._offset = 0
        self.is_closing = self.has_ended = True


class ReceiveWindow:
    """Counts received bytes and the credit to grant to the other side."""

    __slots__ = ("_consumed", "_credit", "total")

    def __init__(self) -> None:
        self._credit = INITIAL_CREDIT
        self._consumed = 0
        self.total = 0

    def consume(self, size: int) -> None:
        if size > self._credit:
            raise ProtocolError("more bytes than granted credit")
        self._credit -= size
        self._consumed += size
        self.total += size

    def grant(self) -> int:
        """Returns the credit to grant now; 0 while it is too little to be worth a frame."""
        consumed = self._consumed
        if consumed < INITIAL_CREDIT // 2:
            return 0
        self._consumed = 0
        self._credit += consumed
        return consumed
