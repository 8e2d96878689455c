"""The ReplicaSet loop: pods of every ReplicaSet in every cluster are as many as it asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.podcontrol.control import PodControl
from shoal.controlplane.replicasets.decide import Plan, plan, sorted_out, status
from shoal.kinds.pod_state import next_availability
from shoal.objects.errors import NotFound
from shoal.objects.ownership import claim, controller_named, controller_of, selector_of
from shoal.runtime.dependents import Dependents
from shoal.runtime.loop import Loop
from shoal.runtime.ownwrites import OwnWrites

Object = dict[str, Any]

REPLICA_SETS = Kind("apps", "v1", "replicasets")
MANY = 200
REST_PER_POD = 10e-6
"""A ReplicaSet of many pods looks at all of them when one changes: it rests in proportion, so that a rollout of
thousands leaves the processor to those who make the pods run."""
UNSEEN_SECONDS = 5.0
"""What was written shows up by itself; this is for a view that was lost meanwhile."""
WORKERS = 8


class ReplicaSetLoop:
    """Keys are ReplicaSets. The views are shared with other loops and run on their own."""

    def __init__(
        self, client: Client, clock: Clock, hosted: HostedClusters, sets: Dependents, pods: Dependents
    ) -> None:
        self._client, self._clock, self._hosted = client, clock, hosted
        self._sets, self._pods = sets, pods
        self._control = PodControl(client, pods, REPLICA_SETS, "apps/v1", "ReplicaSet")
        self._statuses: OwnWrites[Key] = OwnWrites(sets)
        self._rests: dict[Key, float] = {}
        self.loop: Loop[Key] = Loop("replicasets", clock, self.reconcile, WORKERS)
        sets.listeners.append(self._set_changed)
        pods.listeners.append(self._pod_changed)

    def _set_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        self.loop.queue.add(key)

    def _pod_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        names = {controller_named(before, "apps", "ReplicaSet"), controller_named(now, "apps", "ReplicaSet")} - {""}
        for name in names:
            self._wake((key[0], key[1], name))
        if now is not None and controller_of(now) is None:
            labels = now["metadata"].get("labels")
            for owner, replica_set in self._sets.beside(key):
                if selector_of(replica_set).matches(labels):
                    self.loop.queue.add(owner)

    def _wake(self, key: Key) -> None:
        if not self._control.in_sight(key):
            return  # the last of the pods it made comes later
        left = self._rests.get(key, 0.0) - self._clock.monotonic()
        if left > 0:
            self.loop.queue.add_after(key, left)
        else:
            self.loop.queue.add(key)

    async def reconcile(self, key: Key) -> float | None:
        replica_set = self._sets.get(key)
        if replica_set is None:
            self._forget(key)
            return None
        if not self._hosted.admits(key[0], self.loop.queue.add, key):
            return None
        if not self._control.in_sight(key) or not self._statuses.in_sight(key):
            return UNSEEN_SECONDS
        owned = self._pods.owned(key, replica_set["metadata"]["uid"])
        self._rest(key, len(owned))
        claims = claim(replica_set, owned, self._pods.orphans(key))
        if await self._control.settle(key, replica_set, claims):
            return UNSEEN_SECONDS
        active, terminating = sorted_out(claims.kept, self._control.deleted(key, claims.kept))
        todo = plan(replica_set, active, self._related(key, replica_set), self._clock.now())
        failure = await self._carry_out(key, replica_set, todo)
        if failure is None and todo.create and not active:
            return UNSEEN_SECONDS  # there is nothing to tell of but what cannot be seen yet
        await self._write_status(key, replica_set, active, terminating, failure)
        if failure is not None:
            raise failure
        return next_availability(active, replica_set["spec"].get("minReadySeconds") or 0, self._clock.now())

    def _rest(self, key: Key, pods: int) -> None:
        if pods > MANY:
            self._rests[key] = self._clock.monotonic() + pods * REST_PER_POD
        else:
            self._rests.pop(key, None)

    def _forget(self, key: Key) -> None:
        self._control.forget(key)
        self._statuses.forget(key)
        self._rests.pop(key, None)

    async def _carry_out(self, key: Key, replica_set: Object, todo: Plan) -> Exception | None:
        if todo.create:
            return await self._control.create(key, replica_set, todo.create)
        return await self._control.delete(key, todo.delete) if todo.delete else None

    def _related(self, key: Key, replica_set: Object) -> Iterator[Object]:
        """The pods of all ReplicaSets with the same controller, found only if somebody looks."""
        reference = controller_of(replica_set)
        for sibling in self._sets.owned(key, reference["uid"]) if reference is not None else [replica_set]:
            yield from self._pods.owned(key, sibling["metadata"]["uid"])

    async def _write_status(
        self, key: Key, replica_set: Object, active: list[Object], terminating: list[Object], failure: Exception | None
    ) -> None:
        now = self._clock.now()
        wanted = status(replica_set, active, terminating, failure, now, rfc3339(now))
        if wanted == replica_set.get("status"):
            return
        try:
            written = await self._client.at(key[0]).update(REPLICA_SETS, {**replica_set, "status": wanted}, "status")
        except NotFound:
            return
        self._statuses.wrote(key, written)
