"""Registers a worker at its hub: its Worker object, its Lease every few seconds, and which hub it belongs to.

A Worker object belongs to one store; one that was declared before belongs to the first worker that joins by its name. A
worker with another store is rejected: the clusters assigned to that name are in the first one's store. Conversely the
hub is pinned in the worker's own root.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339_micro
from shoal.fleet.bus.interface import Bus, Name
from shoal.fleet.resources import CONFIG_MAPS, LEASES, LOGICAL_CLUSTERS, NAMESPACES, WORKERS
from shoal.fleet.worker.registration.decide import lease, spec_patch, store_of, taken, worker_object
from shoal.fleet.worker.settings import WorkerSettings
from shoal.kinds import fleet
from shoal.objects.errors import AlreadyExists, NotFound, StatusError
from shoal.runtime.loop import Later, Loop

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

PIN = "hub"
"""ConfigMap in the worker's own root that names the hub it belongs to."""
RETRY_SECONDS = 1.0


class Renewals(Protocol):
    """Observes renewals of the Lease (`fence.fence`)."""

    @property
    def fences(self) -> bool: ...

    def now(self) -> float: ...

    def renewed(self, start: float) -> None: ...


class Registration:
    def __init__(
        self,
        hub: Client,
        own: Client,
        clock: Clock,
        settings: WorkerSettings,
        bus: Bus,
        fence: Renewals | None = None,
    ) -> None:
        """`fence` is notified of every renewal of the Lease."""
        self._hub, self._own, self._clock, self._settings, self._bus = hub, own, clock, settings, bus
        self._fence = fence
        self._store = self._pinned = ""
        self.hub = ""
        """Id of the hub it is connected to, as of the last heartbeat."""
        self.joined = asyncio.Event()
        """The name belongs to this worker at the hub."""
        self.on_awaited: Callable[[Name], None] = lambda name: None
        """Called for a ManagedCluster that was here before and whose deletion waits for this worker's confirmation."""
        self.loop: Loop[str] = Loop("fleet-registration", clock, self.reconcile, workers=1)
        self.loop.sources.append(self._start)

    async def _start(self) -> None:
        self.loop.queue.add(self._settings.name)

    async def reconcile(self, name: str) -> float:
        """Requeues itself, soon after a failure too: a growing backoff would look like silence to the hub."""
        try:
            await self._register()
            await self._renew()
        except (StatusError, Unreachable, Later) as error:
            log.warning("worker %s: %s", name, error)
            return RETRY_SECONDS
        return fleet.HEARTBEAT_SECONDS

    async def _register(self) -> None:
        self.hub = await self._bus.hub_id()
        self._pinned = await self._pin()
        if not self._store:
            self._store = str((await self._own.get(LOGICAL_CLUSTERS, "root"))["metadata"]["uid"])
        try:
            worker = await self._hub.get(WORKERS, self._settings.name, fleet.NAMESPACE)
        except NotFound:
            if self._settings.declared:
                self.joined.clear()
                raise Later(f"there is no Worker {self._settings.name} any more") from None
            worker = await self._hub.create(WORKERS, worker_object(self._settings, self._store), fleet.NAMESPACE)
            log.info("worker %s joined", self._settings.name)
        if not store_of(worker):
            worker = await self._hub.merge(WORKERS, self._settings.name, taken(worker, self._store), fleet.NAMESPACE)
        if store_of(worker) != self._store:
            self.joined.clear()
            raise Later(
                f"the name {self._settings.name} belongs to another worker's store; start this one with another "
                f"--name, or delete that Worker if it is gone for good"
            )
        patch = spec_patch(worker, self._settings)
        if patch is not None:
            await self._hub.merge(WORKERS, self._settings.name, patch, fleet.NAMESPACE)
        self.joined.set()
        for each in fleet.status_of(worker).get("awaited") or ():
            namespace, _, name = each.partition("/")
            self.on_awaited((namespace, name))

    async def _renew(self) -> None:
        name, now = fleet.lease_name(self._settings.name), rfc3339_micro(self._clock.now())
        # Shows people at this hub that the worker belongs to another one.
        fences = self._fence is not None and self._fence.fences
        annotations = {
            fleet.PINNED_HUB: self._pinned if self._pinned != self.hub else None,
            fleet.FENCES: "true" if fences else None,
        }
        begun = self._fence.now() if self._fence is not None else 0.0
        patch = {"metadata": {"annotations": annotations}, "spec": {"renewTime": now, "holderIdentity": self._store}}
        try:
            await self._hub.merge(LEASES, name, patch, fleet.NAMESPACE)
        except NotFound:
            await self._hub.create(LEASES, lease(self._settings, self._store, now, fences=fences), fleet.NAMESPACE)
        if self._fence is not None and self._pinned == self.hub:
            self._fence.renewed(begun)

    async def _pin(self) -> str:
        """Pins the first hub it connects to, until somebody deletes the ConfigMap."""
        try:
            return _id_of(await self._own.get(CONFIG_MAPS, PIN, fleet.NAMESPACE))
        except NotFound:
            pass
        body = {"metadata": {"name": PIN, "namespace": fleet.NAMESPACE}, "data": {"id": self.hub}}
        await _ensure_namespace(self._own)
        await _create(self._own, CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **body}, fleet.NAMESPACE)
        return self.hub

    async def check_hub(self) -> None:
        """Checks before a deletion that the hub is still the pinned one."""
        pinned = _id_of(await self._own.get(CONFIG_MAPS, PIN, fleet.NAMESPACE))
        if pinned != await self._bus.hub_id():
            message = (
                f"the hub is not the one worker {self._settings.name} joined: deletions are held; to accept it, delete "
                f"ConfigMap {fleet.NAMESPACE}/{PIN} of the worker's own API"
            )
            log.warning("%s", message)
            raise Later(message)


def _id_of(pin: Object) -> str:
    return str((pin.get("data") or {}).get("id") or "")


async def _ensure_namespace(client: Client) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": fleet.NAMESPACE}}
    await _create(client, NAMESPACES, body)


async def _create(client: Client, kind: Kind, obj: Object, namespace: str = "") -> None:
    try:
        await client.create(kind, obj, namespace)
    except AlreadyExists:
        return
