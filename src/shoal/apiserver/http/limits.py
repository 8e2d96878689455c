"""What one client may cost the server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Phase(Enum):
    """What the server waits for on a connection that has nothing under way."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    STALLED = auto()
    """The peer does not take what was written."""


@dataclass(frozen=True, slots=True)
class Limits:
    max_body: int = 3 * 1024 * 1024
    max_header_bytes: int = 64 * 1024
    """Request line and headers together, and again for trailers."""
    header_timeout: float = 32.0
    """From a request's first byte to the end of its headers; also the TLS handshake."""
    body_timeout: float = 60.0
    """From the end of the headers to the end of the body."""
    idle_timeout: float = 180.0
    """Silence between two requests, or an answer of which the peer takes nothing."""
    max_connections: int = 0
    """0 is no limit; one above it is closed unanswered."""
    max_pending: int = 16 * 1024 * 1024
    """A stream whose peer is this far behind is aborted."""
    gzip_from: int = 128 * 1024
    """Bodies of this size are compressed for clients that accept it; 0 is never."""

    def timeout(self, phase: Phase) -> float:
        if phase is Phase.HEAD:
            return self.header_timeout
        return self.body_timeout if phase is Phase.BODY else self.idle_timeout

    def shortest(self) -> float:
        return min(self.header_timeout, self.body_timeout, self.idle_timeout)
