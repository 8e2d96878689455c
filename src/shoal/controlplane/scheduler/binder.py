"""Writes bindings, conditions of unschedulable pods, and evictions of preempted pods."""

from __future__ import annotations

from typing import Any

from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.controlplane.scheduler.cluster_scheduler import CLAIMS
from shoal.controlplane.scheduler.decide import SCHEDULER
from shoal.controlplane.scheduler.informers import LAZY_RESOURCES, PODS
from shoal.controlplane.scheduler.queue import QueuedPod
from shoal.controlplane.scheduler.results import Binding, Preemption, Unschedulable, unschedulable_condition
from shoal.controlplane.scheduler.snapshot import PodInfo, PodKey
from shoal.kinds.core.persistentvolume import SELECTED_NODE
from shoal.objects.errors import Conflict, NotFound
from shoal.runtime.event_recorder import NORMAL, WARNING, EventRecorder, EventSource

Object = dict[str, Any]

EVENT_SOURCE = EventSource(SCHEDULER, "v1", "Pod", instance=f"{SCHEDULER}-shoal")
PREEMPTION_MESSAGE = f"{SCHEDULER}: preempting to accommodate a higher priority pod"


class Binder:
    """Writes to one hosted cluster."""

    def __init__(self, client: Client, clock: Clock, recorder: EventRecorder, cluster: str) -> None:
        self._client, self._clock, self._recorder = client.in_cluster(cluster), clock, recorder
        self._cluster = cluster
        self._prefix = self._client.resource_path(PODS).removesuffix(PODS.resource)

    async def bind(self, binding: Binding) -> None:
        """For a pod whose claims wait for a node, only the selected-node annotation is written now, for the
        provisioner.
        """
        namespace, name = binding.pod.key
        if binding.unbound_claims:
            patch = {"metadata": {"annotations": {SELECTED_NODE: binding.node}}}
            for claim in binding.unbound_claims:
                await self._client.merge_patch(LAZY_RESOURCES[CLAIMS], claim, patch, namespace)
            return
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": binding.pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": binding.node},
        }
        await self._client.request("POST", f"{self._prefix}namespaces/{namespace}/pods/{name}/binding", body=body)
        message = f"Successfully assigned {namespace}/{name} to {binding.node}"
        self._recorder.record(
            EVENT_SOURCE, self._cluster, _event_object(binding.pod), NORMAL, "Scheduled", message, action="Binding"
        )

    async def report_unschedulable(self, unschedulable: Unschedulable) -> None:
        pod = unschedulable.pod
        status: Object = {"conditions": [unschedulable_condition(unschedulable, rfc3339(self._clock.now()))]}
        if pod.nominated_node != pod.reported[2]:
            status["nominatedNodeName"] = pod.nominated_node or None
        try:
            await self._patch_status(pod.key, pod.uid, status)
        except NotFound:
            return  # the watch delivers the deletion
        event_object = _event_object(pod)
        self._recorder.record(
            EVENT_SOURCE,
            self._cluster,
            event_object,
            WARNING,
            "FailedScheduling",
            unschedulable.message,
            action="Scheduling",
        )

    async def evict(self, preemption: Preemption, victim: PodInfo) -> None:
        if victim.peer.is_terminating:
            return  # already terminating
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": PREEMPTION_MESSAGE,
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        try:
            await self._patch_status(victim.key, victim.uid, {"conditions": [condition]})
            await self._client.delete(PODS, victim.key[1], victim.key[0], uid=victim.uid)
        except (NotFound, Conflict):
            return  # it was deleted or replaced
        event_object, preemptor = _event_object(victim), _event_object(preemption.pod)
        message = f"Preempted by pod {preemption.pod.uid} on node {preemption.plan.node}"
        self._recorder.record(
            EVENT_SOURCE,
            self._cluster,
            event_object,
            NORMAL,
            "Preempted",
            message,
            action="Preempting",
            related=preemptor,
        )

    async def _patch_status(self, key: PodKey, uid: str, status: Object) -> None:
        path = self._client.resource_path(PODS, key[1], key[0], "status")
        body = {"metadata": {"uid": uid}, "status": status}
        await self._client.request("PATCH", path, body=body, content_type="application/strategic-merge-patch+json")


def _event_object(pod: QueuedPod | PodInfo) -> Object:
    """Returns the metadata that an Event needs."""
    namespace, name = pod.key
    return {"metadata": {"namespace": namespace, "name": name, "uid": pod.uid}}
