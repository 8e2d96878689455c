"""Deletes auto-created Workers that have hosted nothing for a while. Their processes end with them.

A change of what a Worker hosts changes its status, which triggers a reconcile. What it hosts is read from the API. A
hub that has just started begins to count anew.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.fleet.resources import CONFIG_MAPS, MANAGED_CLUSTERS, WORKERS
from shoal.fleet.scheduler.scaleup import AutoWorkerSettings, parse_auto_worker_settings
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer


@dataclass(frozen=True, slots=True)
class ScaleDownDecision:
    empty_since: float | None = None
    """On the monotonic clock; None if it is not empty, or if that does not matter."""
    delete: bool = False
    requeue_after: float | None = None


def is_auto_worker(worker: Object) -> bool:
    metadata = worker["metadata"]
    is_auto = infrav1.AUTO_WORKER_LABEL in (metadata.get("labels") or {})
    return is_auto and metadata.get("namespace") == infrav1.NAMESPACE and not infrav1.is_deleting(worker)


def decide(
    worker: Object, has_clusters: bool, empty_since: float | None, settings: AutoWorkerSettings, monotonic: float
) -> ScaleDownDecision:
    """`has_clusters`: a ManagedCluster is assigned to it. `empty_since`: when it was first seen empty. Without
    settings, or with invalid ones, nothing is deleted.
    """
    if not is_auto_worker(worker) or has_clusters or settings.settings_error or settings.empty_seconds is None:
        return ScaleDownDecision()
    first_empty = monotonic if empty_since is None else empty_since
    remaining = first_empty + settings.empty_seconds - monotonic
    return ScaleDownDecision(first_empty, remaining <= 0, remaining if remaining > 0 else None)


log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

SETTINGS_KEY = "", infrav1.NAMESPACE, infrav1.AUTO_WORKERS_CONFIG_MAP


class ScaleDownReconciler:
    """Keys are Workers."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._empty_since: dict[Key, tuple[str, float]] = {}
        """The uid of each empty Worker, and since when it is empty."""
        self.controller: Controller[Key] = Controller("fleet-shrinking", clock, self.reconcile, workers=1)
        self._workers = Informer(client, WORKERS, clock)
        fields = f"metadata.namespace={infrav1.NAMESPACE},metadata.name={infrav1.AUTO_WORKERS_CONFIG_MAP}"
        self._settings = Informer(client, CONFIG_MAPS, clock, fields=fields)
        self.controller.watch(self._workers, self._on_worker)
        self.controller.watch(self._settings, self._on_settings)

    def _on_worker(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._empty_since.pop(key, None)
        elif is_auto_worker(new):
            self.controller.queue.add(key)

    def _on_settings(self, key: Key, old: Object | None, new: Object | None) -> None:
        for worker_key, worker in self._workers.objects.items():
            if is_auto_worker(worker):
                self.controller.queue.add(worker_key)

    async def reconcile(self, key: Key) -> float | None:
        worker = self._workers.get(key)
        if worker is None:
            return None
        if not self._settings.has_synced:
            raise RequeueError("informer of settings has not synced yet")
        uid, settings = worker["metadata"]["uid"], parse_auto_worker_settings(self._settings.get(SETTINGS_KEY))
        hosted, _ = await self._client.list_all(MANAGED_CLUSTERS, fields=f"status.assignedWorker={key[2]}")
        known_uid, since = self._empty_since.get(key, ("", None))
        decision = decide(worker, bool(hosted), since if known_uid == uid else None, settings, self._clock.monotonic())
        self._empty_since.pop(key, None)
        if decision.empty_since is not None:
            self._empty_since[key] = uid, decision.empty_since
        if decision.delete:
            with suppress(NotFound):
                await self._client.delete(WORKERS, key[2], key[1], uid=uid)
                log.info("deleted empty auto-created worker %s", key[2])
        return decision.requeue_after
