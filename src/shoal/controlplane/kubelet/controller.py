"""Simulated kubelet: reports the status of simulated nodes, runs and terminates the pods bound to them.

One status write takes a pod from Pending to Running and Ready. Delays of stages wait in one delay queue. All state is
in the objects, except addresses that were allocated but not observed yet, and files created by scripts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.controlplane.kubelet import ipam
from shoal.controlplane.kubelet.admission import PodAdmission, Rejection, needs_admission, rejected_status
from shoal.controlplane.kubelet.decide import KubeletDecision, decide_node, decide_pod
from shoal.controlplane.kubelet.informers import NODES, PODS, NodeInformers
from shoal.controlplane.kubelet.init_containers import current_init_container
from shoal.controlplane.kubelet.ipam import IPAllocator
from shoal.controlplane.kubelet.nodestatus import internal_ip
from shoal.controlplane.kubelet.pod_sources import NO_ERRORS
from shoal.controlplane.kubelet.source_checks import SourceChecks
from shoal.controlplane.kubelet.stages import Stages, default_stages
from shoal.controlplane.kubelet.volume_files import VolumeFiles
from shoal.kinds.clusterapi.simulated_node import is_simulated, records_events
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller
from shoal.runtime.delay_queue import DelayQueue
from shoal.runtime.event_recorder import NORMAL, WARNING, EventRecorder, EventSource

CONTAINER_FIELDS = {"initContainerStatuses": "initContainers", "containerStatuses": "containers"}


@dataclass(frozen=True, slots=True)
class KubeletEvent:
    field: str
    """Field path of the container in the pod."""
    type: str
    reason: str
    message: str


def kubelet_events(pod: Object, decision: KubeletDecision) -> Iterator[KubeletEvent]:
    """Yields the Events after the decision about the pod was executed."""
    old, new = pod.get("status") or {}, decision.status
    for statuses, containers in CONTAINER_FIELDS.items():
        before = {each["name"]: each for each in old.get(statuses) or ()}
        for after in (new or {}).get(statuses) or ():
            name = after["name"]
            yield from _container_events(pod, f"spec.{containers}{{{name}}}", before.get(name) or {}, after)
        for each in before.values() if decision.force_delete else ():
            if "running" in (each.get("state") or {}):
                field = f"spec.{containers}{{{each['name']}}}"
                yield KubeletEvent(field, NORMAL, "Killing", f"Stopping container {each['name']}")


def _container_events(pod: Object, field: str, before: Object, after: Object) -> Iterator[KubeletEvent]:
    state, name, image = after["state"], after["name"], after["image"]
    reason = (state.get("waiting") or {}).get("reason")
    if reason is None and after["containerID"] != before.get("containerID"):
        present = f'Container image "{image}" already present on machine and can be accessed by the pod'
        yield KubeletEvent(field, NORMAL, "Pulled", present)
        yield KubeletEvent(field, NORMAL, "Created", "Container created")
        yield KubeletEvent(field, NORMAL, "Started", "Container started")
    if reason is None or reason == ((before.get("state") or {}).get("waiting") or {}).get("reason"):
        return
    if reason == "CrashLoopBackOff":
        metadata = pod["metadata"]
        pod_id = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        yield KubeletEvent(field, WARNING, "BackOff", f"Back-off restarting failed container {name} in pod {pod_id}")
    elif reason == "ImagePullBackOff":
        yield KubeletEvent(field, NORMAL, "BackOff", f'Back-off pulling image "{image}"')
        yield KubeletEvent(field, WARNING, "Failed", "Error: ImagePullBackOff")


Object = dict[str, Any]

NODE_WORKERS = 16
POD_WORKERS = 64
"""Concurrent writes: enough for full group commits."""


class Kubelet:
    def __init__(
        self, informers: NodeInformers, clock: Clock, recorder: EventRecorder, stages: Stages | None = None
    ) -> None:
        self._informers, self._clock, self._stages = informers, clock, stages or default_stages()
        self._recorder = recorder
        self.node_controller: Controller[Key] = Controller("simulated-nodes", clock, self._reconcile_node, NODE_WORKERS)
        self.pod_controller: Controller[Key] = Controller("simulated-pods", clock, self._reconcile_pod, POD_WORKERS)
        self._node_delay_queue = DelayQueue(clock, self.node_controller.queue.add)
        self._pod_delay_queue = DelayQueue(clock, self.pod_controller.queue.add)
        self.node_controller.sources.append(self._node_delay_queue.run)
        self.pod_controller.sources.append(self._pod_delay_queue.run)
        self._node_ips, self._pod_ips = IPAllocator(ipam.NODE_NETWORK), IPAllocator(ipam.POD_NETWORK)
        self._volume_files = VolumeFiles()
        self._admission = PodAdmission(informers)
        self._source_checks = SourceChecks(informers.clusters, clock, recorder)
        self._ready_nodes: set[Key] = set()
        informers.add_node_handler(self._on_node)
        informers.add_pod_handler(self._on_pod)

    def _on_node(self, key: Key, node: Object | None) -> None:
        if node is None or not is_simulated(node):
            self._node_delay_queue.schedule(key, None)
            self._node_ips.release(key)
            self._volume_files.forget_node(key)
            self._ready_nodes.discard(key)
            return
        host = internal_ip(node)
        if host:
            self._node_ips.occupy(key, host)
        self.node_controller.queue.add(key)
        if not condition_is(node, "Ready"):
            self._ready_nodes.discard(key)
        elif key not in self._ready_nodes:
            self._ready_nodes.add(key)
            for pod in self._informers.pods_on(key):
                self.pod_controller.queue.add(pod)

    def _on_pod(self, key: Key, pod: Object | None) -> None:
        if pod is None:
            self._pod_delay_queue.schedule(key, None)
            self._pod_ips.release(key)
            self._volume_files.forget_pod(key)
            self._admission.forget(key)
            self._source_checks.forget(key)
            return
        address = (pod.get("status") or {}).get("podIP")
        if address:
            self._pod_ips.occupy(key, address)
        if self._informers.node_of(key) in self._ready_nodes:
            self.pod_controller.queue.add(key)

    async def _reconcile_node(self, key: Key) -> None:
        node = self._informers.node(key)
        if node is None or not is_simulated(node):
            return
        cluster = key[0]
        version = await self._informers.clusters.kubelet_version(cluster)
        address = internal_ip(node) or self._node_ips.allocate(key, node["metadata"]["uid"])
        now = self._clock.now()
        decision = decide_node(node, self._stages, version=version, address=address, now=now, now_rfc3339=rfc3339(now))
        self._node_delay_queue.schedule(key, decision.requeue_at)
        if decision.status is not None:
            with suppress(NotFound):
                await self._informers.clusters.client_for(cluster).update(
                    NODES, {**node, "status": decision.status}, "status"
                )

    async def _reconcile_pod(self, key: Key) -> None:
        pod, node_key = self._informers.pod(key), self._informers.node_of(key)
        node = self._informers.node(node_key) if node_key is not None else None
        if pod is None or node_key is None or node is None or not is_simulated(node):
            return
        if needs_admission(pod) and condition_is(node, "Ready"):
            rejection = await self._admission.reject(key, node_key, pod, node)
            if rejection is not None:
                await self._reject_pod(key, pod, rejection)
                return
        errors = await self._source_checks.errors_of(key, pod) if condition_is(node, "Ready") else NO_ERRORS
        pod = self._informers.pod(key)
        if pod is None:
            return
        address, now = self._pod_ips.allocate(key, pod["metadata"]["uid"]), self._clock.now()
        init_container = current_init_container(
            pod, lambda alone: self._volume_files.container_outcome(key, node_key, alone)
        )
        outcome, now_rfc3339 = (
            self._volume_files.container_outcome(key, node_key, pod) if init_container is None else None,
            rfc3339(now),
        )
        decision = decide_pod(
            pod,
            node,
            self._stages,
            outcome=outcome,
            init_container=init_container,
            errors=errors,
            address=address,
            now=now,
            now_rfc3339=now_rfc3339,
        )
        self._pod_delay_queue.schedule(key, decision.requeue_at)
        with suppress(NotFound):
            await _execute(self._informers.clusters.client_for(key[0]), pod, decision)
            if records_events(node):
                self._record_events(key, pod, decision)
        if decision.waits_for:
            self._source_checks.record(key, pod, errors, decision.waits_for, _event_source(pod))
        else:
            self._source_checks.forget(key)

    async def _reject_pod(self, key: Key, pod: Object, rejection: Rejection) -> None:
        status = rejected_status(pod, rejection, rfc3339(self._clock.now()))
        with suppress(NotFound):
            await _execute(self._informers.clusters.client_for(key[0]), pod, KubeletDecision(status=status))
        self._recorder.record(_event_source(pod), key[0], pod, WARNING, rejection.reason, rejection.message)

    def _record_events(self, key: Key, pod: Object, decision: KubeletDecision) -> None:
        source = _event_source(pod)
        for each in kubelet_events(pod, decision):
            self._recorder.record(source, key[0], pod, each.type, each.reason, each.message, field_path=each.field)


def _event_source(pod: Object) -> EventSource:
    return EventSource("kubelet", "v1", "Pod", host=pod["spec"]["nodeName"])


async def _execute(client: Client, pod: Object, decision: KubeletDecision) -> None:
    metadata = pod["metadata"]
    if decision.status is not None:
        await client.update(PODS, {**pod, "status": decision.status}, "status", metadata_only=True)
    if decision.force_delete:
        await force_delete(client, metadata["name"], metadata["namespace"], metadata["uid"])


async def force_delete(client: Client, name: str, namespace: str, uid: str) -> None:
    """Deletes without a grace period: the containers have terminated, or no kubelet will ever report it."""
    body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
    await client.request("DELETE", client.resource_path(PODS, name, namespace), body=body, metadata_only=True)
