"""Readiness: whether this server can answer with the newest state of the store. Probed on request, not cached.

A broken watch of the store looks like a quiet one for a while. So the store is asked for its newest revision, as for a
fresh read, and the cache has to reach it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from shoal.objects.errors import StoreError
from shoal.store.interface import Store

PATIENCE_SECONDS = 2.0


class Readiness:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._problem = ""

    def problem(self) -> str:
        """The result of the last probe."""
        return self._problem

    def look(self) -> Awaitable[None] | None:
        """Returns None if there was nothing to wait for."""
        try:
            fresh = self._store.fresh()
        except StoreError as error:
            self._problem = str(error)
            return None
        if fresh is None:
            self._problem = ""
            return None
        return self._wait(fresh)

    async def _wait(self, fresh: asyncio.Future[None]) -> None:
        await asyncio.wait([fresh], timeout=PATIENCE_SECONDS)
        if not fresh.done():
            fresh.cancel()
            self._problem = f"not caught up with the store within {PATIENCE_SECONDS:.0f} s"
        elif fresh.cancelled():
            self._problem = "the store was not asked"
        else:
            error = fresh.exception()
            self._problem = "" if error is None else str(error)
