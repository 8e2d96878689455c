"""Scheduler of one hosted cluster: events come in, bindings, preemptions and unschedulable pods come out. Pure.

A decided pod is *assumed* to be on its node until the watch shows it there or its binding failed, so that the next
decision counts it. A nominated pod has its resources *reserved*: pods of the same or lower priority see them as used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.scheduler.company import Company, Concerns
from shoal.controlplane.scheduler.decide import Chosen, Dice, Object, Refused, is_finished, is_wanted
from shoal.controlplane.scheduler.pending import Group, GroupKey, Pending, Waiting
from shoal.controlplane.scheduler.preempt import Budget, Claimant, Plan, budget, is_hopeless, plan
from shoal.controlplane.scheduler.ranking import Ranking
from shoal.controlplane.scheduler.shape import Shape, Shapes
from shoal.controlplane.scheduler.snapshot import PodKey, Resident, Snapshot
from shoal.controlplane.scheduler.volumes import Volumes
from shoal.fit.podaffinity import Peer

NAMESPACES, BUDGETS = "namespaces", "poddisruptionbudgets"
CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses"
Need = Callable[[str], Any]
"""Called with a kind that decisions depend on from now on."""


@dataclass(frozen=True, slots=True)
class Bind:
    pod: Waiting
    node: str
    claims: tuple[str, ...] = ()
    """Claims that wait for a node. The pod is bound once they have their volumes."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Pods that are deleted to make room."""

    pod: Waiting
    plan: Plan


@dataclass(frozen=True, slots=True)
class Refusal:
    pod: Waiting
    message: str


