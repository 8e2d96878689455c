"""Flow control of one tunnel stream: buffered data to send within the peer's credit, and the receive window."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from shoal.fleet.tunnel.frames import CREDIT, ProtocolError

SHARE = 32 * 1024
"""Bytes of one stream per turn: other streams wait no longer than that takes."""
_MOST_CREDIT = 1 << 31


class Outgoing:
    """Pieces are kept unjoined: events are encoded once and shared by all their watchers."""

    __slots__ = ("_at", "_credit", "_pieces", "closing", "drained", "ended", "pending", "stream", "waiting")

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self._pieces: deque[bytes] = deque()
        self._at = 0
        """How much of the first piece was sent."""
        self._credit = CREDIT
        self.pending = 0
        """Bytes that are not sent yet."""
        self.closing = False
        """No more data is added."""
        self.ended = False
        """END was sent, or nothing will be."""
        self.waiting = False
        """Queued for a turn."""
        self.drained: Callable[[], None] | None = None
        """Called whenever the buffer is empty."""

    def add(self, data: bytes) -> None:
        if data and not self.closing:
            self._pieces.append(data)
            self.pending += len(data)

    def grant(self, more: int) -> None:
        self._credit += more
        if self._credit > _MOST_CREDIT:
            raise ProtocolError("more credit than anybody has")

    @property
    def sendable(self) -> bool:
        if self.ended:
            return False
        return self._credit > 0 if self.pending else self.closing

    def take(self) -> bytes:
        """Returns the next bytes that may be sent; empty when only the end is left."""
        room = min(SHARE, self._credit, self.pending)
        self._credit -= room
        self.pending -= room
        taken: list[bytes | memoryview] = []
        while room:
            piece = self._pieces[0]
            rest = len(piece) - self._at
            if rest <= room:
                taken.append(memoryview(piece)[self._at :] if self._at else piece)
                self._pieces.popleft()
                self._at = 0
                room -= rest
            else:
                taken.append(memoryview(piece)[self._at : self._at + room])
                self._at += room
                room = 0
        return b"".join(taken)

    def drop(self) -> None:
        self._pieces.clear()
        self.pending = self._at = 0
        self.closing = self.ended = True


class Incoming:
    """Counts received bytes and the credit to grant to the other side."""

    __slots__ = ("_allowed", "_owed", "total")

    def __init__(self) -> None:
        self._allowed = CREDIT
        self._owed = 0
        self.total = 0

    def took(self, size: int) -> None:
        if size > self._allowed:
            raise ProtocolError("more bytes than credit")
        self._allowed -= size
        self._owed += size
        self.total += size

    def grant(self) -> int:
        """Returns the credit to grant now; 0 while it is too little to be worth a frame."""
        owed = self._owed
        if owed < CREDIT // 2:
            return 0
        self._owed = 0
        self._allowed += owed
        return owed
