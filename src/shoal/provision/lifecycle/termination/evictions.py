"""Evicts pods through the Eviction API, with backoff while a PodDisruptionBudget refuses."""

from __future__ import annotations

import asyncio
import itertools
import math
from contextlib import suppress
from typing import Any

from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter.karpenter import DISRUPTION_REASON
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.errors import Conflict, MethodNotSupported, NotFound, StatusError
from shoal.provision.events import POD_EVENTS
from shoal.provision.lifecycle.termination.decide import DEFAULT_GRACE_SECONDS, eviction_backoff
from shoal.provision.management import ManagementResolver
from shoal.provision.metrics import PODS_DRAINED, PODS_EVICTION_REQUESTS
from shoal.provision.pods import resource_size
from shoal.provision.state import PODS
from shoal.runtime.event_recorder import NORMAL, EventRecorder

Object = dict[str, Any]

MAX_PARALLEL_EVICTIONS = 16
SIZE_ORDER_SECONDS = 10.0
"""Time that smaller pods wait for a larger one that a PodDisruptionBudget blocks."""
REFUSED_CODES = (429, 500)
"""Status codes of a refusal by one PodDisruptionBudget, and by several for one pod."""


class EvictionQueue:
    def __init__(self, resolver: ManagementResolver, recorder: EventRecorder, clock: Clock) -> None:
        self._resolver, self._recorder, self._clock = resolver, recorder, clock
        self._refused: dict[str, tuple[int, float, str]] = {}
        """By uid: refusals, time of the next attempt, and the message."""
        self._first_requested: dict[str, float] = {}
        """By uid: time of the first eviction request of a pod that still exists."""

    async def evict(self, cluster: str, pods: tuple[Object, ...], reason: str) -> list[str]:
        """Returns the refusal messages of the pods that stay."""
        now = self._clock.monotonic()
        for pod in pods:
            self._first_requested.setdefault(pod["metadata"]["uid"], now)
        due = [pod for pod in pods if self._refused.get(pod["metadata"]["uid"], (0, 0.0, ""))[1] <= now]
        for _, same_size in itertools.groupby(due, key=resource_size):
            batch = list(same_size)  # pods of equal size in parallel, smaller ones afterwards
            for start in range(0, len(batch), MAX_PARALLEL_EVICTIONS):
                await asyncio.gather(
                    *(self._evict(cluster, pod, reason) for pod in batch[start : start + MAX_PARALLEL_EVICTIONS])
                )
        refused = (self._refused.get(pod["metadata"]["uid"]) for pod in pods)
        return [each[2] for each in refused if each is not None]

    def retry_after(self, pods: tuple[Object, ...]) -> float | None:
        """Seconds until the next eviction attempt of one of the pods."""
        now = self._clock.monotonic()
        refused = (self._refused.get(pod["metadata"]["uid"]) for pod in pods)
        return min((max(each[1] - now, 0.0) for each in refused if each is not None), default=None)

    def holds_back_smaller(self, pod: Object) -> bool:
        """True if the pod was not requested yet, or so recently that smaller pods still wait for it."""
        return (
            self._clock.monotonic() < self._first_requested.get(pod["metadata"]["uid"], math.inf) + SIZE_ORDER_SECONDS
        )

    def forget(self, uid: str) -> None:
        self._refused.pop(uid, None)
        self._first_requested.pop(uid, None)

    async def force_delete(self, cluster: str, pod: Object, seconds: int, deadline: float) -> None:
        """Deletes a pod at the termination deadline, without regard to PodDisruptionBudgets."""
        grace = pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
        message = f"Node terminates by {rfc3339(deadline)}: deleted with {seconds} of its {grace} seconds of grace"
        message += "; bypassing PodDisruptionBudgets and karpenter.sh/do-not-disrupt"
        self._recorder.record(POD_EVENTS, cluster, pod, NORMAL, "Disrupted", message)
        await self._delete(cluster, pod, seconds)

    async def _evict(self, cluster: str, pod: Object, reason: str) -> None:
        client, metadata = self._resolver.client(cluster), pod["metadata"]
        namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        try:
            await client.request("POST", client.resource_path(PODS, name, namespace, "eviction"), body=body)
        except MethodNotSupported:
            await self._delete(cluster, pod)  # the server does not serve evictions
        except StatusError as error:
            PODS_EVICTION_REQUESTS.inc(cluster, code=str(error.code))
            if isinstance(error, NotFound | Conflict):
                self.forget(uid)  # it is gone, or another pod has its name
                return
            if error.code not in REFUSED_CODES:
                raise
            refusals = self._refused.get(uid, (0, 0.0, ""))[0] + 1
            retry_at = self._clock.monotonic() + eviction_backoff(refusals)
            self._refused[uid] = refusals, retry_at, f"pod {namespace}/{name}: {error}"
            return
        self.forget(uid)
        PODS_EVICTION_REQUESTS.inc(cluster, code="200")
        PODS_DRAINED.inc(cluster, reason=reason)
        self._recorder.record(POD_EVENTS, cluster, pod, NORMAL, "Evicted", f"Evicted pod: {reason}")

    async def _delete(self, cluster: str, pod: Object, seconds: int | None = None) -> None:
        client, metadata = self._resolver.client(cluster), pod["metadata"]
        path = client.resource_path(PODS, metadata["name"], metadata["namespace"])
        options: Object = {"preconditions": {"uid": metadata["uid"]}}
        if seconds is not None:
            options["gracePeriodSeconds"] = seconds
        with suppress(NotFound, Conflict):
            await client.request("DELETE", path, body=options)


def disruption_reason(claim: Object | None) -> str:
    """Reason for the eviction of the NodeClaim's pods."""
    if claim is not None and condition_is(claim, DISRUPTION_REASON):
        return str((get_condition(claim, DISRUPTION_REASON) or {}).get("reason") or "")
    return "Forceful Termination"
