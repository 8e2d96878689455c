"""Shared informers, after client-go: a local copy of one kind, its indexes, and event handlers.

Informers of one client for the same kind and selectors share one reflector, one copy and one index per index function.
Objects of an informer must not be modified. The rule for reading one's own writes is one comparison: a write is visible
when the informer's revision has reached the write's resourceVersion. Until then `observe_write` shows it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from shoal.client.reflector import Key, Transform, strip_managed_fields
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.runtime.informer_store import IndexFunc, InformerStore
from shoal.runtime.metrics import count_handler_failure

log = logging.getLogger("shoal.runtime")

Object = dict[str, Any]
EventHandler = Callable[[Key, Object | None, Object | None], None]
"""Called with the key, the object as it was last delivered to this handler, and the object now. Old is None for a new
object, new is None for a deleted one.
"""

BASE_DELAY, MAX_DELAY = 1.0, 60.0
"""Backoff of a delivery that failed."""


class Informer:
    """One consumer of a shared store: its handlers and its sync state."""

    def __init__(
        self,
        client: Client,
        gvr: GroupVersionResource,
        clock: Clock,
        *,
        labels: str = "",
        fields: str = "",
        indexers: Iterable[IndexFunc] = (),
        admits: Callable[[str], bool] | None = None,
        transform: Transform = strip_managed_fields,
        poll_until_served: float | None = None,
        resumable: bool = False,
    ) -> None:
        """`admits` selects the logical clusters whose events are delivered. `transform` maps each object before it is
        stored. `poll_until_served`: seconds between silent polls of a kind that the server may serve later.
        `resumable`: for a server that is often unreachable. The copy is kept while the informer is stopped. When it
        runs again, the watch resumes and only changes are delivered.
        """
        self.gvr = gvr
        self.name = f"informer {gvr.resource}"
        self._clock, self._admits = clock, admits
        self._store = InformerStore.for_client(
            client, gvr, clock, labels=labels, fields=fields, poll_until_served=poll_until_served, transform=transform
        )
        self._store.add_indexers(indexers)
        self._store.is_resumable |= resumable
        self._resumable = resumable
        self._deliveries: list[_Delivery] = []
        self._sync_callbacks: list[Callable[[], None]] = []
        self._failed_callbacks: set[Callable[[], None]] = set()
        self._synced = asyncio.Event()
        self._resumed_from: dict[Key, Object] = {}
        """What was delivered when the informer was last stopped."""
        self._has_stopped = False
        self._has_failed = asyncio.Event()
        self._run_lock = asyncio.Lock()

    # --- reads ---

    @property
    def has_synced(self) -> bool:
        """A complete list has been delivered to the handlers. Before that, an existing object looks missing."""
        return self._synced.is_set()

    async def wait_for_sync(self) -> None:
        await self._synced.wait()

    @property
    def revision(self) -> int:
        """Every write up to this revision has been delivered; 0 before the first list."""
        return self._store.revision if self.has_synced else 0

    @property
    def objects(self) -> dict[Key, Object]:
        return self._store.objects

    def get(self, key: Key) -> Object | None:
        return self._store.objects.get(key)

    def by_index(self, index: IndexFunc, value: Any) -> list[Object]:
        """Objects with that value, sorted by key."""
        return self._store.by_index(index, value)

    # --- handlers ---

    def add_event_handler(self, handler: EventHandler) -> None:
        self._deliveries.append(_Delivery(handler))

    def on_sync(self, callback: Callable[[], None]) -> None:
        """Adds a callback that is called after every complete list."""
        self._sync_callbacks.append(callback)

    # --- read-your-writes ---

    def observe_write(self, obj: Object, cluster: str = "") -> Object:
        """Shows the response of a write until the watch delivers it. Handlers are called when the watch does. `cluster`
        is the logical cluster of the object if the informer spans several.
        """
        return self._store.observe_write(obj, cluster)

    def observe_missing(self, obj: Object) -> None:
        """Hides an object that the server reported as not found, until the watch delivers its deletion."""
        self._store.observe_missing(obj)

    # --- life ---

    async def run(self) -> None:
        """Runs until it is cancelled. May be called again afterwards: every object is then delivered again, unless the
        informer is resumable.
        """
        # A cancelled run may still be ending when the next one starts.
        async with self._run_lock, self._store.attach(self):
            try:
                while True:
                    await self._redeliver()
                    self._has_failed.clear()
                    await self._has_failed.wait()
            finally:
                if self.has_synced:
                    self._resumed_from = dict(self._store.delivered_objects())
                    self._has_stopped = True
                    if not self._resumable:
                        self._synced.clear()

    def deliver_list(self, old: dict[Key, Object]) -> None:
        """Called by the store after a complete list, with the objects as they were delivered before it."""
        if self._has_stopped:
            old, self._resumed_from, self._has_stopped = self._resumed_from, {}, False
        self._synced.set()
        current = self._store.delivered_objects()
        for key, obj in tuple(current.items()):
            if not self._resumable or old.get(key) is not obj:
                self.deliver(key, old.get(key), obj)
        for key, obj in old.items():
            if key not in current:
                self.deliver(key, obj, None)
        for callback in self._sync_callbacks:
            if not self._call(callback):
                self._failed_callbacks.add(callback)

    def deliver(self, key: Key, old: Object | None, new: Object | None) -> None:
        """Called by the store for each event."""
        if self._admits is not None and not self._admits(key[0]):
            return
        for delivery in self._deliveries:
            if key not in delivery.failed and not self._call(delivery.handler, key, old, new):
                delivery.failed[key] = old

    def _call(self, callback: Callable[..., None], *arguments: Any) -> bool:
        """A callback that fails affects neither other callbacks nor other objects."""
        try:
            callback(*arguments)
        except Exception:
            log.exception("event handler of %s failed", self.gvr.resource)
            count_handler_failure(self.gvr.resource)
            self._has_failed.set()
            return False
        return True

    async def _redeliver(self) -> None:
        """Delivers failed events again, each with the newest object, until all have succeeded."""
        delay = BASE_DELAY
        while self._failed_callbacks or any(delivery.failed for delivery in self._deliveries):
            await self._clock.sleep(delay)
            delay = min(delay * 2, MAX_DELAY)
            current = self._store.delivered_objects()
            for delivery in self._deliveries:
                failed, delivery.failed = delivery.failed, {}
                for key, old in failed.items():
                    if not self._call(delivery.handler, key, old, current.get(key)):
                        delivery.failed[key] = old
            callbacks, self._failed_callbacks = self._failed_callbacks, set()
            self._failed_callbacks |= {callback for callback in callbacks if not self._call(callback)}


class _Delivery:
    """A handler, and the keys whose last event it failed to handle, each with the object it saw before."""

    __slots__ = ("failed", "handler")

    def __init__(self, handler: EventHandler) -> None:
        self.handler = handler
        self.failed: dict[Key, Object | None] = {}
