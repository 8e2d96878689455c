"""Taints nodes by their conditions, evicts pods that do not tolerate taints, and deletes pods of nodes that no longer
exist.

Covers every node of a cluster, simulated or not. A pod is deleted for want of its node only after a GET confirmed that
the node does not exist.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339
from shoal.controlplane.nodes.controller import delete_now
from shoal.controlplane.nodes.lifecycle.decide import (
    Fate,
    evicting_taints,
    is_down,
    orphan_fate,
    pod_fate,
    wanted_taints,
)
from shoal.controlplane.nodes.view import NODES, PODS, View
from shoal.objects.errors import NotFound
from shoal.runtime.alarms import Alarms
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]

POD_WORKERS = 32


class NodeLifecycle:
    def __init__(self, view: View, clock: Clock) -> None:
        self._view, self._clock = view, clock
        self.taints: Loop[Key] = Loop("node-taints", clock, self._reconcile_node)
        self.evictions: Loop[Key] = Loop("node-evictions", clock, self._reconcile_pod, POD_WORKERS)
        self._alarms = Alarms(clock, self.evictions.queue.add)
        self.evictions.sources.append(self._alarms.run)
        self._troubled: dict[Key, float] = {}
        """Nodes that pods may have to leave, with the time this was noticed."""
        self._going: set[Key] = set()
        """Nodes whose deletion was observed while pods were bound to them."""
        view.node_listeners.append(self._node_changed)
        view.pod_listeners.append(self._pod_changed)

    def _node_changed(self, key: Key, node: Object | None) -> None:
        pods = self._view.pods_on(key)
        if node is None:
            self._troubled.pop(key, None)
            self._going = {each for each in (*self._going, key) if self._view.pods_on(each)}
        else:
            self._going.discard(key)
            self.taints.queue.add(key)
            if evicting_taints(node) or is_down(node):
                self._troubled.setdefault(key, self._clock.now())
            elif self._troubled.pop(key, None) is None:
                return  # unchanged: nothing to do for its pods and nothing to undo
        for pod in pods:
            self.evictions.queue.add(pod)

    def _pod_changed(self, key: Key, pod: Object | None) -> None:
        if pod is None:
            self._alarms.set(key, None)
            return
        home = self._view.node_of(key)
        if home in self._troubled or (home is not None and self._view.node(home) is None):
            self.evictions.queue.add(key)

    async def _reconcile_node(self, key: Key) -> None:
        node = self._view.node(key)
        taints = wanted_taints(node, rfc3339(self._clock.now())) if node is not None else None
        if node is None or taints is None:
            return
        patch = {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
            "spec": {"taints": taints or None},
        }
        with suppress(NotFound):
            await self._view.places.at(key[0]).merge(NODES, key[2], patch)

    async def _reconcile_pod(self, key: Key) -> None:
        pod, home = self._view.pod(key), self._view.node_of(key)
        if pod is None or home is None or not self._view.places.has(key[0]):
            return
        if not self._view.synced:
            raise Later("the nodes have not been listed yet")
        node, now = self._view.node(home), self._clock.now()
        if node is None:
            fate = orphan_fate(pod, home in self._going, now, rfc3339(now))
        else:
            fate = pod_fate(pod, node, self._troubled.get(home, now), now, rfc3339(now))
        self._alarms.set(key, fate.at)
        client = self._view.places.at(key[0])
        if fate.check and await _exists(client, home[2]):
            raise Later("its node is there, and will be told")
        with suppress(NotFound):
            await _carry_out(client, pod, fate)


async def _exists(client: Client, node: str) -> bool:
    try:
        await client.get(NODES, node)
    except NotFound as error:
        if error.kind != NODES.plural:
            raise  # something else is missing, for example the cluster, which says nothing about the node
        return False
    return True


async def _carry_out(client: Client, pod: Object, fate: Fate) -> None:
    metadata = pod["metadata"]
    name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
    if fate.status is not None:
        await client.update(PODS, {**pod, "status": fate.status}, "status")
    if fate.delete and fate.now:
        await delete_now(client, name, namespace, uid)
    elif fate.delete:
        await client.delete(PODS, name, namespace, uid=uid)
