"""Simulated kubelet: reports the status of simulated nodes, runs and terminates the pods bound to them.

One status write takes a pod from Pending to Running and Ready. Delays of stages wait in one delay queue. All state is
in the objects, except addresses that were allocated but not observed yet, and files created by scripts.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339
from shoal.controlplane.nodes import addresses
from shoal.controlplane.nodes.addresses import Addresses
from shoal.controlplane.nodes.admission import Admission, Rejection, is_new, rejected
from shoal.controlplane.nodes.decide import Decision, decide_node, decide_pod
from shoal.controlplane.nodes.disks import Disks
from shoal.controlplane.nodes.initializing import initializing
from shoal.controlplane.nodes.nodestatus import host_of
from shoal.controlplane.nodes.stages import Stages, default_stages
from shoal.controlplane.nodes.telling import happenings
from shoal.controlplane.nodes.view import NODES, PODS, View
from shoal.kinds.simulated import is_simulated, tells_events
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound
from shoal.runtime.alarms import Alarms
from shoal.runtime.loop import Loop
from shoal.runtime.recorder import WARNING, Recorder, Source

Object = dict[str, Any]

NODE_WORKERS = 16
POD_WORKERS = 64
"""Concurrent writes: enough for full group commits."""


class Kubelet:
    def __init__(self, view: View, clock: Clock, recorder: Recorder, stages: Stages | None = None) -> None:
        self._view, self._clock, self._stages = view, clock, stages or default_stages()
        self._recorder = recorder
        self.nodes: Loop[Key] = Loop("simulated-nodes", clock, self._reconcile_node, NODE_WORKERS)
        self.pods: Loop[Key] = Loop("simulated-pods", clock, self._reconcile_pod, POD_WORKERS)
        self._node_alarms = Alarms(clock, self.nodes.queue.add)
        self._pod_alarms = Alarms(clock, self.pods.queue.add)
        self.nodes.sources.append(self._node_alarms.run)
        self.pods.sources += [self._pod_alarms.run, recorder.run]
        self._node_addresses, self._pod_addresses = Addresses(addresses.NODES), Addresses(addresses.PODS)
        self._disks = Disks()
        self._admission = Admission(view)
        self._ready: set[Key] = set()
        view.node_listeners.append(self._node_changed)
        view.pod_listeners.append(self._pod_changed)

    def _node_changed(self, key: Key, node: Object | None) -> None:
        if node is None or not is_simulated(node):
            self._node_alarms.set(key, None)
            self._node_addresses.release(key)
            self._disks.node_is_gone(key)
            self._ready.discard(key)
            return
        host = host_of(node)
        if host:
            self._node_addresses.seen(key, host)
        self.nodes.queue.add(key)
        if not condition_is(node, "Ready"):
            self._ready.discard(key)
        elif key not in self._ready:
            self._ready.add(key)
            for pod in self._view.pods_on(key):
                self.pods.queue.add(pod)

    def _pod_changed(self, key: Key, pod: Object | None) -> None:
        if pod is None:
            self._pod_alarms.set(key, None)
            self._pod_addresses.release(key)
            self._disks.pod_is_gone(key)
            self._admission.forget(key)
            return
        address = (pod.get("status") or {}).get("podIP")
        if address:
            self._pod_addresses.seen(key, address)
        if self._view.node_of(key) in self._ready:
            self.pods.queue.add(key)

    async def _reconcile_node(self, key: Key) -> None:
        node = self._view.node(key)
        if node is None or not is_simulated(node):
            return
        cluster = key[0]
        version = await self._view.places.version(cluster)
        address = host_of(node) or self._node_addresses.of(key, node["metadata"]["uid"])
        now = self._clock.now()
        decision = decide_node(node, self._stages, version=version, address=address, now=now, stamp=rfc3339(now))
        self._node_alarms.set(key, decision.at)
        if decision.status is not None:
            with suppress(NotFound):
                await self._view.places.at(cluster).update(NODES, {**node, "status": decision.status}, "status")

    async def _reconcile_pod(self, key: Key) -> None:
        pod, home = self._view.pod(key), self._view.node_of(key)
        node = self._view.node(home) if home is not None else None
        if pod is None or home is None or node is None or not is_simulated(node):
            return
        if is_new(pod) and condition_is(node, "Ready"):
            why = await self._admission.rejection(key, home, pod, node)
            if why is not None:
                await self._reject(key, pod, why)
                return
        address, now = self._pod_addresses.of(key, pod["metadata"]["uid"]), self._clock.now()
        initial = initializing(pod, lambda alone: self._disks.ending(key, home, alone))
        ending, stamp = self._disks.ending(key, home, pod) if initial is None else None, rfc3339(now)
        decision = decide_pod(
            pod, node, self._stages, ending=ending, initial=initial, address=address, now=now, stamp=stamp
        )
        self._pod_alarms.set(key, decision.at)
        with suppress(NotFound):
            await _carry_out(self._view.places.at(key[0]), pod, decision)
            if tells_events(node):
                self._tell(key, pod, decision)

    async def _reject(self, key: Key, pod: Object, why: Rejection) -> None:
        status = rejected(pod, why, rfc3339(self._clock.now()))
        with suppress(NotFound):
            await _carry_out(self._view.places.at(key[0]), pod, Decision(status=status))
        self._recorder.record(_kubelet(pod), key[0], pod, WARNING, why.reason, why.message)

    def _tell(self, key: Key, pod: Object, decision: Decision) -> None:
        source = _kubelet(pod)
        for each in happenings(pod, decision):
            self._recorder.record(source, key[0], pod, each.type, each.reason, each.message, field=each.field)


def _kubelet(pod: Object) -> Source:
    return Source("kubelet", "v1", "Pod", host=pod["spec"]["nodeName"])


async def _carry_out(client: Client, pod: Object, decision: Decision) -> None:
    metadata = pod["metadata"]
    if decision.status is not None:
        await client.update(PODS, {**pod, "status": decision.status}, "status", brief=True)
    if decision.delete:
        await delete_now(client, metadata["name"], metadata["namespace"], metadata["uid"])


async def delete_now(client: Client, name: str, namespace: str, uid: str) -> None:
    """Deletes without a grace period: the containers have terminated, or no kubelet will ever report it."""
    body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
    await client.call("DELETE", client.path(PODS, name, namespace), body=body, brief=True)
