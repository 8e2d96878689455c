"""Store decorator that checks every put and delete with a guard when it is made, for a server that may have to stop
writing.

A denied write was never queued. Reads, watches and transactions are not checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shoal.objects.errors import Unavailable
from shoal.store.interface import Store
from shoal.store.passing import PassingStore

RETRY_SECONDS = 5
"""The Retry-After of a denied write."""
Judge = Callable[[str, bytes | None], str]
"""Returns why a write is denied, given the key and its new value (None: a deletion); empty if it is allowed."""


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
