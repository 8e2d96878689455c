"""What a server does with its store before it serves: it loads the cache, and creates root at the first start."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress
from typing import Any

from shoal.apiserver.cache.cacher import WatchCache, store_key
from shoal.apiserver.cache.storage_form import encode
from shoal.apiserver.request.info import ROOT
from shoal.clock import Clock, rfc3339
from shoal.kinds.fleet import logicalcluster
from shoal.store.interface import CompareFailed, Store


async def load_cache(store: Store, cache: WatchCache) -> None:
    """Loads the oldest state of the history, then the history itself, so that watches resume where they were cut."""
    oldest = store.compacted_revision
    items, _ = await store.range("", revision=oldest)
    cache.load(iter(items), oldest)
    store.watch(oldest, cache.apply, cache.advance)
    # Others may write meanwhile. From the moment both revisions are equal the watch is live, and neither runs ahead.
    while cache.revision < store.revision:
        caught_up = asyncio.ensure_future(cache.wait_for_revision(store.revision))
        futures: list[asyncio.Future[Any]] = [caught_up, store.failure]
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        if store.failure.done():
            caught_up.cancel()
            raise store.failure.result()


async def ensure_root_cluster(store: Store, cache: WatchCache, clock: Clock, profile: str) -> None:
    """Root exists from the first start on. A profile requested later replaces its own."""
    kind = cache.resource_cache(logicalcluster.GROUP, logicalcluster.PLURAL)
    entry = kind.get(ROOT, "", ROOT)
    key = store_key(kind.key, ROOT, "", ROOT)
    if entry is None:
        obj = logicalcluster.root_logical_cluster(rfc3339(clock.now()), str(uuid.uuid4()), profile or "hub")
        with suppress(CompareFailed):  # another server of the store was faster
            await store.put(key, encode(obj), 0)
    elif profile and entry.object()["spec"].get("profile") != profile:
        obj = entry.object()
        obj["spec"]["profile"] = profile
        await store.put(key, encode(obj), entry.revision)
