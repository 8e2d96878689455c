"""Deletes everything a logical cluster stored, regardless of finalizers.

Nothing is left in the cluster that could act on a finalizer, and a client cannot delete tombstones of bootstrap
objects. So the server purges the cluster itself, right before its LogicalCluster is removed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from shoal.apiserver.core import Core
from shoal.store.interface import CompareFailed

TOGETHER = 256


async def purge(core: Core, cluster: str) -> None:
    while True:
        await core.store.settled()
        found = _stored(core, cluster)
        if not found:
            return
        for start in range(0, len(found), TOGETHER):
            await asyncio.gather(*(_delete(core, *item) for item in found[start : start + TOGETHER]))


def _stored(core: Core, cluster: str) -> list[tuple[str, int]]:
    """Keys and revisions of everything in the store. Unwritten bootstrap objects are not in it."""
    found = []
    for kind in core.cache.kinds.values():
        table = kind.tables.get(cluster)
        if table is not None:
            found += [
                (f"{kind.key}/{cluster}/{key}", entry.revision)
                for key, entry in table.entries.items()
                if not entry.virtual
            ]
        found += [(f"{kind.key}/{cluster}/{key}", revision) for key, revision in kind.removed.get(cluster, {}).items()]
    return found


async def _delete(core: Core, key: str, revision: int) -> None:
    with suppress(CompareFailed):  # written meanwhile: the next round deletes it
        await core.store.delete(key, revision)
