"""What the API server needs of a store: ordered revisions, compare-and-swap, history, watch.

One revision line per store: every write gets a higher revision than all before it, in one log. Delivery to
watchers and the returned futures follow durability, in revision order. Values are opaque bytes.

    StoreError
    ├── CompareFailed    the key's revision is not the expected one
    ├── Compacted        the asked revision is older than history
    ├── FutureRevision   the asked revision is newer than the store's
    ├── ValueTooLarge    the store does not take values of that size
    ├── NotTogether      the store cannot write so much as one, or revisions are not its own to give
    ├── StoreUnavailable it cannot be written or read now (disk full, unreachable); nothing was acknowledged
    ├── StoreFormat      the data is of another program, or of a newer format
    └── StoreLost        the data this server had served is not there any more
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


class ValueTooLarge(StoreError):
    pass


class NotTogether(StoreError):
    pass


class StoreUnavailable(StoreError):
    pass


class StoreFormat(StoreError):
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


class Write(NamedTuple):
    key: str
    value: bytes | None
    """None: the key is to be deleted."""
    expected: int


class Event(NamedTuple):
    revision: int
    key: str
    value: bytes | None
    """None: the key was deleted."""


Deliver = Callable[[Sequence[Event]], None]
"""Takes events in revision order, on the event loop. Must not raise."""
Advance = Callable[[int], None]
"""Told that nothing more will come up to that revision: others write revisions too."""


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
        once durable and delivered. CompareFailed, when another write was first, is raised at once or comes by
        the future; then that other write is delivered, or `settled` waits for it."""

    def delete(self, key: str, expected: int) -> asyncio.Future[int]:
        """As `put`; `expected` is never 0."""

    @property
    def takes_together(self) -> bool:
        """Whether it does what `together` is for; NotTogether otherwise."""

    def together(self, writes: Sequence[Write], above: int = 0) -> asyncio.Future[int]:
        """All of them or none, in this order and as one delivery, at revisions above that one; later writes are above
        it too. Resolves to the last revision. Raises CompareFailed or NotTogether, and nothing is written."""

    async def settled(self) -> None:
        """Returns when every write queued before this call is durable (or has failed) and delivered."""

    def fresh(self) -> asyncio.Future[None] | None:
        """Resolves when everything is delivered that was acknowledged to anybody before this call, by any server
        of this store. None: that is so now."""

    async def get(self, key: str) -> KeyValue | None: ...

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0
    ) -> tuple[list[KeyValue], int]:
        """Keys with the prefix, in byte order, from `start` on, at most `limit` (0: all), as of `revision`
        (0: newest durable). The second value is the revision that was read."""

    def watch(self, after: int, deliver: Deliver, advance: Advance | None = None) -> Subscription:
        """First the history after that revision, then everything new, each event once, in order.
        Raises Compacted or FutureRevision."""

    async def compact(self, revision: int) -> None:
        """Drops history older than `revision`. Never holds writes for more than a few milliseconds."""

    @property
    def failure(self) -> asyncio.Future[StoreError]:
        """Resolves if the store cannot be used any more by this server, to the reason."""

    def problem(self) -> str:
        """Why it cannot serve at the moment; empty when it can."""

    async def close(self) -> None: ...
