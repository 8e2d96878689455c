"""Readiness: whether this server can answer with the newest state of the store. Probed on request, not cached.

A broken watch of the store looks like a quiet one for a while. So the store is asked for its newest revision, as for a
fresh read, and the cache has to reach it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from shoal.objects.errors import StoreError
from shoal.store.interface import Store

PROBE_TIMEOUT_SECONDS = 2.0


class StoreReadiness:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._last_error = ""

    def last_error(self) -> str:
        """The result of the last probe."""
        return self._last_error

    def probe(self) -> Awaitable[None] | None:
        """Returns None if there was nothing to wait for."""
        try:
            read_index = self._store.read_index()
        except StoreError as error:
            self._last_error = str(error)
            return None
        if read_index is None:
            self._last_error = ""
            return None
        return self._wait(read_index)

    async def _wait(self, read_index: asyncio.Future[None]) -> None:
        await asyncio.wait([read_index], timeout=PROBE_TIMEOUT_SECONDS)
        if not read_index.done():
            read_index.cancel()
            self._last_error = f"the cache did not catch up with the store within {PROBE_TIMEOUT_SECONDS:.0f} s"
        elif read_index.cancelled():
            self._last_error = "the read of the store was cancelled"
        else:
            error = read_index.exception()
            self._last_error = "" if error is None else str(error)
