"""Evicts pods through the Eviction API, with backoff while a PodDisruptionBudget refuses."""

from __future__ import annotations

import asyncio
import itertools
import math
from contextlib import suppress
from typing import Any

from shoal.clock import Clock, rfc3339
from shoal.kinds.karpenter import DISRUPTION_REASON
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.errors import Conflict, MethodNotSupported, NotFound, StatusError
from shoal.provision.homes import Homes
from shoal.provision.lifecycle.termination.decide import GRACE_SECONDS, eviction_pause
from shoal.provision.metrics import PODS_DRAINED, PODS_EVICTION_REQUESTS
from shoal.provision.pods import size
from shoal.provision.telling import ABOUT_PODS
from shoal.provision.view import PODS
from shoal.runtime.recorder import NORMAL, Recorder

Object = dict[str, Any]

AT_ONCE = 16
PATIENCE_SECONDS = 10.0
"""Time that smaller pods wait for a larger one that a PodDisruptionBudget blocks."""
REFUSED = (429, 500)
"""Status codes of a refusal by one PodDisruptionBudget, and by several for one pod."""


class Evictions:
    def __init__(self, homes: Homes, recorder: Recorder, clock: Clock) -> None:
        self._homes, self._recorder, self._clock = homes, recorder, clock
        self._refused: dict[str, tuple[int, float, str]] = {}
        """By uid: refusals, time of the next attempt, and the message."""
        self._asked: dict[str, float] = {}
        """By uid: time of the first eviction request of a pod that still exists."""

    async def ask(self, cluster: str, pods: tuple[Object, ...], reason: str) -> list[str]:
        """Returns the refusal messages of the pods that stay."""
        now = self._clock.monotonic()
        for pod in pods:
            self._asked.setdefault(pod["metadata"]["uid"], now)
        due = [pod for pod in pods if self._refused.get(pod["metadata"]["uid"], (0, 0.0, ""))[1] <= now]
        for _, alike in itertools.groupby(due, key=size):
            some = list(alike)  # pods of equal size in parallel, smaller ones afterwards
            for start in range(0, len(some), AT_ONCE):
                await asyncio.gather(*(self._evict(cluster, pod, reason) for pod in some[start : start + AT_ONCE]))
        refused = (self._refused.get(pod["metadata"]["uid"]) for pod in pods)
        return [each[2] for each in refused if each is not None]

    def again(self, pods: tuple[Object, ...]) -> float | None:
        """Seconds until the next eviction attempt of one of the pods."""
        now = self._clock.monotonic()
        refused = (self._refused.get(pod["metadata"]["uid"]) for pod in pods)
        return min((max(each[1] - now, 0.0) for each in refused if each is not None), default=None)

    def is_early(self, pod: Object) -> bool:
        """True if the pod was not requested yet, or so recently that smaller pods still wait for it."""
        return self._clock.monotonic() < self._asked.get(pod["metadata"]["uid"], math.inf) + PATIENCE_SECONDS

    def forget(self, uid: str) -> None:
        self._refused.pop(uid, None)
        self._asked.pop(uid, None)

    async def tell(self, cluster: str, pod: Object, seconds: int, deadline: float) -> None:
        """Deletes a pod at the termination deadline, without regard to PodDisruptionBudgets."""
        grace = pod["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS)
        said = f"Deleted for the end of its node at {rfc3339(deadline)}, with {seconds} of its {grace} seconds of grace"
        said += ", past its budget and any karpenter.sh/do-not-disrupt"
        self._recorder.record(ABOUT_PODS, cluster, pod, NORMAL, "Disrupted", said)
        await self._delete(cluster, pod, seconds)

    async def _evict(self, cluster: str, pod: Object, reason: str) -> None:
        client, metadata = self._homes.client(cluster), pod["metadata"]
        namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        try:
            await client.call("POST", client.path(PODS, name, namespace, "eviction"), body=body)
        except MethodNotSupported:
            await self._delete(cluster, pod)  # the server does not serve evictions
        except StatusError as error:
            PODS_EVICTION_REQUESTS.inc(cluster, code=str(error.code))
            if isinstance(error, NotFound | Conflict):
                self.forget(uid)  # it is gone, or another pod has its name
                return
            if error.code not in REFUSED:
                raise
            often = self._refused.get(uid, (0, 0.0, ""))[0] + 1
            until = self._clock.monotonic() + eviction_pause(often)
            self._refused[uid] = often, until, f"pod {namespace}/{name}: {error}"
            return
        self.forget(uid)
        PODS_EVICTION_REQUESTS.inc(cluster, code="200")
        PODS_DRAINED.inc(cluster, reason=reason)
        self._recorder.record(ABOUT_PODS, cluster, pod, NORMAL, "Evicted", f"Evicted pod: {reason}")

    async def _delete(self, cluster: str, pod: Object, seconds: int | None = None) -> None:
        client, metadata = self._homes.client(cluster), pod["metadata"]
        path = client.path(PODS, metadata["name"], metadata["namespace"])
        options: Object = {"preconditions": {"uid": metadata["uid"]}}
        if seconds is not None:
            options["gracePeriodSeconds"] = seconds
        with suppress(NotFound, Conflict):
            await client.call("DELETE", path, body=options)


def disruption_reason(claim: Object | None) -> str:
    """Reason for the eviction of the NodeClaim's pods."""
    if claim is not None and condition_is(claim, DISRUPTION_REASON):
        return str((get_condition(claim, DISRUPTION_REASON) or {}).get("reason") or "")
    return "Forceful Termination"
