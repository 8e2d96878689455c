"""Per-client limits of the HTTP server: sizes, timeouts and connection count."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass
from enum import Enum, auto


class ConnectionPhase(Enum):
    """The event a connection waits for while no request is in progress."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    STALLED = auto()
    """The peer does not read the response."""


@dataclass(frozen=True, slots=True)
class HTTPLimits:
    max_body_bytes: int = 3 * 1024 * 1024
    max_bodies_bytes: int = 64 * 1024 * 1024
    """Request bodies of all connections together: those being received, those that wait and those being served."""
    max_header_bytes: int = 64 * 1024
    """Request line and headers together, and again for trailers."""
    header_timeout: float = 32.0
    """Seconds from the first byte of a request to the end of its headers. Also the limit of the TLS handshake."""
    body_timeout: float = 60.0
    """Seconds from the end of the headers to the end of the body."""
    idle_timeout: float = 180.0
    """Seconds of silence between two requests, or while the peer reads nothing of a response."""
    max_connections: int = 0
    """0: three quarters of the files that the process may open. Above the limit a connection of a client that has not
    authenticated is closed, or the new one.
    """
    max_unknown_connections: int = 4096
    """Connections of clients that have not authenticated, if half of `max_connections` is not less."""
    max_pending_bytes: int = 4 * 1024 * 1024
    """A stream is aborted when its peer is this many bytes behind. Watches stop writing long before that."""
    max_unread_bytes: int = 64 * 1024 * 1024
    """Response bytes that all clients together have not read. The connections furthest behind are aborted above it."""
    gzip_min_bytes: int = 128 * 1024
    """Smallest body that is compressed for clients that accept gzip. 0 disables compression."""

    @property
    def connection_limit(self) -> int:
        if self.max_connections:
            return self.max_connections
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return max(1, files * 3 // 4) if files > 0 else sys.maxsize

    def timeout_of(self, phase: ConnectionPhase) -> float:
        if phase is ConnectionPhase.HEAD:
            return self.header_timeout
        return self.body_timeout if phase is ConnectionPhase.BODY else self.idle_timeout

    def shortest_timeout(self) -> float:
        return min(self.header_timeout, self.body_timeout, self.idle_timeout)