class Home:
    def __init__(self, shapes: Shapes, dice: Dice, need: Need = lambda _: None) -> None:
        self.snapshot = Snapshot()
        self.volumes = Volumes()
        self._shapes, self._dice, self._need = shapes, dice, need
        self._pending = Pending(self._group_of, self._ranking_of)
        self._assumed: dict[PodKey, Waiting] = {}
        self._bound: dict[PodKey, tuple[str, str, int, Peer]] = {}
        """Node, uid, generation and peer of pods that the watch showed on a node. Most events change none of these."""
        self._reserved: dict[PodKey, Waiting] = {}
        self._budgets: dict[PodKey, Budget] = {}
        self._evictions: list[Evict] = []
        self._held: dict[PodKey, Bind] = {}
        """Assumed pods that wait for volumes."""
        self._ready: list[Bind] = []
        self._concerns = Concerns(self.snapshot)
        self._said = 0, 0
        self._due = 0.0
        self.scheduled = self.refused = 0
        """Number of decisions so far."""

    @property
    def empty(self) -> bool:
        return not (self.snapshot.nodes or self._pending or self._assumed)

    @property
    def pending(self) -> tuple[int, int]:
        """Numbers of active and of unschedulable pods."""
        resting = sum(len(group.pods) for group in self._pending.resting())
        return len(self._pending) - resting, resting

    # --- event handlers: each returns whether scheduling may have something to do ---

    def see_node(self, name: str, node: Object | None) -> bool:
        return self.snapshot.drop_node(name) if node is None else self.snapshot.put_node(node)

    def see_pod(self, key: PodKey, pod: Object | None) -> bool:
        if pod is None or is_finished(pod):
            return self._gone(key)
        if pod["spec"].get("priority"):
            self._need(BUDGETS)
        node = pod["spec"].get("nodeName")
        if node:
            return self._settled(key, pod, node)
        if not is_wanted(pod):
            return self._gone(key)
        shape, peer = self._shapes.of(pod), self._peer(pod)
        if shape.claims:
            for kind in (CLAIMS, VOLUMES, CLASSES):
                self._need(kind)
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.uid == pod["metadata"].get("uid"):
            # An event from before the binding. If the binding fails, this is the pod's state.
            self._assumed[key] = self._pending.waiting(key, pod, shape, peer, assumed)
            return False
        if assumed is not None or key in self._bound:
            self._gone(key)
        new = self._pending.put(key, pod, shape, peer)
        if new is not None:
            self._promise(new, new.nominated)
        return new is not None

    def see_namespace(self, name: str, namespace: Object | None) -> bool:
        labels = (namespace["metadata"].get("labels") or {}) if namespace is not None else None
        return self.snapshot.put_namespace(name, labels)

    def see_budget(self, key: PodKey, pdb: Object | None) -> bool:
        if pdb is None:
            self._budgets.pop(key, None)
        else:
            self._budgets[key] = budget(pdb)
        return False

    def see_claim(self, key: PodKey, claim: Object | None) -> bool:
        namespace, name = key
        before = self.volumes.selected_node(namespace, name)
        self.volumes.see_claim(key, claim)
        given_up = claim is None or (bool(before) and not self.volumes.selected_node(namespace, name))
        for bind in [each for each in self._held.values() if each.pod.key[0] == namespace and name in each.claims]:
            if all(self.volumes.is_bound(namespace, each) for each in bind.claims):
                del self._held[bind.pod.key]
                self._ready.append(Bind(bind.pod, bind.node))
            elif given_up:
                self.not_bound(bind)
        tied = self._retied(lambda pod: pod.key[0] == namespace and any(name == each for each, _ in pod.shape.claims))
        return tied or bool(self._ready)

    def see_volume(self, name: str, volume: Object | None) -> bool:
        self.volumes.see_volume(name, volume)
        return self._retied(lambda pod: bool(pod.shape.claims))

    def see_class(self, name: str, class_: Object | None) -> bool:
        self.volumes.see_class(name, class_)
        return self._retied(lambda pod: bool(pod.shape.claims))

    # --- results ---

    def choose(self, limit: int) -> list[Bind]:
        """Returns bindings of the next schedulable pods, in queue order. All others were marked unschedulable."""
        self._pending.wake(self.snapshot)
        found, self._ready = self._ready, []
        while len(found) < limit:
            if self._said != (self.snapshot.sayings, self.snapshot.namespaces):
                self._said = self.snapshot.sayings, self.snapshot.namespaces
                self._pending.move()
            following = self._pending.next()
            if following is None:
                break
            bind = self._decide(*following)
            if bind is not None:
                found.append(bind)
        return found

    def evictions(self) -> list[Evict]:
        """Returns the preemptions found by `schedule_pending` since the last call. The caller must call
        `eviction_failed` for each that failed.
        """
        found, self._evictions = self._evictions, []
        return found

    def refusals(self, now: float) -> list[Refusal]:
        """Returns unschedulable pods to report. The caller must call `mark_reported` or `report_failed` for each."""
        return [Refusal(pod, group.refusal) for group in self._pending.resting() for pod in group.to_tell(now)]

    def not_bound(self, bind: Bind) -> None:
        """Undoes the assumption of a pod whose binding failed; if it still exists it is queued again."""
        assumed = self._assumed.get(bind.pod.key)
        if assumed is not None and assumed.uid == bind.pod.uid:
            del self._assumed[bind.pod.key]
            self._held.pop(bind.pod.key, None)
            self.snapshot.remove(bind.pod.key)
            self._pending.join(assumed)
            self._promise(assumed, assumed.nominated)

    def not_evicted(self, victim: Resident) -> None:
        there = self.snapshot.resident(victim.key)
        if there is victim:
            there.preempted = False
            self.snapshot.helps += 1

    def told(self, refusal: Refusal) -> None:
        refusal.pod.told = refusal.message, refusal.pod.generation, refusal.pod.nominated

    def not_told(self, refusal: Refusal) -> None:
        self._pending.untold(refusal.pod)

    def later(self, now: float) -> float | None:
        """Returns the seconds until a changed reason is due to be reported; None if there is none or it was already
        returned.
        """
        due = min((group.due for group in self._pending.resting() if group.refusal != group.message), default=0.0)
        if not due or now < self._due <= due:
            return None
        self._due = due
        return max(due - now, 0.0)

    # --- decisions ---

    def _decide(self, waiting: Waiting, group: Group) -> Bind | None:
        lifted = [each for each in self._reserved.values() if each is waiting or each.priority < waiting.priority]
        for each in lifted:
            self.snapshot.remove(each.key, quietly=True)
        answer = group.ranking.decide(self.snapshot)
        room = self._make_room(waiting, group) if isinstance(answer, Refused) else None
        for each in lifted:
            if each.key in self._reserved and not (each is waiting and isinstance(answer, Chosen)):
                self.snapshot.place(each.nominated, each.resident())
        if isinstance(answer, Chosen):
            self.scheduled += 1
            return self._assume(waiting, group, answer.node)
        self.refused += 1
        if room is not None:
            # It is retried once more in a group of its own, and is unschedulable until the victims are gone.
            self._promise(waiting, room.node)
        if self._pending.is_of(waiting, group):
            self._pending.rest(group, answer.message)
        return None

    def _assume(self, waiting: Waiting, group: Group, node: str) -> Bind:
        group.moving = True
        self._pending.drop(waiting.key)
        self._reserved.pop(waiting.key, None)
        self._assumed[waiting.key] = waiting
        self.snapshot.place(node, waiting.resident())
        ties = group.ranking.ties
        bind = Bind(waiting, node, ties.unbound if ties is not None else ())
        if bind.claims:
            self._held[waiting.key] = bind
        return bind

    def _make_room(self, waiting: Waiting, group: Group) -> Plan | None:
        """Preempts pods of lower priority. If there are none to preempt, the pod's nomination is cleared."""
        snapshot, shape = self.snapshot, waiting.shape
        if shape.meek or self._is_in_progress(waiting):
            return None
        found = None
        if snapshot.priorities and min(snapshot.priorities) < waiting.priority:
            pod = Claimant(shape, waiting.priority, group.ranking.company, group.ranking.ties)
            names = [name for name in group.ranking.possible() if not is_hopeless(snapshot.nodes[name], pod)]
            found = plan(snapshot, names, pod, self._budgets.values(), self._dice)
        if found is not None:
            for victim in found.victims:
                victim.preempted = True
            self._evictions.append(Evict(waiting, found))
            self._take_promises_back(found.node, waiting.priority)
        elif waiting.nominated:
            self._promise(waiting, "")
        return found

    def _is_in_progress(self, waiting: Waiting) -> bool:
        node = self.snapshot.nodes.get(waiting.nominated) if waiting.nominated else None
        if node is None:
            return False
        return any(each.preempted and each.priority < waiting.priority for each in node.pods.values())

    def _take_promises_back(self, node: str, priority: int) -> None:
        for each in list(self._reserved.values()):
            if each.nominated == node and each.priority < priority:
                self._promise(each, "")

    def _promise(self, waiting: Waiting, node: str) -> None:
        """Reserves resources on the node for the pod; an empty node clears the nomination."""
        if waiting.nominated != node:
            waits = self._pending.get(waiting.key) is waiting
            if waits:
                self._pending.drop(waiting.key)
            waiting.nominated = node
            if waits:
                self._pending.join(waiting)
        if self._reserved.pop(waiting.key, None) is not None:
            self.snapshot.remove(waiting.key, quietly=True)
            self.snapshot.helps += 1
        if node:
            self._reserved[waiting.key] = waiting
            self.snapshot.place(node, waiting.resident())

    # --- groups ---

    def _group_of(self, waiting: Waiting) -> GroupKey:
        shape, peer = waiting.shape, waiting.peer
        known = shape.social or bool(shape.claims) or self._concerns.of(peer)
        return shape, peer if known else None, waiting.key if waiting.nominated else None

    def _ranking_of(self, waiting: Waiting, key: GroupKey) -> Ranking:
        shape, peer, _ = key
        if peer is None:
            return Ranking(shape, self._dice)
        ties = self.volumes.ties(peer.namespace, shape.claims, waiting.uid) if shape.claims else None
        company = Company(shape, peer) if shape.social or self._concerns.of(peer) else None
        return Ranking(shape, self._dice, company, ties)

    def _retied(self, which: Callable[[Waiting], bool]) -> bool:
        """Regroups pods whose volume constraints may have changed."""
        return self._pending.move(which)

    # --- pods that have a node, or are deleted ---

    def _settled(self, key: PodKey, pod: Object, node: str) -> bool:
        metadata = pod["metadata"]
        peer = self._peer(pod)
        seen = node, metadata.get("uid", ""), metadata.get("generation", 0), peer
        if self._bound.get(key) == seen:
            there = self.snapshot.resident(key)
            if there is not None and not there.started:
                there.started = (pod.get("status") or {}).get("startTime") or ""
            return False
        self._bound[key] = seen
        assumed = self._assumed.pop(key, None)
        self._held.pop(key, None)
        self._reserved.pop(key, None)
        self._pending.drop(key)
        # Nothing but the binding differs from the assumed pod.
        same = assumed is not None and (assumed.uid, assumed.generation) == seen[1:3]
        shape = assumed.shape if assumed is not None and same else self._shapes.of(pod)
        return self.snapshot.place(node, self._resident(key, pod, shape, peer)) or self._pending.needy

    def _resident(self, key: PodKey, pod: Object, shape: Shape, peer: Peer) -> Resident:
        before = self.snapshot.resident(key)
        uid, status = pod["metadata"].get("uid", ""), pod.get("status") or {}
        preempted = before is not None and before.uid == uid and before.preempted
        priority = pod["spec"].get("priority") or 0
        preempted = preempted or (peer.leaving and _was_preempted(status))
        return Resident(key, uid, shape, peer, priority, status.get("startTime") or "", preempted)

    def _peer(self, pod: Object) -> Peer:
        peer = self._shapes.peer(pod)
        if peer.terms is not None and peer.terms.by_namespaces():
            self._need(NAMESPACES)
        return peer

    def _gone(self, key: PodKey) -> bool:
        self._bound.pop(key, None)
        self._assumed.pop(key, None)
        self._held.pop(key, None)
        self._reserved.pop(key, None)
        self._pending.drop(key)
        return self.snapshot.remove(key)


def _was_preempted(status: Object) -> bool:
    return any(
        each.get("type") == "DisruptionTarget"
        and each.get("status") == "True"
        and each.get("reason") == "PreemptionByScheduler"
        for each in status.get("conditions") or ()
    )


def unscheduled(refusal: Refusal, now: str) -> Object:
    """Returns the PodScheduled condition. The transition time is that of the first report."""
    since = {} if refusal.pod.told[0] is not None else {"lastProbeTime": None, "lastTransitionTime": now}
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": refusal.message,
        "observedGeneration": refusal.pod.generation,
        **since,
    }
