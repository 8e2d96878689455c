"""Creates the controllers of the embedded provider."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from shoal.capi.controllers import Provider
from shoal.capi.informers import CAPIInformers, NamespacedName, has_changed, versions
from shoal.capi.providers.embedded.clusters.controller import EmbeddedClusterReconciler
from shoal.capi.providers.embedded.clusters.decide import HostingServer, unhosted_status
from shoal.capi.providers.embedded.informers import (
    EMBEDDED_CLUSTERS,
    EMBEDDED_MACHINES,
    EMBEDDED_TEMPLATES,
    EmbeddedInformers,
)
from shoal.capi.providers.embedded.machines.controller import EmbeddedMachineReconciler
from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.kinds.clusterapi import capi, embedded
from shoal.runtime.controller import Controller
from shoal.runtime.manager import Runnable

Object = dict[str, Any]


def unhosted_provider(core_informers: CAPIInformers, clock: Clock) -> list[Runnable]:
    core_informers.register_kind(EMBEDDED_MACHINES, embedded.MACHINE)
    core_informers.register_kind(EMBEDDED_TEMPLATES, embedded.MACHINE_TEMPLATE)
    return [UnhostedClusterReconciler(core_informers, clock).controller]


class UnhostedClusterReconciler:
    def __init__(self, core_informers: CAPIInformers, clock: Clock) -> None:
        self._core_informers, self._clock = core_informers, clock
        self._informer = core_informers.register_kind(EMBEDDED_CLUSTERS, embedded.CLUSTER)
        self.controller: Controller[NamespacedName] = Controller("capi-unhosted", clock, self.reconcile)
        self._informer.add_event_handler(lambda key, old, new: self.controller.queue.add(key[1:]))
        core_informers.clusters.add_event_handler(self._on_cluster)

    def _on_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        if not has_changed(old, new, _relevant_cluster_state):
            return
        for cluster in versions(old, new):
            reference = (cluster.get("spec") or {}).get("infrastructureRef") or {}
            if reference.get("kind") == embedded.CLUSTER:
                self.controller.queue.add((key[1], reference["name"]))

    async def reconcile(self, key: NamespacedName) -> None:
        await self._core_informers.wait_for_sync()
        obj = self._informer.get(("", *key))
        if obj is None:
            return
        cluster = self._core_informers.clusters.get(("", key[0], capi.owner_name(obj, capi.CLUSTER)))
        new = unhosted_status(obj, cluster, rfc3339(self._clock.now()))
        if new is not None:
            await self._core_informers.writer.update_status(self._informer, new)


def _relevant_cluster_state(cluster: Object) -> Hashable:
    return cluster["metadata"]["uid"], capi.is_paused(cluster, cluster)


def embedded_provider(host: Client, url: Callable[[], str] | str, ca_pem: Callable[[], str] | str) -> Provider:
    """`host` is a client at the root of the hosting server. `url` is the address for clients, `ca_pem` the CA
    certificates they trust.
    """

    def server() -> HostingServer:
        return HostingServer(*(each if isinstance(each, str) else each() for each in (url, ca_pem)))

    def provider(core: CAPIInformers, clock: Clock) -> list[Runnable]:
        informers = EmbeddedInformers(core, host, clock)
        return [
            EmbeddedClusterReconciler(informers, clock, server).controller,
            EmbeddedMachineReconciler(informers, clock).controller,
        ]

    return provider
