"""The storage contract of the API server: ordered revisions, compare-and-swap, history and watch.

A store has one sequence of revisions: every write gets a higher revision than all writes before it, in one log. Events
are delivered and futures resolve after the write is durable, in revision order. Values are opaque bytes.

    StoreError
    ├── CompareFailed           the key is not at the expected revision
    ├── Compacted               the requested revision is older than the history
    ├── FutureRevision          the requested revision is newer than the store
    ├── ValueTooLarge           the store does not take values of that size
    ├── TransactionUnsupported  the store cannot write so much in one transaction, or cannot choose its revisions
    ├── StoreUnavailable        it cannot be written or read now (disk full, unreachable); nothing was acknowledged
    ├── StoreFormatError        the data belongs to another program or has a newer format
    └── StoreLost               the data this server has served is gone
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from shoal.objects.errors import StoreError


class CompareFailed(StoreError):
    def __init__(self, key: str, current_revision: int) -> None:
        super().__init__(f"{key} is at revision {current_revision}")
        self.key = key
        self.current_revision = current_revision
        """The newest revision of the key, queued writes included; 0 if the key does not exist."""


class Compacted(StoreError):
    def __init__(self, requested: int, oldest: int) -> None:
        super().__init__(f"revision {requested} is compacted, the oldest is {oldest}")
        self.requested, self.oldest = requested, oldest


class FutureRevision(StoreError):
    def __init__(self, requested: int, current: int) -> None:
        super().__init__(f"revision {requested} is in the future, the newest is {current}")
        self.requested, self.current = requested, current


class ValueTooLarge(StoreError):
    pass


class TransactionUnsupported(StoreError):
    pass


class StoreUnavailable(StoreError):
    pass


class StoreFormatError(StoreError):
    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class StoreLost(StoreError):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class KeyValue(NamedTuple):
    key: str
    value: bytes
    revision: int


class WriteOp(NamedTuple):
    key: str
    value: bytes | None
    """None deletes the key."""
    expected_revision: int


class StoreEvent(NamedTuple):
    revision: int
    key: str
    value: bytes | None
    """None if the key was deleted."""


EventHandler = Callable[[Sequence[StoreEvent]], None]
"""Takes events in revision order, on the event loop. Must not raise."""
ProgressHandler = Callable[[int], None]
"""Called when no more events will come up to that revision, because other clients write revisions too."""


class Subscription(Protocol):
    def cancel(self) -> None: ...


class Store(Protocol):
    @property
    def id(self) -> str:
        """Created once with the data and kept for its life. It tells a restored or foreign store from the own one."""

    @property
    def revision(self) -> int:
        """The newest durable revision. A new store starts at 1, so that no object ever has revision 0."""

    @property
    def compacted_revision(self) -> int:
        """The oldest revision that can still be read. Watches may start from it."""

    def put(self, key: str, value: bytes, expected_revision: int) -> asyncio.Future[int]:
        """Writes if the key is at `expected_revision` (0: it must not exist). Resolves to the new revision once it is
        durable and delivered. CompareFailed is raised at once or set on the future if another write was first; that
        write has been delivered by then, or `flush` waits for it.
        """

    def delete(self, key: str, expected_revision: int) -> asyncio.Future[int]:
        """Like `put`; `expected_revision` is never 0."""

    @property
    def supports_transactions(self) -> bool:
        """True if the store supports `transaction`. Otherwise `transaction` raises TransactionUnsupported."""

    def transaction(self, operations: Sequence[WriteOp], above_revision: int = 0) -> asyncio.Future[int]:
        """Writes all operations or none, in this order and as one delivery, at revisions above `above_revision`; later
        writes are above it too. Resolves to the last revision. Raises CompareFailed or TransactionUnsupported, and
        then nothing is written.
        """

    async def flush(self) -> None:
        """Returns when every write queued before this call is durable (or has failed) and delivered."""

    def read_index(self) -> asyncio.Future[None] | None:
        """Linearizable read barrier: resolves when everything is delivered that any server of this store had
        acknowledged before this call. Returns None if that is the case already.
        """

    async def get(self, key: str) -> KeyValue | None: ...

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0
    ) -> tuple[list[KeyValue], int]:
        """Returns the keys with the prefix in byte order, from `start` on, at most `limit` (0: all), as of `revision`
        (0: newest durable), and the revision that was read.
        """

    def watch(
        self, after_revision: int, handler: EventHandler, on_progress: ProgressHandler | None = None
    ) -> Subscription:
        """Delivers the history after that revision, then every new event, each once, in order. Raises Compacted or
        FutureRevision.
        """

    async def compact(self, revision: int) -> None:
        """Drops history older than `revision`. Never blocks writes for more than a few milliseconds."""

    @property
    def failure(self) -> asyncio.Future[StoreError]:
        """Resolves to the reason if this server cannot use the store any more."""

    def health_error(self) -> str:
        """Returns why the store cannot serve at the moment; empty if it can."""

    async def close(self) -> None: ...
