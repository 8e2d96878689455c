"""Deletes everything a logical cluster stored, regardless of finalizers.

Nothing is left in the cluster that could act on a finalizer, and a client cannot delete tombstones of bootstrap
objects. So the server purges the cluster itself, right before its LogicalCluster is removed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from shoal.apiserver.server import ServerComponents
from shoal.store.interface import CompareFailed

BATCH_SIZE = 256


async def purge(server: ServerComponents, cluster: str) -> None:
    while True:
        await server.store.flush()
        keys = _stored_keys(server, cluster)
        if not keys:
            return
        for start in range(0, len(keys), BATCH_SIZE):
            await asyncio.gather(*(_delete(server, *item) for item in keys[start : start + BATCH_SIZE]))


def _stored_keys(server: ServerComponents, cluster: str) -> list[tuple[str, int]]:
    """Keys and revisions of everything in the store. Unwritten bootstrap objects are not in it."""
    keys = []
    for kind in server.cache.resource_caches.values():
        table = kind.tables.get(cluster)
        if table is not None:
            keys += [
                (f"{kind.key}/{cluster}/{key}", entry.revision)
                for key, entry in table.entries.items()
                if not entry.virtual
            ]
        keys += [
            (f"{kind.key}/{cluster}/{key}", revision) for key, revision in kind.tombstones.get(cluster, {}).items()
        ]
    return keys


async def _delete(server: ServerComponents, key: str, revision: int) -> None:
    with suppress(CompareFailed):  # written meanwhile: the next round deletes it
        await server.store.delete(key, revision)
