"""Request and response, as the API server's chain and its transports pass them.

A transport (the HTTP server, the in-process one) makes a `Request`, calls a `Handler`, and carries out
what comes back. No sockets here, and no meaning: paths and verbs are read in `apiserver`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """What a verified client certificate says: CN, O… and the URI SANs (`shoal://<cluster>#<uid>`)."""

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
    """Names in lower case; repeated ones joined by `, ` (Impersonate-Group: see `header_list`)."""
    body: bytes = b""
    certificate: ClientCertificate | None = None
    remote: str = ""
    repeated: tuple[tuple[str, str], ...] = ()
    """Every header line in order, only filled when a name came twice."""
    asked: str = ""
    """The path the client knows, where a route has rewritten it: what an answer that names addresses repeats."""
    promised: tuple[tuple[str, str], ...] = ()
    """Headers of the answer, whatever it will be."""

    def header_list(self, name: str) -> list[str]:
        """All values of a header that may come more than once."""
        if self.repeated:
            return [value for key, value in self.repeated if key == name]
        return [self.headers[name]] if name in self.headers else []


@dataclass(slots=True)
class Response:
    status: int
    body: bytes | list[bytes]
    """A list is written piece by piece, never joined: a large LIST costs no second copy."""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Sink(Protocol):
    """The writing end of a streamed answer. All calls come from the event loop's thread."""

    @property
    def closed(self) -> bool: ...

    @property
    def pending(self) -> int:
        """Bytes the peer has not taken yet; grows without bound for a client that never reads."""

    def write(self, data: bytes) -> None:
        """One piece of the body. After close, nothing happens."""

    def close(self) -> None:
        """Ends the answer properly: the peer sees a complete body."""

    def abort(self) -> None:
        """Cuts the connection: the peer sees a broken body. For clients that do not read."""

    def on_close(self, callback: Callable[[], None]) -> None:
        """Called once when the peer or the server has ended the stream."""

    def on_drain(self, callback: Callable[[], None]) -> None:
        """Called whenever the peer has taken what was written: a sender that holds back goes on then."""


@dataclass(slots=True)
class StreamResponse:
    """Headers now, then whatever `start` writes to its sink, now and later (a watch)."""

    status: int
    start: Callable[[Sink], None]
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class ByteStream(Protocol):
    """The writing half of a raw connection; asyncio's transports are some."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        """After what was written has left."""

    def abort(self) -> None: ...


class Receiver(Protocol):
    """The reading half of a raw connection, called from the event loop's thread; asyncio's protocols are some."""

    def data_received(self, data: bytes) -> None: ...

    def pause_writing(self) -> None:
        """The stream holds enough: write little until `resume_writing`."""

    def resume_writing(self) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None:
        """The last call."""


@dataclass(slots=True)
class Upgrade:
    """101: the connection speaks another protocol from here on, between `start`'s stream and its receiver."""

    protocol: str
    """As the client's Upgrade header names it."""
    start: Callable[[ByteStream], Receiver]
    status: int = 101
    content_type: str = ""
    headers: tuple[tuple[str, str], ...] = ()


Answer = Response | StreamResponse | Upgrade
Handler = Callable[[Request], Answer | Awaitable[Answer]]
"""Answers at once where nothing has to be waited for (a GET from the cache), else by an awaitable."""
