"""The server as its connections use it. A virtual host is one for its own connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from shoal.apiserver.http.body_budget import BodyBudget
from shoal.apiserver.http.flusher import StreamFlusher
from shoal.apiserver.http.hijacked import HijackedConnection
from shoal.apiserver.http.limits import HTTPLimits
from shoal.objects.errors import StatusError
from shoal.objects.wire import Handler, Response

C = TypeVar("C")
"""The class of the connections."""


class ConnectionOwner(Protocol[C]):
    handler: Handler

    @property
    def head_handler(self) -> Handler:
        """Answers the head of a request before its body is read. Status 100 lets the body in."""

    @property
    def bodies(self) -> BodyBudget: ...

    @property
    def unread(self) -> dict[C, None]:
        """Connections whose peer does not read, the longest waiting first."""

    @property
    def limits(self) -> HTTPLimits: ...

    @property
    def on_error(self) -> Callable[[StatusError], Response]: ...

    @property
    def date(self) -> bytes:
        """The `Date` header line of the current second."""

    @property
    def loop_time(self) -> float:
        """`loop.time()` as of the last tick."""

    @property
    def is_draining(self) -> bool:
        """True when every response is the last one of its connection."""

    @property
    def flusher(self) -> StreamFlusher: ...

    @property
    def is_crowded(self) -> bool:
        """True when so many clients are connected that little may be buffered for each."""

    def admit(self, connection: C) -> bool: ...

    def identify(self, connection: C) -> None:
        """A request of the connection has authenticated its client."""

    def remove(self, connection: C) -> None: ...

    def upgrade(self, connection: C, transport: asyncio.Transport) -> HijackedConnection:
        """Replaces the connection by a HijackedConnection in the server's books and returns it."""
