"""Reconciles ReplicaSets: keeps the number of pods at spec.replicas.

ReplicationControllers are reconciled by the same class with another `ReplicaOwnerKind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.podcontrol.control import PODS, PodControl, PodEventSink
from shoal.controlplane.podcontrol.predicates import matching_owners
from shoal.controlplane.replicasets.decide import ReplicaSetPlan, plan, replica_set_status, split_active
from shoal.kinds.core.pod.status import seconds_to_next_available
from shoal.objects.ownership import claim_objects, controller_of, selector_of
from shoal.objects.selectors import LabelSelector
from shoal.runtime.cache_sync import CacheSyncGate
from shoal.runtime.controller import Controller
from shoal.runtime.expectations import StatusWriter
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_controller, by_namespace

Object = dict[str, Any]

REPLICA_SETS = GroupVersionResource("apps", "v1", "replicasets")
FREE_PODS = 200
SECONDS_PER_POD = 10e-6
"""A ReplicaSet with many pods reads all of them when one changes. It is throttled in proportion, so that a rollout of
thousands leaves CPU to the kubelets and the scheduler.
"""
EXPECTATIONS_RETRY_SECONDS = 5.0
"""Safety net. The controller's writes normally arrive through the informer; this covers an informer that was lost
meanwhile.
"""
WORKERS = 8


@dataclass(frozen=True, slots=True)
class ReplicaOwnerKind:
    """The kind of object that owns the pods."""

    resource: GroupVersionResource
    api_version: str
    kind: str
    selector: Callable[[Object], LabelSelector] = selector_of
    omitted_status_fields: frozenset[str] = frozenset()
    """Status fields that the kind does not have."""


REPLICA_SET_OWNER = ReplicaOwnerKind(REPLICA_SETS, "apps/v1", "ReplicaSet")


class ReplicaSetReconciler:
    """Keys are ReplicaSets."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        hosted: HostedClusterFilter,
        event_sink: PodEventSink | None = None,
        owner_kind: ReplicaOwnerKind = REPLICA_SET_OWNER,
    ) -> None:
        self._clock, self._hosted_filter = clock, hosted
        self._owner_kind, wildcard = owner_kind, client.in_cluster("*")
        indexers = (by_controller, by_namespace)
        self._replica_sets = replica_sets = Informer(wildcard, owner_kind.resource, clock, indexers=indexers)
        self._pods = pods = Informer(wildcard, PODS, clock, indexers=(by_controller,))
        self._pod_control = PodControl(
            client, pods, owner_kind.resource, owner_kind.api_version, owner_kind.kind, event_sink
        )
        self._status_writer = StatusWriter(client, owner_kind.resource, replica_sets)
        self._paused_until: dict[Key, float] = {}
        self.controller: Controller[Key] = Controller(owner_kind.resource.resource, clock, self.reconcile, WORKERS)
        self._cache_sync: CacheSyncGate[Key] = CacheSyncGate(self.controller.queue.add, replica_sets, pods)
        self.controller.watch(replica_sets, self._on_replica_set)
        self.controller.watch(pods, self._on_pod)

    def _on_replica_set(self, key: Key, old: Object | None, new: Object | None) -> None:
        self.controller.queue.add(key)

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        for owner in self._pod_control.owners(key, old, new):
            self._enqueue_throttled(owner)
        for owner in matching_owners(key, new, self._replica_sets, self._owner_kind.selector):
            self.controller.queue.add(owner)

    def _enqueue_throttled(self, key: Key) -> None:
        if not self._pod_control.satisfied(key):
            return  # the last of its created pods has not arrived yet
        remaining = self._paused_until.get(key, 0.0) - self._clock.monotonic()
        if remaining > 0:
            self.controller.queue.add_after(key, remaining)
        else:
            self.controller.queue.add(key)

    async def reconcile(self, key: Key) -> float | None:
        replica_set = self._replica_sets.get(key)
        if replica_set is None:
            self._forget(key)
            return None
        if not self._hosted_filter.accepts(key[0], self.controller.queue.add, key) or not self._cache_sync.allow(key):
            return None
        if not self._pod_control.satisfied(key) or not self._status_writer.satisfied(key):
            return EXPECTATIONS_RETRY_SECONDS
        owned = self._pods.by_index(by_controller, (*key[:2], replica_set["metadata"]["uid"]))
        orphans = self._pods.by_index(by_controller, (*key[:2], ""))
        self._record_cost(key, len(owned))
        claims = claim_objects(replica_set, owned, orphans, self._owner_kind.selector(replica_set))
        if await self._pod_control.adopt_and_release(key, replica_set, claims):
            return EXPECTATIONS_RETRY_SECONDS
        active, terminating = split_active(claims.owned, self._pod_control.unobserved_deletions(key, claims.owned))
        # Read once: with two readings, a pod that becomes available in between would be missed by both.
        now = self._clock.now()
        changes = plan(replica_set, active, self._related_pods(key, replica_set), now)
        failure = await self._execute(key, replica_set, changes)
        if failure is None and changes.create and not active:
            return EXPECTATIONS_RETRY_SECONDS  # the status would only count pods that the informer does not have yet
        await self._write_status(key, replica_set, active, terminating, failure, now)
        if failure is not None:
            raise failure
        return seconds_to_next_available(active, replica_set["spec"].get("minReadySeconds") or 0, now)

    def _record_cost(self, key: Key, pods: int) -> None:
        if pods > FREE_PODS:
            self._paused_until[key] = self._clock.monotonic() + pods * SECONDS_PER_POD
        else:
            self._paused_until.pop(key, None)

    def _forget(self, key: Key) -> None:
        self._pod_control.forget(key)
        self._status_writer.forget(key)
        self._paused_until.pop(key, None)

    async def _execute(self, key: Key, replica_set: Object, changes: ReplicaSetPlan) -> Exception | None:
        if changes.create:
            return await self._pod_control.create(key, replica_set, changes.create)
        return await self._pod_control.delete(key, replica_set, changes.delete) if changes.delete else None

    def _related_pods(self, key: Key, replica_set: Object) -> Iterator[Object]:
        """Yields the pods of all ReplicaSets with the same controller. Lazy: rarely needed."""
        reference = controller_of(replica_set)
        for sibling in (
            self._replica_sets.by_index(by_controller, (*key[:2], reference["uid"]))
            if reference is not None
            else [replica_set]
        ):
            yield from self._pods.by_index(by_controller, (*key[:2], sibling["metadata"]["uid"]))

    async def _write_status(
        self,
        key: Key,
        replica_set: Object,
        active: list[Object],
        terminating: list[Object],
        failure: Exception | None,
        now: float,
    ) -> None:
        desired = replica_set_status(replica_set, active, terminating, failure, now, rfc3339(now))
        desired = {
            field: value for field, value in desired.items() if field not in self._owner_kind.omitted_status_fields
        }
        await self._status_writer.write(key, replica_set, desired)
