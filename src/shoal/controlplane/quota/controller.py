"""Keeps status.hard and status.used of every ResourceQuota up to date, in every logical cluster.

It only reports usage; admission enforces quotas with its own count. A namespace with a quota has one watch for each
resource the quota names; other namespaces have none.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.controlplane.quota.decide import KindName, needs_writing, next_change, status, watched
from shoal.kinds.quota_usage import Charge, charge
from shoal.objects.errors import NotFound, StatusError
from shoal.runtime.queue import WorkQueue

log = logging.getLogger("shoal.controlplane")

Object = dict[str, Any]
Place = tuple[str, str]
"""Logical cluster and namespace."""

QUOTAS = Kind("", "v1", "resourcequotas")
WORKERS = 4
REST_SECONDS = 0.05
"""Minimum interval between two status writes of a namespace, so that many changes cause one write."""
SYNC_SECONDS = 0.02
UNKNOWN_SECONDS = 10.0
"""Retry delay of discovery for a resource that is not served: its CRD may arrive."""


class Watched:
    """Informer of one resource in one namespace, with the measured usage of its objects."""

    def __init__(self, client: Client, kind: Kind, namespace: str, clock: Clock, changed: partial[None]) -> None:
        self._kind, self._changed = kind, changed
        self.charges: dict[Key, Charge] = {}
        self.reflector = Reflector(client, kind, clock, self._seen, fields=f"metadata.namespace={namespace}")
        self.task = asyncio.create_task(self.reflector.run(), name=f"quota {kind.plural}")

    def _seen(self, key: Key, obj: Object | None) -> None:
        if obj is None:
            self.charges.pop(key, None)
        else:
            self.charges[key] = charge(self._kind.group, self._kind.plural, obj)
        self._changed()


class QuotaController:
    name = "quotas"

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._queue: WorkQueue[Place] = WorkQueue(clock, "resourcequotas")
        self._quotas: dict[Place, dict[str, Object]] = {}
        self._watched: dict[Place, dict[KindName, Watched]] = {}
        self._resting: set[asyncio.Task[None]] = set()
        self._reflector = Reflector(client.at("*"), QUOTAS, clock, self._quota_changed)

    def _quota_changed(self, key: Key, obj: Object | None) -> None:
        place, name = key[:2], key[2]
        found = self._quotas.setdefault(place, {})
        if obj is None:
            found.pop(name, None)
        else:
            found[name] = obj
        self._queue.add(place)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._reflector.run())
                for _ in range(WORKERS):
                    group.create_task(self._work())
        finally:
            self._queue.close()
            for place in list(self._watched):
                self._forget(place)
            for task in self._resting:
                task.cancel()

    async def _work(self) -> None:
        while True:
            place = await self._queue.take()
            try:
                wrote, later = await self._reconcile(place)
            except (StatusError, Unreachable) as error:
                pause = self._queue.failed(place)
                log.info("quotas: %s/%s: %s; again in %.1f s", *place, error, pause)
                continue
            except Exception:
                log.exception("quotas: %s/%s", *place)
                self._queue.failed(place)
                continue
            if wrote:
                self._rest(place)
            else:
                self._queue.done(place)
            if later is not None:
                self._queue.add_after(place, later)

    def _rest(self, place: Place) -> None:
        async def rest() -> None:
            await self._clock.sleep(REST_SECONDS)
            self._queue.done(place)

        task = asyncio.create_task(rest())
        self._resting.add(task)
        task.add_done_callback(self._resting.discard)

    async def _reconcile(self, place: Place) -> tuple[bool, float | None]:
        """Returns whether a status was written, and the delay until the next reconcile if nothing changes before."""
        quotas = self._quotas.get(place)
        if not quotas:
            self._quotas.pop(place, None)
            self._forget(place)
            return False, None
        unknown = await self._follow(place, watched(quotas.values()))
        found = self._watched[place]
        if not all(one.reflector.synced for one in found.values()):
            return False, SYNC_SECONDS
        charges = {name: one.charges.values() for name, one in found.items()}
        now, wrote = self._clock.now(), False
        for quota in list(quotas.values()):
            wanted = status(quota, charges, now)
            if needs_writing(quota, wanted):
                wrote = True
                await self._write(place, quota, wanted)
        later = next_change(charges, now)
        return wrote, UNKNOWN_SECONDS if unknown and (later is None or later > UNKNOWN_SECONDS) else later

    async def _write(self, place: Place, quota: Object, wanted: Object) -> None:
        with suppress(NotFound):  # the quota was deleted; the informer delivers that shortly
            await self._client.at(place[0]).update(QUOTAS, {**quota, "status": wanted}, "status")

    async def _follow(self, place: Place, wanted: set[KindName]) -> bool:
        """Watches exactly the desired resources. Returns whether some are not served."""
        cluster, namespace = place
        found = self._watched.setdefault(place, {})
        for name in [name for name in found if name not in wanted]:
            found.pop(name).task.cancel()
        missing = wanted - found.keys()
        if not missing:
            return False
        client = self._client.at(cluster)
        served = {(kind.group, kind.plural): kind for kind, verbs in await client.discover() if "watch" in verbs}
        changed = partial(self._queue.add, place)
        for name in missing & served.keys():
            if served[name].namespaced:
                found[name] = Watched(client, served[name], namespace, self._clock, changed)
        return not missing <= served.keys()

    def _forget(self, place: Place) -> None:
        for one in self._watched.pop(place, {}).values():
            one.task.cancel()
