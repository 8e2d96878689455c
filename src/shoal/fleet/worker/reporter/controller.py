"""The reporter: what the worker's own root knows of a ManagedCluster goes up to the hub, the kubeconfig first."""

from __future__ import annotations

from typing import Any

from shoal.clock import Clock, rfc3339
from shoal.fleet.bus.interface import Bus, Message, Name, NameTaken, Report
from shoal.fleet.resources import MANAGED_CLUSTERS, SECRETS
from shoal.fleet.worker.hosting.objects import is_of_pool
from shoal.fleet.worker.own import CLUSTERS, EMBEDDED_CLUSTERS, MACHINE_DEPLOYMENTS, OwnRoot
from shoal.fleet.worker.registration.controller import Registration
from shoal.fleet.worker.reporter.decide import Hosted, failed, is_provisioned, report
from shoal.fleet.worker.reporter.kubeconfig import published
from shoal.fleet.worker.settings import WorkerSettings
from shoal.fleet.worker.subscriber.decide import mark_of
from shoal.kinds import fleet, nodepools
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]


class Reporter:
    def __init__(
        self, clock: Clock, bus: Bus, root: OwnRoot, registration: Registration, settings: WorkerSettings
    ) -> None:
        self._clock, self._bus, self._root, self._settings = clock, bus, root, settings
        self._registration = registration
        self.loop: Loop[Name] = Loop("fleet-reporter", clock, self.reconcile)
        bus.listen(self.loop.queue.add)
        root.listen(self.loop.queue.add)

    async def reconcile(self, name: Name) -> None:
        if not self._root.synced:
            raise Later("the worker's own root has not been listed yet")
        message, copy = self._bus.newest(name), self._root.get(MANAGED_CLUSTERS, *name)
        if message is None or message.deleting or copy is None:
            return
        if not self._registration.joined.is_set():
            raise Later("the hub has not let this worker join")
        mark = mark_of(copy)
        if (mark.uid, mark.epoch) != (message.mark.uid, message.mark.epoch):
            return  # the subscriber has not come that far; it will be heard of
        now = rfc3339(self._clock.now())
        try:
            hosted = self._hosted(name)
        except ValueError as error:
            await self._tell(message, Report(failed(message.managed, fleet.BROKEN_KUBECONFIG, str(error), now)))
            return
        status = report(message.managed, hosted, self._settings, now)
        try:
            await self._tell(message, Report(status, hosted.kubeconfig))
        except NameTaken as taken:
            await self._tell(message, Report(failed(message.managed, fleet.SECRET_TAKEN, str(taken), now)))
            raise Later(str(taken)) from None

    async def _tell(self, message: Message, told: Report) -> None:
        try:
            await self._bus.report(message, told)
        except NotFound:
            return  # the hub has forgotten it meanwhile; it will say so

    def _hosted(self, name: Name) -> Hosted:
        namespace, one = name
        cluster = self._root.get(CLUSTERS, namespace, one)
        secret = self._root.get(SECRETS, namespace, fleet.kubeconfig_secret(one))
        kubeconfig = ""
        if secret is not None and is_provisioned(cluster):
            server = self._settings.hub_url + fleet.stable_path(namespace, one)
            kubeconfig = published(secret, one, server, self._settings.hub_authority)
        pools = {
            obj["metadata"]["labels"][nodepools.LABEL]: obj
            for (plural, _), obj in self._root.of(name).items()
            if plural == MACHINE_DEPLOYMENTS.plural and is_of_pool(obj)
        }
        return Hosted(cluster, kubeconfig, self._root.get(EMBEDDED_CLUSTERS, namespace, one), pools)
