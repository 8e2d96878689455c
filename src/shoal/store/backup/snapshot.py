"""What a store gives to be backed up: everything in it at one revision, while others go on writing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from shoal.store.interface import KeyValue


class Snapshot(Protocol):
    """Values are as they are stored: what is encrypted stays so."""

    kind: str
    """sqlite or etcd."""
    id: str
    ancestors: tuple[str, ...]
    """IDs of stores it was restored from: a server that had one of them may go on with it."""
    revision: int
    """Of the state that is read."""
    newest: int
    """Of the store when the snapshot was opened."""

    def pages(self) -> AsyncIterator[Sequence[KeyValue]]:
        """In the order of keys, a few at a time. Raises StoreError."""

    async def note(self, name: str) -> bytes | None:
        """What the servers of a shared store keep under that name."""

    async def strays(self) -> dict[str, int]:
        """Places beside the store with keys that are not its own, and how many."""

    async def close(self) -> None: ...


OpenSnapshot = Callable[[int], Awaitable[Snapshot]]
"""At that revision; 0 is the newest. Raises Compacted or FutureRevision."""
