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

from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339, rfc3339_micro
from shoal.fleet.bus.interface import Bus, Name
from shoal.fleet.bus.link_metrics import BUS_GRACE_SECONDS
from shoal.fleet.resources import CONFIG_MAPS, LEASES, LOGICAL_CLUSTERS, NAMESPACES, WORKERS
from shoal.fleet.worker.registration.decide import lease_object, spec_patch, store_claim_patch, store_of, worker_object
from shoal.fleet.worker.registration.outage import RegistrationOutage
from shoal.fleet.worker.settings import WorkerSettings
from shoal.kinds.fleet import cluster_log, infrav1
from shoal.kinds.fleet.kindhosting import KIND_ANNOTATION, KindOffer
from shoal.objects.errors import AlreadyExists, NotFound, StatusError
from shoal.runtime.controller import Controller, RequeueError

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

HUB_CONFIG_MAP = "hub"
"""ConfigMap in the worker's own root that names the hub it belongs to."""
RETRY_SECONDS = 1.0


class LeaseObserver(Protocol):
    """Observes renewals of the Lease (`fence.fence`)."""

    @property
    def supports_fencing(self) -> bool: ...

    def now(self) -> float: ...

    def on_lease_renewed(self, start: float) -> None: ...


class WorkerRegistration:
    def __init__(
        self,
        hub: Client,
        own: Client,
        clock: Clock,
        settings: WorkerSettings,
        bus: Bus,
        fence: LeaseObserver | None = None,
        kind_offer: Callable[[], KindOffer] | None = None,
    ) -> None:
        """`fence` is notified of every renewal of the Lease. `kind_offer` is None if there are no kind clusters."""
        self._hub, self._own, self._clock, self._settings, self._bus = hub, own, clock, settings, bus
        self._fence, self._kind_offer = fence, kind_offer
        self._store_id = self._pinned_hub = self._bus_down_since = ""
        self._outage = RegistrationOutage(settings.name, clock)
        self._starts = True
        """It has not registered since it was started."""
        self.hub_id = ""
        """Id of the hub it is connected to, as of the last heartbeat."""
        self.joined = asyncio.Event()
        """The name belongs to this worker at the hub."""
        self.announced = asyncio.Event()
        """The Lease has the annotations of this process, by which the hub knows what it can do."""
        self.on_cleanup_awaited: Callable[[Name], None] = lambda name: None
        """Called for a ManagedCluster that was here before and whose deletion waits for this worker's confirmation."""
        self.controller: Controller[str] = Controller("fleet-registration", clock, self.reconcile, workers=1)
        self.controller.sources.append(self._enqueue)

    async def _enqueue(self) -> None:
        self.controller.queue.add(self._settings.name)

    async def reconcile(self, name: str) -> float:
        """Requeues itself, soon after a failure too: a growing backoff would look like silence to the hub."""
        try:
            await self._register_worker()
            await self._renew_lease()
        except (StatusError, Unreachable, RequeueError) as error:
            self._outage.on_failure(str(error))
            return RETRY_SECONDS
        self._outage.on_success()
        return infrav1.HEARTBEAT_SECONDS

    async def _register_worker(self) -> None:
        self.hub_id = await self._bus.hub_id()
        self._pinned_hub = await self._pin_hub()
        if not self._store_id:
            self._store_id = str((await self._own.get(LOGICAL_CLUSTERS, "root"))["metadata"]["uid"])
        try:
            worker = await self._hub.get(WORKERS, self._settings.name, infrav1.NAMESPACE)
        except NotFound:
            if self._settings.is_hub_managed:
                self.joined.clear()
                raise RequeueError(f"Worker {self._settings.name} no longer exists") from None
            worker = await self._hub.create(WORKERS, worker_object(self._settings, self._store_id), infrav1.NAMESPACE)
            log.info("worker %s joined", self._settings.name)
        if not store_of(worker):
            worker = await self._hub.merge_patch(
                WORKERS, self._settings.name, store_claim_patch(worker, self._store_id), infrav1.NAMESPACE
            )
        if store_of(worker) != self._store_id:
            self.joined.clear()
            raise RequeueError(
                f"the name {self._settings.name} is taken by a worker with another store; start this one with another "
                f"--name, or delete that Worker if it is gone for good"
            )
        patch_body, before = spec_patch(worker, self._settings, starts=self._starts), worker
        if patch_body is not None:
            worker = await self._hub.merge_patch(WORKERS, self._settings.name, patch_body, infrav1.NAMESPACE)
        if self._starts:
            self._settings.on_registered(before, worker)
            self._starts = False
        self.joined.set()
        for each in infrav1.status_of(worker).get("awaited") or ():
            namespace, _, name = each.partition("/")
            self.on_cleanup_awaited((namespace, name))

    async def _renew_lease(self) -> None:
        name, now = infrav1.lease_name(self._settings.name), rfc3339_micro(self._clock.now())
        # Shows people at this hub that the worker belongs to another one.
        fences = self._fence is not None and self._fence.supports_fencing
        annotations = {
            infrav1.PINNED_HUB_ANNOTATION: self._pinned_hub if self._pinned_hub != self.hub_id else None,
            infrav1.FENCES_ANNOTATION: "true" if fences else None,
            infrav1.LOG_NAMESPACE_ANNOTATION: cluster_log.NAMESPACE,
        }
        lag = self._bus.lag_seconds()
        if lag < BUS_GRACE_SECONDS:
            self._bus_down_since = ""
        elif not self._bus_down_since:
            self._bus_down_since = rfc3339(self._clock.now() - lag)
        annotations[infrav1.BUS_DOWN_ANNOTATION] = self._bus_down_since or None
        annotations[KIND_ANNOTATION] = self._kind_offer().encode() if self._kind_offer is not None else None
        started = self._fence.now() if self._fence is not None else 0.0
        patch = {"metadata": {"annotations": annotations}, "spec": {"renewTime": now, "holderIdentity": self._store_id}}
        try:
            await self._hub.merge_patch(LEASES, name, patch, infrav1.NAMESPACE)
        except NotFound:
            given = {key: value for key, value in annotations.items() if value is not None}
            await self._hub.create(LEASES, lease_object(self._settings, self._store_id, now, given), infrav1.NAMESPACE)
        self.announced.set()
        if self._fence is not None and self._pinned_hub == self.hub_id:
            self._fence.on_lease_renewed(started)

    async def _pin_hub(self) -> str:
        """Pins the first hub it connects to, until somebody deletes the ConfigMap."""
        try:
            return _pinned_id(await self._own.get(CONFIG_MAPS, HUB_CONFIG_MAP, infrav1.NAMESPACE))
        except NotFound:
            pass
        body = {"metadata": {"name": HUB_CONFIG_MAP, "namespace": infrav1.NAMESPACE}, "data": {"id": self.hub_id}}
        await _ensure_namespace(self._own)
        await _create_if_absent(
            self._own, CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **body}, infrav1.NAMESPACE
        )
        return self.hub_id

    async def verify_hub(self) -> None:
        """Checks before a deletion that the hub is still the pinned one."""
        pinned = _pinned_id(await self._own.get(CONFIG_MAPS, HUB_CONFIG_MAP, infrav1.NAMESPACE))
        if pinned != await self._bus.hub_id():
            message = (
                f"the hub is not the one worker {self._settings.name} joined: deletions are held; to accept this "
                f"hub, delete ConfigMap {infrav1.NAMESPACE}/{HUB_CONFIG_MAP} in the worker's own API"
            )
            log.warning("%s", message)
            raise RequeueError(message)


def _pinned_id(pin: Object) -> str:
    return str((pin.get("data") or {}).get("id") or "")


async def _ensure_namespace(client: Client) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": infrav1.NAMESPACE}}
    await _create_if_absent(client, NAMESPACES, body)


async def _create_if_absent(client: Client, kind: GroupVersionResource, obj: Object, namespace: str = "") -> None:
    try:
        await client.create(kind, obj, namespace)
    except AlreadyExists:
        return
