"""Reports the status of each hosted ManagedCluster to the hub, after publishing its kubeconfig."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from shoal.clock import Clock, rfc3339
from shoal.fleet.bus.interface import Bus, Message, Name, NameTaken, Report
from shoal.fleet.resources import MANAGED_CLUSTERS, SECRETS
from shoal.fleet.worker.hosting.objects import is_of_pool
from shoal.fleet.worker.own import CLUSTERS, EMBEDDED_CLUSTERS, MACHINE_DEPLOYMENTS, OwnRoot
from shoal.fleet.worker.registration.controller import Registration
from shoal.fleet.worker.reporter.decide import Hosted, failed, is_provisioned, report
from shoal.fleet.worker.reporter.kubeconfig import published
from shoal.fleet.worker.restoring.decide import restored
from shoal.fleet.worker.settings import WorkerSettings
from shoal.fleet.worker.subscriber.decide import mark_of
from shoal.kinds import fleet, nodepools
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Later, Loop
from shoal.runtime.pace import Pace

Object = dict[str, Any]

WRITES_PER_SECOND, WRITES_AT_ONCE = 200.0, 200
"""After a long disconnection everything may differ at once."""
VERIFY_SECONDS = 3600.0
"""How often the hub's kubeconfig of a cluster is checked while nothing changes: somebody may have deleted it."""


class Reporter:
    def __init__(
        self, clock: Clock, bus: Bus, root: OwnRoot, registration: Registration, settings: WorkerSettings
    ) -> None:
        self._clock, self._bus, self._root, self._settings = clock, bus, root, settings
        self._registration = registration
        self._pace = Pace(clock, WRITES_PER_SECOND, WRITES_AT_ONCE)
        self._verified: dict[Name, float] = {}
        """When the hub's kubeconfig of each was last checked, or is assumed to have been."""
        self._made: dict[Name, tuple[str, str]] = {}
        """Kubeconfigs for the hub, with the revision of the Secret each was built from."""
        self.loop: Loop[Name] = Loop("fleet-reporter", clock, self.reconcile)
        bus.listen(self.loop.queue.add)
        root.listen(self.loop.queue.add)

    async def reconcile(self, name: Name) -> float | None:
        if not self._root.synced:
            raise Later("the worker's own root has not been listed yet")
        message, copy = self._bus.newest(name), self._root.get(MANAGED_CLUSTERS, *name)
        if message is None or message.deleting or copy is None:
            self._verified.pop(name, None)
            self._made.pop(name, None)
            return None
        if not self._bus.live:
            return None  # When it is live again, all are reconciled, and what differs is reported then.
        if not self._registration.joined.is_set():
            raise Later("the hub has not let this worker join")
        mark = mark_of(copy)
        if (mark.uid, mark.epoch) != (message.mark.uid, message.mark.epoch):
            return None  # The subscriber has not caught up; its write triggers another reconcile.
        now = rfc3339(self._clock.now())
        try:
            hosted = self._hosted(name)
        except ValueError as error:
            await self._tell(message, Report(failed(message.managed, fleet.BROKEN_KUBECONFIG, str(error), now)))
            return None
        status = report(restored(message.managed, now), hosted, self._settings, now)
        left = self._until_verified(name)
        try:
            await self._tell(message, Report(status, hosted.kubeconfig, verify=left <= 0))
        except NameTaken as taken:
            await self._tell(message, Report(failed(message.managed, fleet.SECRET_TAKEN, str(taken), now)))
            raise Later(str(taken)) from None
        if left <= 0:
            self._verified[name] = self._clock.monotonic()
        return left if left > 0 else VERIFY_SECONDS

    def _until_verified(self, name: Name) -> float:
        """Seconds until the next check. After a start they are spread over the hour."""
        now = self._clock.monotonic()
        place = crc32("/".join(name).encode()) % 1000 / 1000
        return self._verified.setdefault(name, now - place * VERIFY_SECONDS) + VERIFY_SECONDS - now

    async def _tell(self, message: Message, told: Report) -> None:
        if told.status != fleet.status_of(message.managed):
            await self._pace.turn()
            if self._bus.newest(message.name) is not message:
                return  # Superseded while it waited; the newer message is reconciled next.
        try:
            await self._bus.report(message, told)
        except NotFound:
            return  # The hub has deleted it meanwhile; a message will follow.

    def _hosted(self, name: Name) -> Hosted:
        namespace, one = name
        cluster = self._root.get(CLUSTERS, namespace, one)
        secret = self._root.get(SECRETS, namespace, fleet.kubeconfig_secret(one))
        kubeconfig = ""
        if secret is not None and is_provisioned(cluster):
            kubeconfig = self._kubeconfig(name, secret)
        pools = {
            obj["metadata"]["labels"][nodepools.LABEL]: obj
            for (plural, _), obj in self._root.of(name).items()
            if plural == MACHINE_DEPLOYMENTS.plural and is_of_pool(obj)
        }
        return Hosted(cluster, kubeconfig, self._root.get(EMBEDDED_CLUSTERS, namespace, one), pools)

    def _kubeconfig(self, name: Name, secret: Object) -> str:
        """Returns the kubeconfig for the hub. Cached, because all clusters are reported again when a link comes
        back.
        """
        revision = str(secret["metadata"]["resourceVersion"])
        known, text = self._made.get(name, ("", ""))
        if known != revision:
            server = self._settings.hub_url + fleet.stable_path(*name)
            text = published(secret, name[1], server, self._settings.hub_authority)
            self._made[name] = revision, text
        return text
