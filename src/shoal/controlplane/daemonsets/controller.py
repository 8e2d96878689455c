"""Reconciles DaemonSets: one pod on every eligible node."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.controlplane.controller_history import CONTROLLER_REVISIONS, ControllerHistory, CurrentRevision
from shoal.controlplane.cost_throttle import CostThrottle
from shoal.controlplane.daemonsets.decide import (
    DaemonSetDecision,
    DaemonSetSnapshot,
    decide,
    revision_hash_of,
    revisions_to_delete,
)
from shoal.controlplane.daemonsets.eligibility import new_pods
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.podcontrol.control import PODS, PodControl
from shoal.controlplane.podcontrol.events import new_pod_event_sink
from shoal.controlplane.podcontrol.predicates import matching_owners, spec_or_metadata_changed
from shoal.kinds.core.pod.status import seconds_to_next_available
from shoal.objects.errors import NotFound
from shoal.objects.ownership import claim_objects
from shoal.runtime.cache_sync import CacheSyncGate
from shoal.runtime.controller import Controller
from shoal.runtime.event_recorder import EventRecorder, EventSource
from shoal.runtime.expectations import StatusWriter
from shoal.runtime.informer import Informer
from shoal.runtime.informer_store import by_cluster, by_controller, by_namespace

INITIAL_SECONDS, MAX_SECONDS = 1.0, 900.0
FORGET_SECONDS = 2 * MAX_SECONDS


class FailedPodsBackoff:
    """Keys are DaemonSets. Times are seconds of any single clock."""

    def __init__(self) -> None:
        self._backoffs: dict[Key, dict[str, tuple[float, float]]] = {}
        """By node: backoff duration and its start."""

    def remaining(self, key: Key, now: float) -> dict[str, float]:
        """Returns the nodes in backoff with the seconds left."""
        backoffs = self._backoffs.get(key, {})
        return {node: since + duration - now for node, (duration, since) in backoffs.items() if since + duration > now}

    def record_deletion(self, key: Key, node: str, now: float) -> None:
        """Records the deletion of a failed pod on the node. The next one waits twice as long."""
        backoffs = {
            each: (duration, since)
            for each, (duration, since) in self._backoffs.get(key, {}).items()
            if now - since <= FORGET_SECONDS
        }
        previous = backoffs.get(node)
        backoffs[node] = INITIAL_SECONDS if previous is None else min(previous[0] * 2, MAX_SECONDS), now
        self._backoffs[key] = backoffs

    def forget(self, key: Key) -> None:
        self._backoffs.pop(key, None)


Object = dict[str, Any]

DAEMON_SETS = GroupVersionResource("apps", "v1", "daemonsets")
NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
NODE_COST = 4
"""Deciding for a node costs about this many times as much as counting a pod."""
EXPECTATIONS_RETRY_SECONDS = 5.0
"""Safety net. The controller's writes normally arrive through the informer; this covers an informer that was lost
meanwhile.
"""
EVENT_SOURCE = EventSource("daemonset-controller", "apps/v1", "DaemonSet")


class DaemonSetReconciler:
    """Keys are DaemonSets."""

    def __init__(self, client: Client, clock: Clock, hosted: HostedClusterFilter, recorder: EventRecorder) -> None:
        self._client, self._clock, self._hosted_filter, self._recorder = client, clock, hosted, recorder
        wildcard = client.in_cluster("*")
        self._sets = daemon_sets = Informer(wildcard, DAEMON_SETS, clock, indexers=(by_cluster, by_namespace))
        self._pods = pods = Informer(wildcard, PODS, clock, indexers=(by_controller,))
        self._nodes = nodes = Informer(wildcard, NODES, clock, indexers=(by_cluster,))
        revisions = Informer(wildcard, CONTROLLER_REVISIONS, clock, indexers=(by_controller,))
        self._pod_control = PodControl(
            client, pods, DAEMON_SETS, "apps/v1", "DaemonSet", new_pod_event_sink(recorder, EVENT_SOURCE)
        )
        self._history = ControllerHistory(client, revisions, DAEMON_SETS, "DaemonSet")
        self._status_writer = StatusWriter(client, DAEMON_SETS, daemon_sets)
        self._failed_pods_backoff = FailedPodsBackoff()
        self.controller: Controller[Key] = Controller("daemonsets", clock, self.reconcile)
        self._throttle = CostThrottle(clock, self.controller.queue)
        self._cache_sync: CacheSyncGate[Key] = CacheSyncGate(
            self.controller.queue.add, daemon_sets, pods, nodes, revisions
        )
        self.controller.watch(daemon_sets, self._on_daemon_set)
        self.controller.watch(pods, self._on_pod)
        self.controller.watch(nodes, self._on_node)
        self.controller.watch(revisions, self._on_revision)

    def _on_daemon_set(self, key: Key, old: Object | None, new: Object | None) -> None:
        if spec_or_metadata_changed(old, new):
            self.controller.queue.add(key)
        else:
            self._throttle.enqueue(key)

    def _on_node(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or _scheduling_facts(old) != _scheduling_facts(new):
            for daemon_set in self._sets.by_index(by_cluster, key[0]):
                self._throttle.enqueue(key_of(daemon_set))

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        for owner in self._pod_control.owners(key, old, new):
            if self._pod_control.satisfied(owner):
                self._throttle.enqueue(owner)
        for owner in matching_owners(key, new, self._sets):
            self.controller.queue.add(owner)

    def _on_revision(self, key: Key, old: Object | None, new: Object | None) -> None:
        for owner in self._history.owners_of(key, old, new):
            self.controller.queue.add(owner)

    async def reconcile(self, key: Key) -> float | None:
        daemon_set = self._sets.get(key)
        if daemon_set is None:
            self._forget(key)
            return None
        if not self._hosted_filter.accepts(key[0], self.controller.queue.add, key) or not self._cache_sync.allow(key):
            return None
        if "deletionTimestamp" in daemon_set["metadata"]:
            return None  # the garbage collector deletes its pods and revisions
        if not all(view.satisfied(key) for view in (self._pod_control, self._history, self._status_writer)):
            return EXPECTATIONS_RETRY_SECONDS
        claims = claim_objects(
            daemon_set,
            self._pods.by_index(by_controller, (*key[:2], daemon_set["metadata"]["uid"])),
            self._pods.by_index(by_controller, (*key[:2], "")),
        )
        if await self._pod_control.adopt_and_release(key, daemon_set, claims):
            return EXPECTATIONS_RETRY_SECONDS
        revisions = await self._history.adopt_and_list(key, daemon_set)
        if revisions is None:
            return EXPECTATIONS_RETRY_SECONDS
        current = await self._history.current_revision(key, daemon_set, revisions)
        return await self._manage(key, daemon_set, claims.owned, revisions, current)

    async def _manage(
        self, key: Key, daemon_set: Object, pods: list[Object], revisions: list[Object], current: CurrentRevision
    ) -> float | None:
        now, nodes = self._clock.now(), self._nodes.by_index(by_cluster, key[0])
        pods, revision_hash = (
            self._pod_control.with_pending_deletions(key, pods, rfc3339(now)),
            revision_hash_of(current.revision),
        )
        decision = decide(
            DaemonSetSnapshot(
                daemon_set, nodes, pods, revision_hash, self._failed_pods_backoff.remaining(key, now), now
            )
        )
        self._throttle.record_cost(key, NODE_COST * (len(nodes) + len(pods)))
        failure = await self._execute(key, daemon_set, decision, revision_hash)
        if failure is None and decision.create and not pods:
            return EXPECTATIONS_RETRY_SECONDS  # the status would only count pods that the informer does not have yet
        await self._write_status(key, daemon_set, decision.status, current.collision_count)
        if failure is not None:
            raise failure
        name = current.revision["metadata"]["name"]
        old = [one for one in revisions if one["metadata"]["name"] != name]
        await self._history.truncate(key, revisions_to_delete(daemon_set, pods, old))
        requeue_after = seconds_to_next_available(pods, daemon_set["spec"].get("minReadySeconds") or 0, now)
        return min((each for each in (requeue_after, decision.requeue_after) if each is not None), default=None)

    async def _execute(
        self, key: Key, daemon_set: Object, decision: DaemonSetDecision, revision_hash: str
    ) -> Exception | None:
        failure = None
        if decision.create:
            pods = new_pods(daemon_set, decision.create, revision_hash)
            failure = await self._pod_control.create_pods(key, daemon_set, pods)
        for pod, node in decision.finished:
            self._record_finished_pod(key, daemon_set, pod, node)
        unscheduled = [pod for pod, node in decision.without_node if not await self._node_exists(key[0], node)]
        if decision.delete or unscheduled:
            failure = await self._pod_control.delete(key, daemon_set, decision.delete + unscheduled) or failure
        return failure

    def _record_finished_pod(self, key: Key, daemon_set: Object, pod: Object, node: str) -> None:
        pod_on_node = f"{key[1]}/{pod['metadata']['name']} on node {node}"
        if pod["status"]["phase"] == "Failed":
            self._failed_pods_backoff.record_deletion(key, node, self._clock.now())
            message = f"Found failed daemon pod {pod_on_node}, will try to kill it"
            self._recorder.record(EVENT_SOURCE, key[0], daemon_set, "Warning", "FailedDaemonPod", message)
        else:
            message = f"Found succeeded daemon pod {pod_on_node}, will try to delete it"
            self._recorder.record(EVENT_SOURCE, key[0], daemon_set, "Normal", "SucceededDaemonPod", message)

    async def _node_exists(self, cluster: str, node: str) -> bool:
        """Reads from the server: a node that is not in the informer yet may still arrive."""
        try:
            await self._client.in_cluster(cluster).get(NODES, node)
        except NotFound as error:
            return error.kind != NODES.resource
        return True

    async def _write_status(self, key: Key, daemon_set: Object, status: Object, collisions: int) -> None:
        await self._status_writer.write(
            key, daemon_set, {**status, "collisionCount": collisions} if collisions else status
        )

    def _forget(self, key: Key) -> None:
        for each in (self._pod_control, self._history, self._status_writer, self._failed_pods_backoff, self._throttle):
            each.forget(key)


def _scheduling_facts(node: Object) -> tuple[object, object]:
    """Returns the fields of a node that a DaemonSet's eligibility depends on."""
    return node["metadata"].get("labels"), (node.get("spec") or {}).get("taints")
