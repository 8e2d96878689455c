"""Reconciles StatefulSets: pods with stable names, created and replaced in order, and their claims."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.controlplane.history import History, Newest
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.pacing import Pace
from shoal.controlplane.podcontrol.batches import slow_start
from shoal.controlplane.podcontrol.changes import adopters, is_new
from shoal.controlplane.podcontrol.control import PodControl
from shoal.controlplane.statefulsets.decide import Decision, Snapshot, decide, outdated
from shoal.controlplane.statefulsets.identity import claim_templates, members
from shoal.controlplane.statefulsets.telling import Telling
from shoal.kinds.pod_state import next_availability
from shoal.kinds.revisions import same_as
from shoal.objects.errors import AlreadyExists, StatusError
from shoal.objects.ownership import claim
from shoal.runtime.dependents import Dependents
from shoal.runtime.gate import Gate
from shoal.runtime.loop import Later, Loop
from shoal.runtime.ownwrites import OwnStatuses, OwnWrites
from shoal.runtime.recorder import Recorder

Object = dict[str, Any]

STATEFUL_SETS = Kind("apps", "v1", "statefulsets")
CLAIMS = Kind("", "v1", "persistentvolumeclaims")
UNSEEN_SECONDS = 5.0
"""Safety net. The controller's writes normally arrive through the informer; this covers an informer that was lost
meanwhile.
"""


class StatefulSetLoop:
    """Keys are StatefulSets. The informers are shared with other controllers and are run elsewhere."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        hosted: HostedClusters,
        sets: Dependents,
        pods: Dependents,
        claims: Dependents,
        revisions: Dependents,
        recorder: Recorder,
    ) -> None:
        self._client, self._clock, self._hosted = client, clock, hosted
        self._sets, self._pods, self._claims = sets, pods, claims
        self._telling = Telling(recorder)
        self._control = PodControl(client, pods, STATEFUL_SETS, "apps/v1", "StatefulSet", self._telling.pod)
        self._history = History(client, revisions, STATEFUL_SETS, "StatefulSet")
        self._statuses = OwnStatuses(client, STATEFUL_SETS, sets)
        self._claim_writes: OwnWrites[Key] = OwnWrites(claims)
        self.loop: Loop[Key] = Loop("statefulsets", clock, self.reconcile)
        self._gate: Gate[Key] = Gate(self.loop.queue.add, sets, pods, claims, revisions)
        self._pace = Pace(clock, self.loop.queue)
        sets.listeners.append(self._set_changed)
        pods.listeners.append(self._pod_changed)
        claims.listeners.append(self._claim_changed)
        revisions.listeners.append(self._revision_changed)

    def _set_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        if is_new(before, now):
            self.loop.queue.add(key)
        else:
            self._pace.wake(key)

    def _pod_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        for owner in self._control.owners(key, before, now):
            if self._control.in_sight(owner):
                self._pace.wake(owner)
        for owner in adopters(now, self._sets.beside(key)):
            self.loop.queue.add(owner)

    def _claim_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        for owner, stateful_set in self._sets.beside(key):
            names = (template["metadata"]["name"] for template in claim_templates(stateful_set))
            if any(key[2].startswith(f"{name}-{owner[2]}-") for name in names):
                self.loop.queue.add(owner)

    def _revision_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        for owner in self._history.owners_of(key, before, now):
            self.loop.queue.add(owner)

    async def reconcile(self, key: Key) -> float | None:
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            self._forget(key)
            return None
        if not self._hosted.admits(key[0], self.loop.queue.add, key) or not self._gate.admits(key):
            return None
        if not self._in_sight(key):
            return UNSEEN_SECONDS
        owned = self._pods.owned(key, stateful_set["metadata"]["uid"])
        claims = members(stateful_set, claim(stateful_set, owned, self._pods.orphans(key)))
        if await self._control.settle(key, stateful_set, claims):
            return UNSEEN_SECONDS
        revisions = await self._history.found(key, stateful_set)
        if revisions is None:
            return UNSEEN_SECONDS
        newest = await self._newest(key, stateful_set, revisions)
        if newest is None:
            return None
        return await self._advance(key, stateful_set, claims.kept, revisions, newest)

    async def _newest(self, key: Key, stateful_set: Object, revisions: list[Object]) -> Newest | None:
        """Returns None if the set is being deleted and its revisions were deleted before it."""
        if "deletionTimestamp" not in stateful_set["metadata"]:
            return await self._history.newest(key, stateful_set, revisions)
        same = same_as(stateful_set, revisions)
        collisions = (stateful_set.get("status") or {}).get("collisionCount") or 0
        return Newest(same, collisions) if same is not None else None

    async def _advance(
        self, key: Key, stateful_set: Object, pods: list[Object], revisions: list[Object], newest: Newest
    ) -> float | None:
        now, at = self._clock.now(), (stateful_set.get("status") or {}).get("currentRevision")
        current = next((one for one in revisions if one["metadata"]["name"] == at), newest.revision)
        pods = self._control.as_deleted(key, pods, rfc3339(now))
        claims = {name[2]: found for name, found in self._claims.beside(key)} if claim_templates(stateful_set) else {}
        seen = Snapshot(stateful_set, pods, claims, current, newest.revision, newest.collisions, now)
        decision = decide(seen)
        self._pace.worked(key, len(pods))
        failure = await self._carried_out(key, stateful_set, decision)
        if failure is None and decision.create and not pods:
            return UNSEEN_SECONDS  # the status would only count pods that the informer does not have yet
        await self._statuses.write(key, stateful_set, decision.status)
        if failure is not None:
            raise failure
        live = {current["metadata"]["name"], newest.revision["metadata"]["name"]}
        if "deletionTimestamp" not in stateful_set["metadata"]:
            await self._history.drop(key, outdated(stateful_set, pods, revisions, live))
        return next_availability(pods, stateful_set["spec"].get("minReadySeconds") or 0, now)

    async def _carried_out(self, key: Key, stateful_set: Object, decision: Decision) -> Exception | None:
        """Returns the first failure. Later steps are left to the next reconcile."""
        failure = await self._stored(key, stateful_set, decision)
        if failure is None and decision.create:
            failure = await self._control.create_pods(key, stateful_set, decision.create)
        for pod, patch in decision.correct if failure is None else ():
            await self._control.patch(key, pod, patch)
        if failure is None and decision.delete:
            failure = await self._control.delete(key, stateful_set, decision.delete)
        for name, why in decision.blocked:
            failure = Later(why)
            self._telling.pod(key[0], stateful_set, "create", name, failure)
        return failure

    async def _stored(self, key: Key, stateful_set: Object, decision: Decision) -> Exception | None:
        client, left = self._client.at(key[0]), iter(decision.claims)

        async def one() -> None:
            pod, wanted = next(left)
            name = wanted["metadata"]["name"]
            try:
                self._claim_writes.wrote(key, await client.create(CLAIMS, wanted, key[1]))
            except AlreadyExists:
                raise
            except StatusError as error:
                self._telling.claim(key[0], stateful_set, name, pod, error)
                raise
            self._telling.claim(key[0], stateful_set, name, pod, None)

        failure = await slow_start(len(decision.claims), one)
        if failure is not None:
            return failure
        for name, (_, patch) in decision.owners.items():
            self._claim_writes.wrote(key, await client.merge(CLAIMS, name, patch, key[1]))
        return None

    def _in_sight(self, key: Key) -> bool:
        views = self._control, self._history, self._statuses, self._claim_writes
        return all(view.in_sight(key) for view in views)

    def _forget(self, key: Key) -> None:
        for each in (self._control, self._history, self._statuses, self._claim_writes, self._pace):
            each.forget(key)
