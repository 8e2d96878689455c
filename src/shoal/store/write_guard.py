"""Store decorator that checks every put and delete with a guard when it is made, for a server that may have to stop
writing.

A denied write was never queued. Reads, watches and transactions are not checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shoal.objects.errors import Unavailable
from shoal.store.decorator import StoreDecorator
from shoal.store.interface import Store

RETRY_AFTER_SECONDS = 5
"""The Retry-After of a denied write."""
WriteGuard = Callable[[str, bytes | None], str]
"""Returns why a write is denied, given the key and its new value (None: a deletion); empty if it is allowed."""


class GuardedStore(StoreDecorator):
    def __init__(self, store: Store, guard: WriteGuard) -> None:
        super().__init__(store)
        self._guard = guard

    def put(self, key: str, value: bytes, expected_revision: int) -> asyncio.Future[int]:
        self._check(key, value)
        return self._store.put(key, value, expected_revision)

    def delete(self, key: str, expected_revision: int) -> asyncio.Future[int]:
        self._check(key, None)
        return self._store.delete(key, expected_revision)

    def _check(self, key: str, value: bytes | None) -> None:
        denied_reason = self._guard(key, value)
        if denied_reason:
            raise Unavailable(denied_reason, retry_after=RETRY_AFTER_SECONDS)
