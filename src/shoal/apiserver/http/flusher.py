"""Flushes all streams written to in one event loop tick in one callback.

A change reaches a thousand watchers at once with the same bytes, so the chunk is encoded once. When changes arrive
faster than they can be sent, the flusher pauses as long as the last flush took, so that the next one carries more: a
write costs about the same for one event as for ten.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from shoal.apiserver.http.encoding import chunk

LONGEST_REST = 0.02
_SHORTEST_REST = 0.001


class Flushed(Protocol):
    def tick(self) -> None: ...


class Flusher:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[Flushed] = []
        self._pieces: list[bytes] = []
        self._chunk = b""
        self._rested = 0.0
        """The time (`time.perf_counter()`) before which no flush starts."""

    def add(self, sink: Flushed) -> None:
        if not self._waiting:
            rest = self._rested - time.perf_counter()
            if rest > _SHORTEST_REST:
                self._loop.call_later(rest, self._run)
            else:
                self._loop.call_soon(self._run)
        self._waiting.append(sink)

    def chunk(self, pieces: list[bytes], size: int) -> bytes:
        if pieces != self._pieces:
            self._pieces, self._chunk = pieces, chunk(pieces, size)
        return self._chunk

    def _run(self) -> None:
        began = time.perf_counter()
        waiting, self._waiting = self._waiting, []
        for sink in waiting:
            sink.tick()
        self._pieces, self._chunk = [], b""
        ended = time.perf_counter()
        self._rested = ended + min(ended - began, LONGEST_REST)
