"""Empties a logical cluster that is going: everything it stored goes, whatever finalizers say.

Nobody is left inside to act on a finalizer, and removal marks of bootstrap objects are no objects a client could
delete; so the server does it itself, right before the LogicalCluster goes.
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
    """Keys and revisions of all that is in the store; objects of bootstrap that nobody wrote are not."""
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
    with suppress(CompareFailed):  # somebody wrote it meanwhile: the next round finds it
        await core.store.delete(key, revision)
