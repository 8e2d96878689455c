"""Renews the Leases of simulated nodes, because another control plane gives up nodes whose Lease expires.

Each node renews its Lease every ten seconds at an offset of its own, which spreads the writes evenly. Offsets are
multiples of a quarter second, so that many nodes wake the process only four times a second.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from zlib import crc32

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339_micro
from shoal.controlplane.nodes.view import View
from shoal.kinds.nodes_identity import LEASES as NODE_LEASES
from shoal.kinds.simulated import is_simulated
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound
from shoal.runtime.alarms import Alarms
from shoal.runtime.loop import Loop

Object = dict[str, Any]

LEASES = Kind("coordination.k8s.io", "v1", "leases")
DURATION_SECONDS = 40
RENEW_SECONDS = 10.0
QUARTERS = 40
"""Quarter seconds between two renewals."""
WORKERS = 32


class Heartbeats:
    def __init__(self, view: View, clock: Clock) -> None:
        self._view, self._clock = view, clock
        self.loop: Loop[Key] = Loop("node-leases", clock, self._renew, WORKERS)
        self._alarms = Alarms(clock, self.loop.queue.add)
        self.loop.sources.append(self._alarms.run)
        self._beating: set[Key] = set()
        self._leases: dict[Key, Object] = {}
        """Leases as returned by the server."""
        view.node_listeners.append(self._node_changed)

    def _node_changed(self, key: Key, node: Object | None) -> None:
        if node is None or not is_simulated(node) or is_lost(node):
            self._beating.discard(key)
            self._leases.pop(key, None)
            self._alarms.set(key, None)
        elif key not in self._beating:
            self._beating.add(key)
            self.loop.queue.add(key)

    async def _renew(self, key: Key) -> None:
        node = self._view.node(key)
        if node is None or key not in self._beating:
            return
        now = self._clock.now()
        self._alarms.set(key, next_beat(node["metadata"]["uid"], now))
        lease = await _write(self._view.places.at(key[0]), self._leases.pop(key, None), node, rfc3339_micro(now))
        if key in self._beating:
            self._leases[key] = lease


def is_lost(node: Object) -> bool:
    """Returns whether the Ready condition is Unknown: the kubelet does not report."""
    return condition_is(node, "Ready", "Unknown")


def next_beat(uid: str, now: float) -> float:
    offset = crc32(uid.encode()) % QUARTERS * RENEW_SECONDS / QUARTERS
    return now + RENEW_SECONDS - (now - offset) % RENEW_SECONDS


async def _write(client: Client, known: Object | None, node: Object, now: str) -> Object:
    """The cached Lease may be stale. The server then rejects the write, and the next attempt reads it first."""
    name, uid = node["metadata"]["name"], node["metadata"]["uid"]
    owners = [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]
    spec = {"holderIdentity": name, "leaseDurationSeconds": DURATION_SECONDS, "renewTime": now}
    with suppress(NotFound):
        known = known or await client.get(LEASES, name, NODE_LEASES)
        metadata = {**known["metadata"], "ownerReferences": owners}
        return await client.update(LEASES, {**known, "metadata": metadata, "spec": {**known.get("spec", {}), **spec}})
    body = {"metadata": {"name": name, "namespace": NODE_LEASES, "ownerReferences": owners}, "spec": spec}
    return await client.create(LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body}, NODE_LEASES)
