"""Deletes auto-created Workers that have hosted nothing for a while. Their processes end with them.

A change of what a Worker hosts changes its status, which triggers a reconcile. What it hosts is read from the API. A
hub that has just started begins to count anew.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.fleet.resources import CONFIG_MAPS, MANAGED_CLUSTERS, WORKERS
from shoal.fleet.scheduler.growth import setting
from shoal.fleet.shrinking.decide import concerns, decide
from shoal.kinds import fleet
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Later, Loop

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

SETTING = "", fleet.NAMESPACE, fleet.AUTO_WORKERS


class Shrinking:
    """Keys are Workers."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._empty: dict[Key, tuple[str, float]] = {}
        """The uid of each empty Worker, and since when it is empty."""
        self.loop: Loop[Key] = Loop("fleet-shrinking", clock, self.reconcile, workers=1)
        self._workers = Reflector(client, WORKERS, clock, self._changed, shared=True)
        fields = f"metadata.namespace={fleet.NAMESPACE},metadata.name={fleet.AUTO_WORKERS}"
        self._setting = Reflector(client, CONFIG_MAPS, clock, lambda key, _: self._look_at_all(), fields=fields)
        self.loop.sources += [self._workers.run, self._setting.run]

    def _changed(self, key: Key, worker: Object | None) -> None:
        if worker is None:
            self._empty.pop(key, None)
        elif concerns(worker):
            self.loop.queue.add(key)

    def _look_at_all(self) -> None:
        for key, worker in self._workers.objects.items():
            self._changed(key, worker)

    async def reconcile(self, key: Key) -> float | None:
        worker = self._workers.objects.get(key)
        if worker is None:
            return None
        if not self._setting.synced:
            raise Later("the settings have not been listed yet")
        uid, allowed = worker["metadata"]["uid"], setting(self._setting.objects.get(SETTING))
        hosted, _ = await self._client.list_all(MANAGED_CLUSTERS, fields=f"status.assignedWorker={key[2]}")
        known, since = self._empty.get(key, ("", None))
        decision = decide(worker, bool(hosted), since if known == uid else None, allowed, self._clock.monotonic())
        self._empty.pop(key, None)
        if decision.empty_since is not None:
            self._empty[key] = uid, decision.empty_since
        if decision.delete:
            with suppress(NotFound):
                await self._client.delete(WORKERS, key[2], key[1], uid=uid)
                log.info("worker %s was made by itself and is empty: it is deleted", key[2])
        return decision.again
