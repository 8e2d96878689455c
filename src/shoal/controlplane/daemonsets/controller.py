"""Reconciles DaemonSets: one pod on every eligible node."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.controlplane.daemonsets.backoff import FailedPods
from shoal.controlplane.daemonsets.decide import Decision, Snapshot, decide, hash_of, outdated
from shoal.controlplane.daemonsets.placing import new_pods
from shoal.controlplane.history import History, Newest
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.pacing import Pace
from shoal.controlplane.podcontrol.changes import adopters, is_new
from shoal.controlplane.podcontrol.control import PodControl
from shoal.controlplane.podcontrol.telling import pod_events
from shoal.kinds.pod_state import next_availability
from shoal.objects.errors import NotFound
from shoal.objects.ownership import claim
from shoal.runtime.dependents import Dependents
from shoal.runtime.gate import Gate
from shoal.runtime.loop import Loop
from shoal.runtime.ownwrites import OwnStatuses
from shoal.runtime.recorder import Recorder, Source

Object = dict[str, Any]

DAEMON_SETS = Kind("apps", "v1", "daemonsets")
NODES = Kind("", "v1", "nodes", namespaced=False)
EFFORT = 4
"""Deciding for a node costs about this many times as much as counting a pod."""
UNSEEN_SECONDS = 5.0
"""Safety net. The controller's writes normally arrive through the informer; this covers an informer that was lost
meanwhile.
"""
SOURCE = Source("daemonset-controller", "apps/v1", "DaemonSet")


class DaemonSetLoop:
    """Keys are DaemonSets. The informers are shared with other controllers and are run elsewhere."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        hosted: HostedClusters,
        sets: Dependents,
        pods: Dependents,
        nodes: Dependents,
        revisions: Dependents,
        recorder: Recorder,
    ) -> None:
        self._client, self._clock, self._hosted = client, clock, hosted
        self._sets, self._pods, self._nodes, self._recorder = sets, pods, nodes, recorder
        self._control = PodControl(client, pods, DAEMON_SETS, "apps/v1", "DaemonSet", pod_events(recorder, SOURCE))
        self._history = History(client, revisions, DAEMON_SETS, "DaemonSet")
        self._statuses = OwnStatuses(client, DAEMON_SETS, sets)
        self._failed = FailedPods()
        self._in: dict[str, dict[Key, None]] = {}
        """DaemonSets by logical cluster."""
        self.loop: Loop[Key] = Loop("daemonsets", clock, self.reconcile)
        self._pace = Pace(clock, self.loop.queue)
        self._gate: Gate[Key] = Gate(self.loop.queue.add, sets, pods, nodes, revisions)
        sets.listeners.append(self._set_changed)
        pods.listeners.append(self._pod_changed)
        nodes.listeners.append(self._node_changed)
        revisions.listeners.append(self._revision_changed)

    def _set_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        if now is not None:
            self._in.setdefault(key[0], {})[key] = None
        elif key[0] in self._in:
            self._in[key[0]].pop(key, None)
            if not self._in[key[0]]:
                del self._in[key[0]]
        if is_new(before, now):
            self.loop.queue.add(key)
        else:
            self._pace.wake(key)

    def _node_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        if before is None or now is None or _said(before) != _said(now):
            for owner in self._in.get(key[0], ()):
                self._pace.wake(owner)

    def _pod_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        for owner in self._control.owners(key, before, now):
            if self._control.in_sight(owner):
                self._pace.wake(owner)
        for owner in adopters(now, self._sets.beside(key)):
            self.loop.queue.add(owner)

    def _revision_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        for owner in self._history.owners_of(key, before, now):
            self.loop.queue.add(owner)

    async def reconcile(self, key: Key) -> float | None:
        daemon_set = self._sets.get(key)
        if daemon_set is None:
            self._forget(key)
            return None
        if not self._hosted.admits(key[0], self.loop.queue.add, key) or not self._gate.admits(key):
            return None
        if "deletionTimestamp" in daemon_set["metadata"]:
            return None  # the garbage collector deletes its pods and revisions
        if not all(view.in_sight(key) for view in (self._control, self._history, self._statuses)):
            return UNSEEN_SECONDS
        claims = claim(daemon_set, self._pods.owned(key, daemon_set["metadata"]["uid"]), self._pods.orphans(key))
        if await self._control.settle(key, daemon_set, claims):
            return UNSEEN_SECONDS
        revisions = await self._history.found(key, daemon_set)
        if revisions is None:
            return UNSEEN_SECONDS
        newest = await self._history.newest(key, daemon_set, revisions)
        return await self._advance(key, daemon_set, claims.kept, revisions, newest)

    async def _advance(
        self, key: Key, daemon_set: Object, pods: list[Object], revisions: list[Object], newest: Newest
    ) -> float | None:
        now, nodes = self._clock.now(), [node for _, node in self._nodes.beside((key[0], "", ""))]
        pods, hashed = self._control.as_deleted(key, pods, rfc3339(now)), hash_of(newest.revision)
        decision = decide(Snapshot(daemon_set, nodes, pods, hashed, self._failed.held(key, now), now))
        self._pace.worked(key, EFFORT * (len(nodes) + len(pods)))
        failure = await self._carried_out(key, daemon_set, decision, hashed)
        if failure is None and decision.create and not pods:
            return UNSEEN_SECONDS  # the status would only count pods that the informer does not have yet
        await self._write_status(key, daemon_set, decision.status, newest.collisions)
        if failure is not None:
            raise failure
        name = newest.revision["metadata"]["name"]
        old = [one for one in revisions if one["metadata"]["name"] != name]
        await self._history.drop(key, outdated(daemon_set, pods, old))
        later = next_availability(pods, daemon_set["spec"].get("minReadySeconds") or 0, now)
        return min((each for each in (later, decision.later) if each is not None), default=None)

    async def _carried_out(self, key: Key, daemon_set: Object, decision: Decision, hashed: str) -> Exception | None:
        failure = None
        if decision.create:
            made = new_pods(daemon_set, decision.create, hashed)
            failure = await self._control.create_pods(key, daemon_set, made)
        for pod, node in decision.ended:
            self._tell_end(key, daemon_set, pod, node)
        lost = [pod for pod, node in decision.lost if not await self._exists(key[0], node)]
        if decision.delete or lost:
            failure = await self._control.delete(key, daemon_set, decision.delete + lost) or failure
        return failure

    def _tell_end(self, key: Key, daemon_set: Object, pod: Object, node: str) -> None:
        which = f"{key[1]}/{pod['metadata']['name']} on node {node}"
        if pod["status"]["phase"] == "Failed":
            self._failed.deleted(key, node, self._clock.now())
            said = f"Found failed daemon pod {which}, will try to kill it"
            self._recorder.record(SOURCE, key[0], daemon_set, "Warning", "FailedDaemonPod", said)
        else:
            said = f"Found succeeded daemon pod {which}, will try to delete it"
            self._recorder.record(SOURCE, key[0], daemon_set, "Normal", "SucceededDaemonPod", said)

    async def _exists(self, cluster: str, node: str) -> bool:
        """Reads from the server: a node that is not in the informer yet may still arrive."""
        try:
            await self._client.at(cluster).get(NODES, node)
        except NotFound as error:
            return error.kind != NODES.plural
        return True

    async def _write_status(self, key: Key, daemon_set: Object, status: Object, collisions: int) -> None:
        await self._statuses.write(key, daemon_set, {**status, "collisionCount": collisions} if collisions else status)

    def _forget(self, key: Key) -> None:
        for each in (self._control, self._history, self._statuses, self._failed, self._pace):
            each.forget(key)


def _said(node: Object) -> tuple[object, object]:
    """Returns the fields of a node that a DaemonSet's eligibility depends on."""
    return node["metadata"].get("labels"), (node.get("spec") or {}).get("taints")
