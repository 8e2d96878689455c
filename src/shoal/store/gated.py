"""A store whose writes somebody judges, one by one, in the moment they are made: for a server that may have to stop.

A write that is refused was never in the queue. Reads and watches are not judged, nor is what is written together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shoal.objects.errors import Unavailable
from shoal.store.interface import Store
from shoal.store.passing import PassingStore

RETRY_SECONDS = 5
"""When a client that was refused should come again."""
Judge = Callable[[str, bytes | None], str]
"""Of a key and its new value (None: a deletion): why it is not written; empty: it is."""


class GatedStore(PassingStore):
    def __init__(self, store: Store, judge: Judge) -> None:
        super().__init__(store)
        self._judge = judge

    def put(self, key: str, value: bytes, expected: int) -> asyncio.Future[int]:
        self._check(key, value)
        return self._store.put(key, value, expected)

    def delete(self, key: str, expected: int) -> asyncio.Future[int]:
        self._check(key, None)
        return self._store.delete(key, expected)

    def _check(self, key: str, value: bytes | None) -> None:
        why = self._judge(key, value)
        if why:
            raise Unavailable(why, retry_after=RETRY_SECONDS)
