"""Updates the status of PodDisruptionBudgets and clears stale DisruptionTarget conditions of pods."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.controlplane.disruption.decide import (
    TARGET,
    UNMANAGED,
    Verdict,
    failed,
    needs_scales,
    stale_for,
    unmanaged,
    verdict,
)
from shoal.controlplane.disruption.scales import ControllerScales, NoScale
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.pacing import Pace
from shoal.kinds.pod_state import is_ready
from shoal.objects.errors import NotFound
from shoal.objects.ownership import controller_of, selector_of
from shoal.runtime.dependents import Dependents
from shoal.runtime.gate import Gate
from shoal.runtime.loop import Loop
from shoal.runtime.ownwrites import OwnWrites
from shoal.runtime.recorder import Recorder, Source

Object = dict[str, Any]

BUDGETS = Kind("policy", "v1", "poddisruptionbudgets")
PODS = Kind("", "v1", "pods")
ABOUT_BUDGETS = Source("controllermanager", "policy/v1", "PodDisruptionBudget")
ABOUT_PODS = Source("controllermanager", "v1", "Pod")
UNSEEN_SECONDS = 5.0
MOMENT = 0.01
"""Added to a requeue time, so that the time has passed then."""


class DisruptionLoops:
    """Keys of one controller are budgets, of the other pods. The informers are shared with other controllers and are
    run elsewhere.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        hosted: HostedClusters,
        recorder: Recorder,
        budgets: Dependents,
        pods: Dependents,
        deployments: Dependents,
        sets: Dependents,
    ) -> None:
        self._client, self._clock, self._hosted, self._recorder = client, clock, hosted, recorder
        self._budgets, self._pods = budgets, pods
        self._scales = ControllerScales(client, deployments, sets)
        self.budgets: Loop[Key] = Loop("disruption-budgets", clock, self._reconcile)
        self.stale: Loop[Key] = Loop("stale-disruptions", clock, self._clear, 1)
        self._pace = Pace(clock, self.budgets.queue)
        self._gate: Gate[Key] = Gate(self.budgets.queue.add, budgets, pods)
        self._writes: OwnWrites[Key] = OwnWrites(budgets)
        budgets.listeners.append(lambda key, before, now: self.budgets.queue.add(key))
        pods.listeners.append(self._pod_changed)

    def _pod_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        if now is not None and stale_for(now, self._clock.now()) is not None:
            self.stale.queue.add(key)
        budgets = self._budgets.beside(key)
        if not budgets or _facts(before) == _facts(now):
            return
        labels = [pod["metadata"].get("labels") for pod in (before, now) if pod is not None]
        for owner, budget in budgets:
            selector = selector_of(budget)
            if any(selector.matches(one) for one in labels):
                self._pace.wake(owner)

    async def _reconcile(self, key: Key) -> float | None:
        budget = self._budgets.get(key)
        if budget is None:
            self._pace.forget(key)
            self._writes.forget(key)
            return None
        if not self._gate.admits(key) or not self._hosted.admits(key[0], self.budgets.queue.add, key):
            return None
        if not self._writes.in_sight(key):
            return UNSEEN_SECONDS
        selector, beside = selector_of(budget), self._pods.beside(key)
        pods = [pod for _, pod in beside if selector.matches(pod["metadata"].get("labels"))]
        self._pace.worked(key, len(beside))
        now = self._clock.now()
        try:
            scales = await self._scales.of(key, pods) if needs_scales(budget) else {}
        except NoScale as error:
            said = f"Failed to calculate the number of expected pods: {error}"
            await self._write(
                key, budget, failed(budget, str(error), rfc3339(now)), "CalculateExpectedPodCountFailed", said
            )
            return None
        found = verdict(budget, pods, scales, now, rfc3339(now))
        self._tell(key, budget, pods, found)
        await self._write(key, budget, found.status)
        return None if found.recheck is None else found.recheck + MOMENT

    def _tell(self, key: Key, budget: Object, pods: list[Object], found: Verdict) -> None:
        """Records Events only if the status changed."""
        if found.status != budget.get("status"):
            if not pods:
                self._recorder.record(ABOUT_BUDGETS, key[0], budget, "Normal", "NoPods", "No matching pods found")
            if unmanaged(budget, pods):
                said = UNMANAGED.format(selector_of(budget))
                self._recorder.record(ABOUT_BUDGETS, key[0], budget, "Warning", "UnmanagedPods", said)
        for pod in found.overdue:
            said = f"Pod was expected by PDB {key[1]}/{key[2]} to be deleted but it wasn't"
            self._recorder.record(ABOUT_PODS, key[0], pod, "Warning", "NotDeleted", said)

    async def _write(self, key: Key, budget: Object, status: Object, reason: str = "", said: str = "") -> None:
        if status == budget.get("status"):
            return
        if reason:
            self._recorder.record(ABOUT_BUDGETS, key[0], budget, "Warning", reason, said)
        try:
            self._writes.wrote(
                key, await self._client.at(key[0]).update(BUDGETS, {**budget, "status": status}, "status")
            )
        except NotFound:
            return

    async def _clear(self, key: Key) -> float | None:
        pod = self._pods.get(key)
        left = stale_for(pod, self._clock.now()) if pod is not None else None
        if pod is None or left is None or not self._hosted.admits(key[0], self.stale.queue.add, key):
            return None
        if left > 0:
            return left + MOMENT
        condition: Object = {"type": TARGET, "status": "False", "lastTransitionTime": rfc3339(self._clock.now())}
        condition |= {"reason": None, "message": None}
        metadata = pod["metadata"]
        body = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": {"conditions": [condition]},
        }
        client = self._client.at(key[0])
        path = client.path(PODS, key[2], key[1], "status")
        with suppress(NotFound):
            await client.call("PATCH", path, body=body, content="application/strategic-merge-patch+json")
        return None


def _facts(pod: Object | None) -> tuple[object, ...] | None:
    if pod is None:
        return None
    metadata = pod["metadata"]
    owner = (controller_of(pod) or {}).get("uid")
    return metadata.get("uid"), metadata.get("labels"), "deletionTimestamp" in metadata, is_ready(pod), owner
