"""What the server says about itself: the errors it logs, and whether its memory still equals its store."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import BufferingHandler

import orjson

from shoal.apiserver.cache.cacher import TOMBSTONE, WatchCache, split_key
from shoal.apiserver.cache.storage_form import inject_revision
from shoal.store.interface import Store
from tests.serving import Server


@contextmanager
def errors_logged() -> Iterator[list[logging.LogRecord]]:
    """Errors of every logger, from any thread."""
    handler = BufferingHandler(10_000)
    handler.setLevel(logging.ERROR)
    logging.getLogger().addHandler(handler)
    try:
        yield handler.buffer
    finally:
        logging.getLogger().removeHandler(handler)


def check_cache(server: Server, cluster: str) -> int:
    """Every object of the cluster in memory is the one in the store, and well-formed; how many there are.

    Of one cluster whose schemas did not change: memory holds objects as their newest schema reads them.
    """
    return server.call(_check(server.shoal.store, server.shoal.server.core.cache, cluster))


async def _check(store: Store, cache: WatchCache, only: str) -> int:
    await store.flush()
    everything, revision = await store.range("")
    stored = [found for found in everything if split_key(found.key)[1] == only]
    await cache.wait_for_revision(revision)
    cached = {
        (key, cluster, entry.namespace, entry.name): entry
        for key, kind in cache.resource_caches.items()
        for cluster, table in kind.tables.items()
        for entry in table.entries.values()
        if cluster == only and not entry.virtual
    }
    for key, value, written in stored:
        where = split_key(key)
        if value == TOMBSTONE:
            assert cache.resource_caches[where[0]].tombstones[where[1]][f"{where[2]}/{where[3]}"] == written
            continue
        entry = cached.pop(where)
        assert entry.revision == written
        assert entry.data == inject_revision(value, written)
        obj = orjson.loads(entry.data)
        metadata = obj["metadata"]
        assert (metadata.get("namespace", ""), metadata["name"]) == where[2:]
        assert metadata["resourceVersion"] == str(written)
        assert isinstance(metadata["uid"], str)
    assert not cached, "in memory, but not in the store"
    return len(stored)
