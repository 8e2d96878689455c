"""Writes bindings, conditions of unschedulable pods, and evictions of preempted pods."""

from __future__ import annotations

from typing import Any

from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339
from shoal.controlplane.scheduler.decide import SCHEDULER
from shoal.controlplane.scheduler.home import CLAIMS, Bind, Evict, Refusal, unscheduled
from shoal.controlplane.scheduler.pending import Waiting
from shoal.controlplane.scheduler.snapshot import PodKey, Resident
from shoal.controlplane.scheduler.sources import LATER, PODS
from shoal.kinds.volumes import SELECTED_NODE
from shoal.objects.errors import Conflict, NotFound
from shoal.runtime.recorder import NORMAL, WARNING, Recorder, Source

Object = dict[str, Any]

SOURCE = Source(SCHEDULER, "v1", "Pod", instance=f"{SCHEDULER}-shoal")
PREEMPTED = f"{SCHEDULER}: preempting to accommodate a higher priority pod"


class Writer:
    """Writes to one hosted cluster."""

    def __init__(self, client: Client, clock: Clock, recorder: Recorder, cluster: str) -> None:
        self._client, self._clock, self._recorder = client.at(cluster), clock, recorder
        self._cluster = cluster
        self._prefix = self._client.path(PODS).removesuffix(PODS.plural)

    async def bind(self, bind: Bind) -> None:
        """For a pod whose claims wait for a node, only the selected-node annotation is written now, for the
        provisioner.
        """
        namespace, name = bind.pod.key
        if bind.claims:
            chosen = {"metadata": {"annotations": {SELECTED_NODE: bind.node}}}
            for claim in bind.claims:
                await self._client.merge(LATER[CLAIMS], claim, chosen, namespace)
            return
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": bind.pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
        }
        await self._client.call("POST", f"{self._prefix}namespaces/{namespace}/pods/{name}/binding", body=body)
        said = f"Successfully assigned {namespace}/{name} to {bind.node}"
        self._recorder.record(SOURCE, self._cluster, _named(bind.pod), NORMAL, "Scheduled", said, action="Binding")

    async def tell(self, refusal: Refusal) -> None:
        pod = refusal.pod
        status: Object = {"conditions": [unscheduled(refusal, rfc3339(self._clock.now()))]}
        if pod.nominated != pod.told[2]:
            status["nominatedNodeName"] = pod.nominated or None
        try:
            await self._patch_status(pod.key, pod.uid, status)
        except NotFound:
            return  # the watch delivers the deletion
        about = _named(pod)
        self._recorder.record(
            SOURCE, self._cluster, about, WARNING, "FailedScheduling", refusal.message, action="Scheduling"
        )

    async def evict(self, evict: Evict, victim: Resident) -> None:
        if victim.peer.leaving:
            return  # already terminating
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": PREEMPTED,
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        try:
            await self._patch_status(victim.key, victim.uid, {"conditions": [condition]})
            await self._client.delete(PODS, victim.key[1], victim.key[0], uid=victim.uid)
        except (NotFound, Conflict):
            return  # it was deleted or replaced
        about, by = _named(victim), _named(evict.pod)
        said = f"Preempted by pod {evict.pod.uid} on node {evict.plan.node}"
        self._recorder.record(SOURCE, self._cluster, about, NORMAL, "Preempted", said, action="Preempting", related=by)

    async def _patch_status(self, key: PodKey, uid: str, status: Object) -> None:
        path = self._client.path(PODS, key[1], key[0], "status")
        body = {"metadata": {"uid": uid}, "status": status}
        await self._client.call("PATCH", path, body=body, content="application/strategic-merge-patch+json")


def _named(pod: Waiting | Resident) -> Object:
    """Returns the metadata that an Event needs."""
    namespace, name = pod.key
    return {"metadata": {"namespace": namespace, "name": name, "uid": pod.uid}}
