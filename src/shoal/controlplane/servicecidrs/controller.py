"""Marks new ServiceCIDRs ready, and finalizes deleted ones once no Service uses them."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.servicecidrs.decide import FINALIZER, addresses, is_settled, may_go, ready, stuck
from shoal.objects.errors import NotFound
from shoal.runtime.dependents import Dependents
from shoal.runtime.loop import Loop

Object = dict[str, Any]

SERVICES = Kind("", "v1", "services")
CIDRS = Kind("networking.k8s.io", "v1", "servicecidrs", namespaced=False)


class ServiceCidrLoop:
    """Keys are ServiceCIDRs. The informers are shared with other controllers and are run elsewhere."""

    def __init__(
        self, client: Client, clock: Clock, hosted: HostedClusters, cidrs: Dependents, services: Dependents
    ) -> None:
        self._client, self._clock, self._hosted, self._cidrs = client, clock, hosted, cidrs
        self._going: dict[str, set[Key]] = {}
        """By cluster: deleted ServiceCIDRs that wait for Services."""
        self.loop: Loop[Key] = Loop("servicecidrs", clock, self.reconcile, 1)
        cidrs.listeners.append(self._cidr_changed)
        services.listeners.append(self._service_changed)

    def _cidr_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        self._wake(key[0])
        if now is not None and not ("deletionTimestamp" not in now["metadata"] and is_settled(now)):
            self.loop.queue.add(key)

    def _service_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        if now is None:
            self._wake(key[0])

    def _wake(self, cluster: str) -> None:
        for key in self._going.get(cluster, ()):
            self.loop.queue.add(key)

    async def reconcile(self, key: Key) -> None:
        cidr = self._cidrs.get(key)
        if cidr is None or "deletionTimestamp" not in cidr["metadata"]:
            self._going.get(key[0], set()).discard(key)
        if cidr is None or not self._hosted.admits(key[0], self.loop.queue.add, key):
            return
        client = self._client.at(key[0])
        try:
            if "deletionTimestamp" in cidr["metadata"]:
                await self._let_go(client, key, cidr)
            else:
                await self._settle(client, cidr)
        except NotFound:
            return

    async def _settle(self, client: Client, cidr: Object) -> None:
        finalizers = cidr["metadata"].get("finalizers") or []
        if FINALIZER not in finalizers:
            cidr = await client.update(
                CIDRS, {**cidr, "metadata": {**cidr["metadata"], "finalizers": [*finalizers, FINALIZER]}}
            )
        changed = cidr if is_settled(cidr) else ready(cidr, rfc3339(self._clock.now()))
        if changed is not cidr:
            await client.update(CIDRS, changed, "status")

    async def _let_go(self, client: Client, key: Key, cidr: Object) -> None:
        """Lists from the server: it also has the default Services and networks that were never written."""
        finalizers = cidr["metadata"].get("finalizers") or []
        if FINALIZER not in finalizers:
            return
        services, _ = await client.list_all(SERVICES)
        others, _ = await client.list_all(CIDRS)
        alive = [
            one for one in others if one["metadata"]["name"] != key[2] and "deletionTimestamp" not in one["metadata"]
        ]
        if may_go(cidr, alive, addresses(services)):
            kept = [one for one in finalizers if one != FINALIZER]
            await client.update(CIDRS, {**cidr, "metadata": {**cidr["metadata"], "finalizers": kept}})
            return
        self._going.setdefault(key[0], set()).add(key)
        changed = stuck(cidr, rfc3339(self._clock.now()))
        if changed is not cidr:
            await client.update(CIDRS, changed, "status")
