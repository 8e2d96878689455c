"""Renews the Leases of simulated nodes, because another control plane gives up nodes whose Lease expires.

Each node renews its Lease every ten seconds at an offset of its own, which spreads the writes evenly. Offsets are
multiples of a quarter second, so that many nodes wake the process only four times a second.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from zlib import crc32

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339_micro
from shoal.controlplane.kubelet.informers import NodeInformers
from shoal.kinds.clusterapi.simulated_node import is_simulated
from shoal.kinds.core.node_identity import LEASE_NAMESPACE as NODE_LEASES
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller
from shoal.runtime.delay_queue import DelayQueue

Object = dict[str, Any]

LEASES = GroupVersionResource("coordination.k8s.io", "v1", "leases")
LEASE_DURATION_SECONDS = 40
RENEW_SECONDS = 10.0
RENEW_SLOTS = 40
"""Quarter seconds between two renewals."""
WORKERS = 32


class LeaseRenewer:
    def __init__(self, informers: NodeInformers, clock: Clock) -> None:
        self._informers, self._clock = informers, clock
        self.controller: Controller[Key] = Controller("node-leases", clock, self._renew, WORKERS)
        self._delay_queue = DelayQueue(clock, self.controller.queue.add)
        self.controller.sources.append(self._delay_queue.run)
        self._renewed: set[Key] = set()
        self._leases: dict[Key, Object] = {}
        """Leases as returned by the server."""
        informers.add_node_handler(self._on_node)

    def _on_node(self, key: Key, node: Object | None) -> None:
        if node is None or not is_simulated(node) or is_unreachable(node):
            self._renewed.discard(key)
            self._leases.pop(key, None)
            self._delay_queue.schedule(key, None)
        elif key not in self._renewed:
            self._renewed.add(key)
            self.controller.queue.add(key)

    async def _renew(self, key: Key) -> None:
        node = self._informers.node(key)
        if node is None or key not in self._renewed:
            return
        now = self._clock.now()
        self._delay_queue.schedule(key, next_renewal(node["metadata"]["uid"], now))
        lease = await _write_lease(
            self._informers.clusters.client_for(key[0]), self._leases.pop(key, None), node, rfc3339_micro(now)
        )
        if key in self._renewed:
            self._leases[key] = lease


def is_unreachable(node: Object) -> bool:
    """Returns whether the Ready condition is Unknown: the kubelet does not report."""
    return condition_is(node, "Ready", "Unknown")


def next_renewal(uid: str, now: float) -> float:
    offset = crc32(uid.encode()) % RENEW_SLOTS * RENEW_SECONDS / RENEW_SLOTS
    return now + RENEW_SECONDS - (now - offset) % RENEW_SECONDS


async def _write_lease(client: Client, cached: Object | None, node: Object, now: str) -> Object:
    """The cached Lease may be stale. The server then rejects the write, and the next attempt reads it first."""
    name, uid = node["metadata"]["name"], node["metadata"]["uid"]
    owners = [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]
    spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_DURATION_SECONDS, "renewTime": now}
    with suppress(NotFound):
        cached = cached or await client.get(LEASES, name, NODE_LEASES)
        metadata = {**cached["metadata"], "ownerReferences": owners}
        return await client.update(LEASES, {**cached, "metadata": metadata, "spec": {**cached.get("spec", {}), **spec}})
    body = {"metadata": {"name": name, "namespace": NODE_LEASES, "ownerReferences": owners}, "spec": spec}
    return await client.create(LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body}, NODE_LEASES)
