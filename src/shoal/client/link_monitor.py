"""A transport that knows whether its server answers and accepts its credentials, and says once when that changes.

An answer of any other status than 401 counts: the server is there. Nothing is retried here.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping

from shoal.client.transport import Transport, Unreachable
from shoal.clock import Clock

log = logging.getLogger("shoal.client")

SILENCE_SECONDS = 30.0
"""Of a server that accepts requests and answers none of them, or sits behind a network that drops them."""
UNAUTHORIZED = 401


class LinkMonitor:
    def __init__(self, subject: str, clock: Clock) -> None:
        """`subject` is the server as log lines call it."""
        self._subject, self._clock = subject, clock
        self._lost_at: float | None = None
        self._answered_at: float | None = None
        self._is_rejected = False
        self._pending: dict[object, float] = {}
        """When each request that waits for an answer was sent."""

    def problem(self) -> str:
        """Returns why the server cannot be used; empty: it can. It has a problem until the first answer."""
        silent_since = max(min(self._pending.values(), default=self._clock.monotonic()), self._answered_at or 0.0)
        if self._clock.monotonic() - silent_since >= SILENCE_SECONDS:
            self.on_failure(Unreachable(f"no answer for {SILENCE_SECONDS:.0f} seconds"), silent_since)
        if self._answered_at is None or self._lost_at is not None:
            return f"{self._subject} does not answer"
        return f"{self._subject} rejects the credentials" if self._is_rejected else ""

    def transport(self, inner: Transport) -> Transport:
        return _MonitoredTransport(inner, self)

    def on_request(self) -> object:
        """Returns the request, for `on_end`."""
        request = object()
        self._pending[request] = self._clock.monotonic()
        return request

    def on_end(self, request: object) -> None:
        self._pending.pop(request, None)

    def on_answer(self, status: int) -> None:
        self._answered_at = self._clock.monotonic()
        if self._lost_at is not None:
            # As visible as the loss: whoever saw that must see this.
            log.warning("%s answers again after %.0f seconds", self._subject, self._answered_at - self._lost_at)
            self._lost_at = None
        if self._is_rejected != (status == UNAUTHORIZED):
            self._is_rejected = not self._is_rejected
            verb = "rejects" if self._is_rejected else "accepts"
            log.warning("%s %s the credentials of this process", self._subject, verb)

    def on_failure(self, error: Unreachable, since: float | None = None) -> None:
        if self._lost_at is None:
            self._lost_at = self._clock.monotonic() if since is None else since
            log.warning("%s does not answer, retrying: %s", self._subject, error)


class _MonitoredTransport:
    def __init__(self, inner: Transport, monitor: LinkMonitor) -> None:
        self._inner, self._monitor = inner, monitor

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        request = self._monitor.on_request()
        try:
            answer = await self._inner.request(method, path, query, headers, body)
        except Unreachable as error:
            self._monitor.on_failure(error)
            raise
        finally:
            self._monitor.on_end(request)
        self._monitor.on_answer(answer[0])
        return answer

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        """The end of a stream says nothing about the server. The next request does."""
        try:
            answer = await self._inner.stream(method, path, query, headers)
        except Unreachable as error:
            self._monitor.on_failure(error)
            raise
        self._monitor.on_answer(answer[0])
        return answer

    async def close(self) -> None:
        await self._inner.close()
