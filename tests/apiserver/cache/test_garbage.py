"""A full run of the garbage collector does not visit the cached objects one by one."""

from __future__ import annotations

import gc

from shoal.apiserver.cache.objects import CachedObject, CacheEvent


def test_objects_and_events_are_not_visited_by_the_garbage_collector() -> None:
    entry = CachedObject("default", "a", 1, b"{}")
    entry.conversions = {"other": CachedObject("default", "a", 1, b"{}")}
    event = CacheEvent(1, "root", None, entry)
    event.encoded_frames["json"] = b"{}"
    assert not gc.is_tracked(entry)
    assert not gc.is_tracked(event)
    assert CacheEvent(2, "root", entry, None).encoded_frames == {}, "each has its own"
