"""Reconciles StatefulSets: pods with stable names, created and replaced in order, and their claims."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.controlplane.controller_history import CONTROLLER_REVISIONS, ControllerHistory, CurrentRevision
from shoal.controlplane.cost_throttle import CostThrottle
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.podcontrol.batches import slow_start
from shoal.controlplane.podcontrol.control import PODS, PodControl
from shoal.controlplane.podcontrol.predicates import matching_owners, spec_or_metadata_changed
from shoal.controlplane.statefulsets.decide import StatefulSetDecision, StatefulSetSnapshot, decide, revisions_to_delete
from shoal.controlplane.statefulsets.identity import claim_templates, filter_members
from shoal.kinds.apps.revision import find_equal_revision
from shoal.kinds.core.pod.status import seconds_to_next_available
from shoal.objects.errors import AlreadyExists, StatusError
from shoal.objects.ownership import claim_objects
from shoal.runtime.cache_sync import CacheSyncGate
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.event_recorder import EventRecorder, EventSource
from shoal.runtime.expectations import StatusWriter, WriteExpectations
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_controller, by_namespace

EVENT_SOURCE = EventSource("statefulset-controller", "apps/v1", "StatefulSet")


class StatefulSetEvents:
    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def record_pod(self, cluster: str, owner: Object, verb: str, pod: str, error: Exception | None) -> None:
        message = f"{verb.title()} Pod {pod} in StatefulSet {owner['metadata']['name']}"
        if error is None:
            self._record(cluster, owner, verb, f"{message} successful")
        else:
            self._record(cluster, owner, verb, f"{message} failed error: {error}", failed=True)

    def record_claim(self, cluster: str, owner: Object, claim: str, pod: str, error: Exception | None) -> None:
        name = owner["metadata"]["name"]
        if error is None:
            self._record(cluster, owner, "create", f"Create Claim {claim} Pod {pod} in StatefulSet {name} success")
        else:
            message = f"Create Claim {claim} for Pod {pod} in StatefulSet {name} failed error: {error}"
            self._record(cluster, owner, "create", message, failed=True)

    def _record(self, cluster: str, owner: Object, verb: str, message: str, *, failed: bool = False) -> None:
        type_, reason = ("Warning", "Failed") if failed else ("Normal", "Successful")
        self._recorder.record(EVENT_SOURCE, cluster, owner, type_, f"{reason}{verb.title()}", message)


Object = dict[str, Any]

STATEFUL_SETS = GroupVersionResource("apps", "v1", "statefulsets")
CLAIMS = GroupVersionResource("", "v1", "persistentvolumeclaims")
EXPECTATIONS_RETRY_SECONDS = 5.0
"""Safety net. The controller's writes normally arrive through the informer; this covers an informer that was lost
meanwhile.
"""


class StatefulSetReconciler:
    """Keys are StatefulSets."""

    def __init__(self, client: Client, clock: Clock, hosted: HostedClusterFilter, recorder: EventRecorder) -> None:
        self._client, self._clock, self._hosted_filter = client, clock, hosted
        wildcard = client.in_cluster("*")
        self._sets = stateful_sets = Informer(wildcard, STATEFUL_SETS, clock, indexers=(by_namespace,))
        self._pods = pods = Informer(wildcard, PODS, clock, indexers=(by_controller,))
        self._claims = claims = Informer(wildcard, CLAIMS, clock, indexers=(by_namespace,))
        revisions = Informer(wildcard, CONTROLLER_REVISIONS, clock, indexers=(by_controller,))
        self._events = StatefulSetEvents(recorder)
        self._pod_control = PodControl(client, pods, STATEFUL_SETS, "apps/v1", "StatefulSet", self._events.record_pod)
        self._history = ControllerHistory(client, revisions, STATEFUL_SETS, "StatefulSet")
        self._status_writer = StatusWriter(client, STATEFUL_SETS, stateful_sets)
        self._claim_expectations: WriteExpectations[Key] = WriteExpectations(claims)
        self.controller: Controller[Key] = Controller("statefulsets", clock, self.reconcile)
        self._cache_sync: CacheSyncGate[Key] = CacheSyncGate(
            self.controller.queue.add, stateful_sets, pods, claims, revisions
        )
        self._throttle = CostThrottle(clock, self.controller.queue)
        self.controller.watch(stateful_sets, self._on_stateful_set)
        self.controller.watch(pods, self._on_pod)
        self.controller.watch(claims, self._on_claim)
        self.controller.watch(revisions, self._on_revision)

    def _on_stateful_set(self, key: Key, old: Object | None, new: Object | None) -> None:
        if spec_or_metadata_changed(old, new):
            self.controller.queue.add(key)
        else:
            self._throttle.enqueue(key)

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        for owner in self._pod_control.owners(key, old, new):
            if self._pod_control.satisfied(owner):
                self._throttle.enqueue(owner)
        for owner in matching_owners(key, new, self._sets):
            self.controller.queue.add(owner)

    def _on_claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        for stateful_set in self._sets.by_index(by_namespace, key[:2]):
            owner = key_of(stateful_set)
            names = (template["metadata"]["name"] for template in claim_templates(stateful_set))
            if any(key[2].startswith(f"{name}-{owner[2]}-") for name in names):
                self.controller.queue.add(owner)

    def _on_revision(self, key: Key, old: Object | None, new: Object | None) -> None:
        for owner in self._history.owners_of(key, old, new):
            self.controller.queue.add(owner)

    async def reconcile(self, key: Key) -> float | None:
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            self._forget(key)
            return None
        if not self._hosted_filter.accepts(key[0], self.controller.queue.add, key) or not self._cache_sync.allow(key):
            return None
        if not self._expectations_satisfied(key):
            return EXPECTATIONS_RETRY_SECONDS
        owned = self._pods.by_index(by_controller, (*key[:2], stateful_set["metadata"]["uid"]))
        orphans = self._pods.by_index(by_controller, (*key[:2], ""))
        claims = filter_members(stateful_set, claim_objects(stateful_set, owned, orphans))
        if await self._pod_control.adopt_and_release(key, stateful_set, claims):
            return EXPECTATIONS_RETRY_SECONDS
        revisions = await self._history.adopt_and_list(key, stateful_set)
        if revisions is None:
            return EXPECTATIONS_RETRY_SECONDS
        update_revision = await self._update_revision(key, stateful_set, revisions)
        if update_revision is None:
            return None
        return await self._manage(key, stateful_set, claims.owned, revisions, update_revision)

    async def _update_revision(self, key: Key, stateful_set: Object, revisions: list[Object]) -> CurrentRevision | None:
        """Returns None if the set is being deleted and its revisions were deleted before it."""
        if "deletionTimestamp" not in stateful_set["metadata"]:
            return await self._history.current_revision(key, stateful_set, revisions)
        existing = find_equal_revision(stateful_set, revisions)
        collision_count = (stateful_set.get("status") or {}).get("collisionCount") or 0
        return CurrentRevision(existing, collision_count) if existing is not None else None

    async def _manage(
        self,
        key: Key,
        stateful_set: Object,
        pods: list[Object],
        revisions: list[Object],
        update_revision: CurrentRevision,
    ) -> float | None:
        now, current_name = self._clock.now(), (stateful_set.get("status") or {}).get("currentRevision")
        current = next((one for one in revisions if one["metadata"]["name"] == current_name), update_revision.revision)
        pods = self._pod_control.with_pending_deletions(key, pods, rfc3339(now))
        claims = (
            {claim["metadata"]["name"]: claim for claim in self._claims.by_index(by_namespace, key[:2])}
            if claim_templates(stateful_set)
            else {}
        )
        snapshot = StatefulSetSnapshot(
            stateful_set, pods, claims, current, update_revision.revision, update_revision.collision_count, now
        )
        decision = decide(snapshot)
        self._throttle.record_cost(key, len(pods))
        failure = await self._execute(key, stateful_set, decision)
        if failure is None and decision.create and not pods:
            return EXPECTATIONS_RETRY_SECONDS  # the status would only count pods that the informer does not have yet
        await self._status_writer.write(key, stateful_set, decision.status)
        if failure is not None:
            raise failure
        live = {current["metadata"]["name"], update_revision.revision["metadata"]["name"]}
        if "deletionTimestamp" not in stateful_set["metadata"]:
            await self._history.truncate(key, revisions_to_delete(stateful_set, pods, revisions, live))
        return seconds_to_next_available(pods, stateful_set["spec"].get("minReadySeconds") or 0, now)

    async def _execute(self, key: Key, stateful_set: Object, decision: StatefulSetDecision) -> Exception | None:
        """Returns the first failure. Later steps are left to the next reconcile."""
        failure = await self._write_claims(key, stateful_set, decision)
        if failure is None and decision.create:
            failure = await self._pod_control.create_pods(key, stateful_set, decision.create)
        for pod, patch in decision.corrections if failure is None else ():
            await self._pod_control.patch(key, pod, patch)
        if failure is None and decision.delete:
            failure = await self._pod_control.delete(key, stateful_set, decision.delete)
        for name, reason in decision.blocked:
            failure = RequeueError(reason)
            self._events.record_pod(key[0], stateful_set, "create", name, failure)
        return failure

    async def _write_claims(self, key: Key, stateful_set: Object, decision: StatefulSetDecision) -> Exception | None:
        client, remaining = self._client.in_cluster(key[0]), iter(decision.create_claims)

        async def create_next() -> None:
            pod, desired = next(remaining)
            name = desired["metadata"]["name"]
            try:
                self._claim_expectations.expect(key, await client.create(CLAIMS, desired, key[1]))
            except AlreadyExists:
                raise
            except StatusError as error:
                self._events.record_claim(key[0], stateful_set, name, pod, error)
                raise
            self._events.record_claim(key[0], stateful_set, name, pod, None)

        failure = await slow_start(len(decision.create_claims), create_next)
        if failure is not None:
            return failure
        for name, (_, patch) in decision.owner_patches.items():
            self._claim_expectations.expect(key, await client.merge_patch(CLAIMS, name, patch, key[1]))
        return None

    def _expectations_satisfied(self, key: Key) -> bool:
        trackers = self._pod_control, self._history, self._status_writer, self._claim_expectations
        return all(tracker.satisfied(key) for tracker in trackers)

    def _forget(self, key: Key) -> None:
        for each in (self._pod_control, self._history, self._status_writer, self._claim_expectations, self._throttle):
            each.forget(key)
