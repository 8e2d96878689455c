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


class BodyHold(Protocol):
    """The bytes of a request's body, as the transport's budget counts them."""

    @property
    def is_assigned(self) -> bool:
        """True when an owner is known."""

    def assign(self, owner: tuple[str, str] | None) -> bool:
        """Counts the body as its owner's: a tenant and one of its flows. Returns False if there is no room for it.
        None is an owner without a share.
        """


class ClientConnection:
    """The connection of a request, as it is counted for the logical cluster whose requests it carries."""

    __slots__ = ("cluster", "is_refused", "on_close", "on_known")

    def __init__(self) -> None:
        self.cluster = ""
        """Empty: it is not counted."""
        self.is_refused = False
        """The next response is its last."""
        self.on_close: Callable[[str], None] | None = None
        """Takes the cluster for which it was counted."""
        self.on_known: Callable[[], None] | None = None
        """Called when a request has authenticated its client. None: the client is known, or it does not matter."""

    def identify(self) -> None:
        """A request has authenticated the client."""
        on_known, self.on_known = self.on_known, None
        if on_known is not None:
            on_known()

    def close(self) -> None:
        self.on_known = None
        if self.on_close is not None and self.cluster:
            self.on_close(self.cluster)
        self.cluster = ""


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
    hold: BodyHold | None = field(default=None, compare=False)
    """Set by a transport that counts bodies, for a request with a body."""
    connection: ClientConnection | None = field(default=None, compare=False)
    """None if the request did not come through a connection of its client."""

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

    def pause_reading(self) -> None:
        """The receiver cannot take more: the peer has to wait until `resume_reading`."""

    def resume_reading(self) -> None: ...


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


def continue_response() -> Response:
    """The answer to the head of a request whose body may be sent."""
    return Response(100, b"", content_type="")
