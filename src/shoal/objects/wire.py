"""Request and response types passed between the transports and the API server's handler chain.

A transport (the HTTP server, the in-process one) builds a `Request`, calls a `Handler` and sends the result. There are
no sockets here. Paths and verbs are interpreted in `apiserver`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """Subject of a verified client certificate: CN, O… and the URI SANs (`shoal://<cluster>#<uid>`)."""

    common_name: str
    organizations: tuple[str, ...]
    uris: tuple[str, ...] = ()


@dataclass(slots=True)
class Request:
    method: str
    path: str
    """Percent-decoded, without the query."""
    query: str = ""
    """Raw, still percent-encoded."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case. Repeated headers are joined by `, ` (Impersonate-Group: see `header_list`)."""
    body: bytes = b""
    certificate: ClientCertificate | None = None
    remote_addr: str = ""
    raw_headers: tuple[tuple[str, str], ...] = ()
    """Every header line in order. Filled only if a name came twice."""
    original_path: str = ""
    """The path the client sent, if a route has rewritten `path`. Responses that contain URLs repeat it."""
    at_own_address: bool = False
    """The request came to the address of one cluster: only credentials of that cluster are accepted."""

    def header_list(self, name: str) -> list[str]:
        """Returns all values of a header that may come more than once."""
        if self.raw_headers:
            return [value for key, value in self.raw_headers if key == name]
        return [self.headers[name]] if name in self.headers else []


@dataclass(slots=True)
class Response:
    status: int
    body: bytes | list[bytes]
    """A list is written piece by piece, never joined: a large LIST costs no second copy."""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Sink(Protocol):
    """The writing end of a streamed response. All calls come from the event loop's thread."""

    @property
    def closed(self) -> bool: ...

    @property
    def pending_bytes(self) -> int:
        """Bytes the peer has not taken yet; grows without bound for a client that never reads."""

    def write(self, data: bytes) -> None:
        """Writes one piece of the body. Ignored after close."""

    def close(self) -> None:
        """Ends the response cleanly: the peer sees a complete body."""

    def abort(self) -> None:
        """Cuts the connection: the peer sees a broken body. Used for clients that do not read."""

    def on_close(self, callback: Callable[[], None]) -> None:
        """Registers a callback that runs once, when the peer or the server has ended the stream."""

    def on_drain(self, callback: Callable[[], None]) -> None:
        """Registers a callback that runs whenever the peer has read what was written, so that a throttled sender can
        continue.
        """


@dataclass(slots=True)
class StreamResponse:
    """A response whose headers are sent now and whose body `start` writes to its sink, now and later (a watch)."""

    status: int
    start: Callable[[Sink], None]
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class ByteStream(Protocol):
    """The writing half of a raw connection. asyncio transports implement it."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        """Closes after everything written has been sent."""

    def abort(self) -> None: ...


class Receiver(Protocol):
    """The reading half of a raw connection, called from the event loop's thread. asyncio protocols implement it."""

    def data_received(self, data: bytes) -> None: ...

    def pause_writing(self) -> None:
        """The stream's buffer is full: write little until `resume_writing`."""

    def resume_writing(self) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None:
        """The last call."""


@dataclass(slots=True)
class Upgrade:
    """101 Switching Protocols: from here on another protocol runs between `start`'s stream and its receiver."""

    protocol: str
    """The protocol as the client's Upgrade header names it."""
    start: Callable[[ByteStream], Receiver]
    status: int = 101
    content_type: str = ""
    headers: tuple[tuple[str, str], ...] = ()


Answer = Response | StreamResponse | Upgrade
Handler = Callable[[Request], Answer | Awaitable[Answer]]
"""Returns a response directly if nothing has to be awaited (a GET from the cache), else an awaitable."""
