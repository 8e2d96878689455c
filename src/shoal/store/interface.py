"""What the API server needs of a store: ordered revisions, compare-and-swap, history, watch.

One revision line per store: every write gets the next revision of one log. Compares see queued writes;
delivery to watchers and the returned futures follow durability, in revision order. Values are opaque bytes.

    StoreError
    ├── CompareFailed    the key's revision is not the expected one
    ├── Compacted        the asked revision is older than history
    ├── FutureRevision   the asked revision is newer than the store's
    ├── StoreUnavailable it cannot be written or read now (disk full, unreachable); nothing was acknowledged
    └── StoreFormat      the data is of another program, or of a newer format
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from shoal.objects.errors import StoreError


class CompareFailed(StoreError):
    def __init__(self, key: str, current: int) -> None:
        super().__init__(f"{key} is at revision {current}")
        self.key = key
        self.current = current
        """The newest revision of the key, queued writes included; 0 when it does not exist."""


class Compacted(StoreError):
    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"revision {asked} is compacted, the oldest is {oldest}")
        self.asked, self.oldest = asked, oldest


class FutureRevision(StoreError):
    def __init__(self, asked: int, current: int) -> None:
        super().__init__(f"revision {asked} is in the future, the newest is {current}")
        self.asked, self.current = asked, current


class StoreUnavailable(StoreError):
    pass


class StoreFormat(StoreError):
    pass


class KeyValue(NamedTuple):
    key: str
    value: bytes
    revision: int


class Event(NamedTuple):
    revision: int
    key: str
    value: bytes | None
    """None: the key was deleted."""


Deliver = Callable[[Sequence[Event]], None]
"""Takes events in revision order, on the event loop. Must not raise."""


class Subscription(Protocol):
    def cancel(self) -> None: ...


class Store(Protocol):
    @property
    def id(self) -> str:
        """Made once with the data, kept for its life: tells a restored or foreign store from ours."""

    @property
    def revision(self) -> int:
        """The newest durable revision. A fresh store starts at 1, so that no object ever has 0."""

    @property
    def compacted(self) -> int:
        """The oldest revision that can still be read; watches may start from it."""

    def put(self, key: str, value: bytes, expected: int) -> asyncio.Future[int]:
        """Writes if the key's revision is `expected` (0: it must not exist); resolves to the new revision
        once durable and delivered. Raises CompareFailed at once when a queued or durable write is newer."""

    def delete(self, key: str, expected: int) -> asyncio.Future[int]:
        """As `put`; `expected` is never 0."""

    async def settled(self) -> None:
        """Returns when every write queued before this call is durable (or has failed) and delivered."""

    async def get(self, key: str) -> KeyValue | None: ...

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0
    ) -> tuple[list[KeyValue], int]:
        """Keys with the prefix, in byte order, from `start` on, at most `limit` (0: all), as of `revision`
        (0: newest durable). The second value is the revision that was read."""

    def watch(self, after: int, deliver: Deliver) -> Subscription:
        """First the history after that revision, then everything new, each event once, in order.
        Raises Compacted or FutureRevision."""

    async def compact(self, revision: int) -> None:
        """Drops history older than `revision`. Never holds writes for more than a few milliseconds."""

    async def close(self) -> None: ...
