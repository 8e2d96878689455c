"""Fences writes: with the lease of a controller, or with a guard of a whole server that may have to stop writing.

The lease is checked at the moment of the write, at every attempt: a paused process resumes in the middle of its work
and does not know how long it was paused. The check travels in the context of a request, so it reaches the store from
the controller that writes, and nothing else. The guard is asked when a put or a delete is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shoal.objects.errors import Unavailable
from shoal.store.decorator import StoreDecorator
from shoal.store.interface import Store, StoreUnavailable

LeaseCheck = Callable[[], bool]
_lease_check: ContextVar[LeaseCheck | None] = ContextVar("holds", default=None)

RETRY_AFTER_SECONDS = 5
"""The Retry-After of a write that a guard denies."""
WriteGuard = Callable[[str, bytes | None], str]
"""Returns why a write is denied, given the key and its new value (None: a deletion); empty if it is allowed."""


class FencedError(StoreUnavailable):
    def __init__(self) -> None:
        super().__init__("this server lost its lease: another server runs the controllers")


@contextmanager
def fenced_by(lease_check: LeaseCheck) -> Iterator[None]:
    """Writes in this context succeed only while the check returns True."""
    token = _lease_check.set(lease_check)
    try:
        yield
    finally:
        _lease_check.reset(token)


def current_lease_check() -> LeaseCheck | None:
    """Returns the lease check of the current context."""
    return _lease_check.get()


class GuardedStore(StoreDecorator):
    """Checks every put and delete with a guard. A denied write was never queued. Reads, watches and transactions
    are not checked.
    """

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
