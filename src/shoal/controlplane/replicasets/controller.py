"""Reconciles ReplicaSets: keeps the number of pods at spec.replicas.

ReplicationControllers are reconciled by the same class with another `ReplicaOwnerKind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.podcontrol.changes import adopters
from shoal.controlplane.podcontrol.control import PodControl, Teller
from shoal.controlplane.replicasets.decide import Plan, plan, sorted_out, status
from shoal.kinds.pod_state import next_availability
from shoal.objects.ownership import claim, controller_of, selector_of
from shoal.objects.selectors import LabelSelector
from shoal.runtime.dependents import Dependents
from shoal.runtime.gate import Gate
from shoal.runtime.loop import Loop
from shoal.runtime.ownwrites import OwnStatuses

Object = dict[str, Any]

REPLICA_SETS = Kind("apps", "v1", "replicasets")
MANY = 200
REST_PER_POD = 10e-6
"""A ReplicaSet with many pods reads all of them when one changes. It is throttled in proportion, so that a rollout of
thousands leaves CPU to the kubelets and the scheduler.
"""
UNSEEN_SECONDS = 5.0
"""Safety net. The controller's writes normally arrive through the informer; this covers an informer that was lost
meanwhile.
"""
WORKERS = 8


@dataclass(frozen=True, slots=True)
class Owners:
    """The kind of object that owns the pods."""

    resource: Kind
    api_version: str
    kind: str
    selector: Callable[[Object], LabelSelector] = selector_of
    unsaid: frozenset[str] = frozenset()
    """Status fields that the kind does not have."""


OWNERS = Owners(REPLICA_SETS, "apps/v1", "ReplicaSet")


class ReplicaSetLoop:
    """Keys are ReplicaSets. The informers are shared with other controllers and are run elsewhere."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        hosted: HostedClusters,
        sets: Dependents,
        pods: Dependents,
        tell: Teller | None = None,
        owners: Owners = OWNERS,
    ) -> None:
        self._clock, self._hosted = clock, hosted
        self._sets, self._pods, self._owners = sets, pods, owners
        self._control = PodControl(client, pods, owners.resource, owners.api_version, owners.kind, tell)
        self._statuses = OwnStatuses(client, owners.resource, sets)
        self._rests: dict[Key, float] = {}
        self.loop: Loop[Key] = Loop(owners.resource.plural, clock, self.reconcile, WORKERS)
        self._gate: Gate[Key] = Gate(self.loop.queue.add, sets, pods)
        sets.listeners.append(self._set_changed)
        pods.listeners.append(self._pod_changed)

    def _set_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        self.loop.queue.add(key)

    def _pod_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        for owner in self._control.owners(key, before, now):
            self._wake(owner)
        for owner in adopters(now, self._sets.beside(key), self._owners.selector):
            self.loop.queue.add(owner)

    def _wake(self, key: Key) -> None:
        if not self._control.in_sight(key):
            return  # the last of its created pods has not arrived yet
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
        if not self._hosted.admits(key[0], self.loop.queue.add, key) or not self._gate.admits(key):
            return None
        if not self._control.in_sight(key) or not self._statuses.in_sight(key):
            return UNSEEN_SECONDS
        owned = self._pods.owned(key, replica_set["metadata"]["uid"])
        self._rest(key, len(owned))
        claims = claim(replica_set, owned, self._pods.orphans(key), self._owners.selector(replica_set))
        if await self._control.settle(key, replica_set, claims):
            return UNSEEN_SECONDS
        active, terminating = sorted_out(claims.kept, self._control.deleted(key, claims.kept))
        # Read once: with two readings, a pod that becomes available in between would be missed by both.
        now = self._clock.now()
        todo = plan(replica_set, active, self._related(key, replica_set), now)
        failure = await self._carry_out(key, replica_set, todo)
        if failure is None and todo.create and not active:
            return UNSEEN_SECONDS  # the status would only count pods that the informer does not have yet
        await self._write_status(key, replica_set, active, terminating, failure, now)
        if failure is not None:
            raise failure
        return next_availability(active, replica_set["spec"].get("minReadySeconds") or 0, now)

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
        return await self._control.delete(key, replica_set, todo.delete) if todo.delete else None

    def _related(self, key: Key, replica_set: Object) -> Iterator[Object]:
        """Yields the pods of all ReplicaSets with the same controller. Lazy: rarely needed."""
        reference = controller_of(replica_set)
        for sibling in self._sets.owned(key, reference["uid"]) if reference is not None else [replica_set]:
            yield from self._pods.owned(key, sibling["metadata"]["uid"])

    async def _write_status(
        self,
        key: Key,
        replica_set: Object,
        active: list[Object],
        terminating: list[Object],
        failure: Exception | None,
        now: float,
    ) -> None:
        wanted = status(replica_set, active, terminating, failure, now, rfc3339(now))
        wanted = {field: value for field, value in wanted.items() if field not in self._owners.unsaid}
        await self._statuses.write(key, replica_set, wanted)
