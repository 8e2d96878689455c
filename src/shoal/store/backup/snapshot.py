"""What a store provides for a backup: all its content at one revision, while other clients keep writing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from shoal.store.interface import KeyValue


class StoreSnapshot(Protocol):
    """Values are returned as they are stored; encrypted values stay encrypted."""

    kind: str
    """sqlite or etcd."""
    id: str
    ancestors: tuple[str, ...]
    """IDs of stores it was restored from. A server that served one of them may continue with this store."""
    revision: int
    """The revision of the state that is read."""
    newest_revision: int
    """The newest revision of the store when the snapshot was opened."""

    def pages(self) -> AsyncIterator[Sequence[KeyValue]]:
        """Yields pages of records in key order. Raises StoreError."""

    async def get_metadata(self, name: str) -> bytes | None:
        """Returns the metadata that the servers of a shared store keep under that name."""

    async def orphaned_prefixes(self) -> dict[str, int]:
        """Returns prefixes beside the store with keys that do not belong to it, and the number of keys in each."""

    async def close(self) -> None: ...


OpenSnapshot = Callable[[int], Awaitable[StoreSnapshot]]
"""Opens a snapshot at that revision; 0 is the newest. Raises Compacted or FutureRevision."""
