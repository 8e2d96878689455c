"""Taints nodes by their conditions, evicts pods that do not tolerate taints, and deletes pods of nodes that no longer
exist.

Covers every node of a cluster, simulated or not. A pod is deleted for want of its node only after a GET confirmed that
the node does not exist.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.controlplane.kubelet.controller import force_delete
from shoal.controlplane.kubelet.informers import NODES, PODS, NodeInformers
from shoal.controlplane.nodelifecycle.decide import (
    PodAction,
    desired_taints,
    is_not_ready,
    no_execute_taints,
    pod_gc,
    taint_eviction,
)
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.delay_queue import DelayQueue

Object = dict[str, Any]

POD_WORKERS = 32


class NodeLifecycleReconciler:
    def __init__(self, informers: NodeInformers, clock: Clock) -> None:
        self._informers, self._clock = informers, clock
        self.taint_controller: Controller[Key] = Controller("node-taints", clock, self._reconcile_node)
        self.eviction_controller: Controller[Key] = Controller(
            "node-evictions", clock, self._reconcile_pod, POD_WORKERS
        )
        self._delay_queue = DelayQueue(clock, self.eviction_controller.queue.add)
        self.eviction_controller.sources.append(self._delay_queue.run)
        self._unhealthy: dict[Key, float] = {}
        """Nodes that pods may have to leave, with the time this was noticed."""
        self._deleted_nodes: set[Key] = set()
        """Nodes whose deletion was observed while pods were bound to them."""
        informers.add_node_handler(self._on_node)
        informers.add_pod_handler(self._on_pod)

    def _on_node(self, key: Key, node: Object | None) -> None:
        if node is None:
            self._unhealthy.pop(key, None)
            self._deleted_nodes = {each for each in (*self._deleted_nodes, key) if self._informers.pods_on(each)}
        else:
            self._deleted_nodes.discard(key)
            self.taint_controller.queue.add(key)
            if no_execute_taints(node) or is_not_ready(node):
                self._unhealthy.setdefault(key, self._clock.now())
            elif self._unhealthy.pop(key, None) is None:
                return  # unchanged: nothing to do for its pods and nothing to undo
        for pod in self._informers.pods_on(key):
            self.eviction_controller.queue.add(pod)

    def _on_pod(self, key: Key, pod: Object | None) -> None:
        if pod is None:
            self._delay_queue.schedule(key, None)
            return
        node_key = self._informers.node_of(key)
        if node_key in self._unhealthy or (node_key is not None and self._informers.node(node_key) is None):
            self.eviction_controller.queue.add(key)

    async def _reconcile_node(self, key: Key) -> None:
        node = self._informers.node(key)
        taints = desired_taints(node, rfc3339(self._clock.now())) if node is not None else None
        if node is None or taints is None:
            return
        patch = {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
            "spec": {"taints": taints or None},
        }
        with suppress(NotFound):
            await self._informers.clusters.client_for(key[0]).merge_patch(NODES, key[2], patch)

    async def _reconcile_pod(self, key: Key) -> None:
        pod, node_key = self._informers.pod(key), self._informers.node_of(key)
        if pod is None or node_key is None or not self._informers.clusters.is_managed(key[0]):
            return
        if not self._informers.has_synced:
            raise RequeueError("the informers have not synced yet")
        node, now = self._informers.node(node_key), self._clock.now()
        if node is None:
            action = pod_gc(pod, node_key in self._deleted_nodes, now, rfc3339(now))
        else:
            action = taint_eviction(pod, node, self._unhealthy.get(node_key, now), now, rfc3339(now))
        self._delay_queue.schedule(key, action.requeue_at)
        client = self._informers.clusters.client_for(key[0])
        if action.confirm_node_missing and await _node_exists(client, node_key[2]):
            raise RequeueError("the node exists, but the informer has not seen it yet")
        with suppress(NotFound):
            await _execute(client, pod, action)


async def _node_exists(client: Client, node: str) -> bool:
    try:
        await client.get(NODES, node)
    except NotFound as error:
        if error.kind != NODES.resource:
            raise  # something else is missing, for example the cluster, which says nothing about the node
        return False
    return True


async def _execute(client: Client, pod: Object, action: PodAction) -> None:
    metadata = pod["metadata"]
    name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
    if action.status is not None:
        await client.update(PODS, {**pod, "status": action.status}, "status")
    if action.delete and action.force:
        await force_delete(client, name, namespace, uid)
    elif action.delete:
        await client.delete(PODS, name, namespace, uid=uid)
