"""Scheduler of one hosted cluster: events come in, bindings, preemptions and unschedulable pods come out. Pure.

A decided pod is *assumed* to be on its node until the watch shows it there or its binding failed, so that the next
decision counts it. A nominated pod has its resources *reserved*: pods of the same or lower priority see them as used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.controlplane.scheduler.decide import (
    FitError,
    Object,
    ScheduleResult,
    TieBreaker,
    is_finished,
    needs_scheduling,
)
from shoal.controlplane.scheduler.default_selectors import DefaultSelectors, owner_of
from shoal.controlplane.scheduler.equivalence import EquivalenceClass, EquivalenceClasses
from shoal.controlplane.scheduler.pod_groups import PodGroups
from shoal.controlplane.scheduler.preemption import (
    DisruptionBudget,
    PreemptionPlan,
    Preemptor,
    budget_from_pdb,
    find_preemption,
    is_unresolvable,
)
from shoal.controlplane.scheduler.queue import QueuedGroup, QueuedPod, SchedulingQueue
from shoal.controlplane.scheduler.results import Binding, Preemption, Unschedulable
from shoal.controlplane.scheduler.snapshot import ClusterSnapshot, PodInfo, PodKey
from shoal.controlplane.scheduler.volumes import VolumeCache
from shoal.fit.podaffinity import PeerPod

NAMESPACES, PDBS, SERVICES = "namespaces", "poddisruptionbudgets", "services"
CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses"
CSI_NODES = "csinodes"
KindRequirer = Callable[[str], Any]
"""Called with a kind that decisions depend on from now on."""


class ClusterScheduler:
    def __init__(
        self,
        equivalence_classes: EquivalenceClasses,
        tie_breaker: TieBreaker,
        require_kind: KindRequirer = lambda _: None,
    ) -> None:
        self.snapshot = ClusterSnapshot()
        self.volumes = VolumeCache()
        self._equivalence_classes, self._tie_breaker, self._require_kind = (
            equivalence_classes,
            tie_breaker,
            require_kind,
        )
        self._selectors = DefaultSelectors()
        self._groups = PodGroups(self.snapshot, self.volumes, self._selectors, tie_breaker)
        self._queue = SchedulingQueue(self._groups.key_of, self._groups.new_ranking)
        self._assumed: dict[PodKey, QueuedPod] = {}
        self._bound: dict[PodKey, tuple[str, str, int, PeerPod]] = {}
        """Node, uid, generation and peer of pods that the watch showed on a node. Most events change none of these."""
        self._nominated: dict[PodKey, QueuedPod] = {}
        self._budgets: dict[PodKey, DisruptionBudget] = {}
        self._preemptions: list[Preemption] = []
        self._waiting_for_volumes: dict[PodKey, Binding] = {}
        """Assumed pods that wait for volumes."""
        self._ready_bindings: list[Binding] = []
        self._seen_generations = 0, 0, 0
        self._next_report = 0.0
        self.scheduled = self.unschedulable = 0
        """Number of decisions so far."""

    @property
    def is_empty(self) -> bool:
        return not (self.snapshot.nodes or self._queue or self._assumed)

    @property
    def pending_counts(self) -> tuple[int, int]:
        """Numbers of active and of unschedulable pods."""
        resting = sum(len(group.pods) for group in self._queue.unschedulable_groups())
        return len(self._queue) - resting, resting

    # --- event handlers: each returns whether scheduling may have something to do ---

    def on_node(self, name: str, node: Object | None) -> bool:
        return self.snapshot.remove_node(name) if node is None else self.snapshot.put_node(node)

    def on_pod(self, key: PodKey, pod: Object | None) -> bool:
        if pod is None or is_finished(pod):
            return self._remove_pod(key)
        if pod["spec"].get("priority"):
            self._require_kind(PDBS)
        node = pod["spec"].get("nodeName")
        if node:
            return self._on_bound_pod(key, pod, node)
        if not needs_scheduling(pod):
            return self._remove_pod(key)
        equivalence, peer = self._equivalence_classes.classify(pod), self._peer(pod)
        if not equivalence.has_spread_constraints:
            self._require_kind(SERVICES)
            owner = owner_of(pod)
            if owner is not None:
                self._require_kind(owner[0])
        if equivalence.claims:
            for kind in (CLAIMS, VOLUMES, CLASSES, CSI_NODES):
                self._require_kind(kind)
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.uid == pod["metadata"].get("uid"):
            # An event from before the binding. If the binding fails, this is the pod's state.
            self._assumed[key] = self._queue.new_queued_pod(key, pod, equivalence, peer, assumed)
            return False
        if assumed is not None or key in self._bound:
            self._remove_pod(key)
        new = self._queue.add(key, pod, equivalence, peer)
        if new is not None:
            self._nominate(new, new.nominated_node)
        return new is not None

    def on_namespace(self, name: str, namespace: Object | None) -> bool:
        labels = (namespace["metadata"].get("labels") or {}) if namespace is not None else None
        return self.snapshot.put_namespace(name, labels)

    def on_pdb(self, key: PodKey, pdb: Object | None) -> bool:
        if pdb is None:
            self._budgets.pop(key, None)
        else:
            self._budgets[key] = budget_from_pdb(pdb)
        return False

    def on_service(self, key: PodKey, service: Object | None) -> bool:
        self._selectors.put_service(key, service)
        return False

    def on_owner(self, resource: str, key: PodKey, owner: Object | None) -> bool:
        """Handles the event of a ReplicaSet, StatefulSet or ReplicationController."""
        self._selectors.put_owner(resource, key, owner)
        return False

    def on_claim(self, key: PodKey, claim: Object | None) -> bool:
        namespace, name = key
        before = self.volumes.selected_node(namespace, name)
        self.volumes.put_claim(key, claim)
        is_given_up = claim is None or (bool(before) and not self.volumes.selected_node(namespace, name))
        for binding in [
            each
            for each in self._waiting_for_volumes.values()
            if each.pod.key[0] == namespace and name in each.unbound_claims
        ]:
            if all(self.volumes.is_bound(namespace, each) for each in binding.unbound_claims):
                del self._waiting_for_volumes[binding.pod.key]
                self._ready_bindings.append(Binding(binding.pod, binding.node))
            elif is_given_up:
                self.binding_failed(binding)
        has_moved = self._requeue_for_volumes(
            lambda pod: pod.key[0] == namespace and any(name == each for each, _ in pod.equivalence.claims)
        )
        return has_moved or bool(self._ready_bindings)

    def on_volume(self, name: str, volume: Object | None) -> bool:
        self.volumes.put_volume(name, volume)
        return self._requeue_for_volumes(lambda pod: bool(pod.equivalence.claims))

    def on_storage_class(self, name: str, class_: Object | None) -> bool:
        self.volumes.put_class(name, class_)
        return self._requeue_for_volumes(lambda pod: bool(pod.equivalence.claims))

    def on_csi_node(self, name: str, csi_node: Object | None) -> bool:
        self.volumes.put_csi_node(name, csi_node)
        return self._requeue_for_volumes(lambda pod: bool(pod.equivalence.claims))

    # --- results ---

    def schedule_pending(self, limit: int) -> list[Binding]:
        """Returns bindings of the next schedulable pods, in queue order. All others were marked unschedulable."""
        self._queue.reactivate(self.snapshot)
        bindings, self._ready_bindings = self._ready_bindings, []
        while len(bindings) < limit:
            if self._seen_generations != self._groups.generations:
                self._seen_generations = self._groups.generations
                self._queue.regroup()
            candidate = self._queue.peek()
            if candidate is None:
                break
            binding = self._decide(*candidate)
            if binding is not None:
                bindings.append(binding)
        return bindings

    def take_preemptions(self) -> list[Preemption]:
        """Returns the preemptions found by `schedule_pending` since the last call. The caller must call
        `eviction_failed` for each that failed.
        """
        preemptions, self._preemptions = self._preemptions, []
        return preemptions

    def unreported_pods(self, now: float) -> list[Unschedulable]:
        """Returns unschedulable pods to report. The caller must call `mark_reported` or `report_failed` for each."""
        return [
            Unschedulable(pod, group.unschedulable_message)
            for group in self._queue.unschedulable_groups()
            for pod in group.pods_to_report(now)
        ]

    def binding_failed(self, binding: Binding) -> None:
        """Undoes the assumption of a pod whose binding failed; if it still exists it is queued again."""
        assumed = self._assumed.get(binding.pod.key)
        if assumed is not None and assumed.uid == binding.pod.uid:
            del self._assumed[binding.pod.key]
            self._waiting_for_volumes.pop(binding.pod.key, None)
            self.snapshot.remove_pod(binding.pod.key)
            self._queue.enqueue(assumed)
            self._nominate(assumed, assumed.nominated_node)

    def eviction_failed(self, victim: PodInfo) -> None:
        current = self.snapshot.pod_info(victim.key)
        if current is victim:
            current.is_preempted = False
            self.snapshot.retry_generation += 1

    def mark_reported(self, unschedulable: Unschedulable) -> None:
        unschedulable.pod.reported = (
            unschedulable.message,
            unschedulable.pod.generation,
            unschedulable.pod.nominated_node,
        )

    def report_failed(self, unschedulable: Unschedulable) -> None:
        self._queue.mark_unreported(unschedulable.pod)

    def next_report_after(self, now: float) -> float | None:
        """Returns the seconds until a changed reason is due to be reported; None if there is none or it was already
        returned.
        """
        due = min(
            (
                group.next_report
                for group in self._queue.unschedulable_groups()
                if group.unschedulable_message != group.reported_message
            ),
            default=0.0,
        )
        if not due or now < self._next_report <= due:
            return None
        self._next_report = due
        return max(due - now, 0.0)

    # --- decisions ---

    def _decide(self, queued: QueuedPod, group: QueuedGroup) -> Binding | None:
        lifted_nominations = [
            each for each in self._nominated.values() if each is queued or each.priority < queued.priority
        ]
        for each in lifted_nominations:
            self.snapshot.remove_pod(each.key, quietly=True)
        result = group.ranking.decide(self.snapshot)
        preemption = self._preempt(queued, group) if isinstance(result, FitError) else None
        for each in lifted_nominations:
            if each.key in self._nominated and not (each is queued and isinstance(result, ScheduleResult)):
                self.snapshot.assign(each.nominated_node, each.pod_info())
        if isinstance(result, ScheduleResult):
            self.scheduled += 1
            return self._assume(queued, group, result.node)
        self.unschedulable += 1
        if preemption is not None:
            # It is retried once more in a group of its own, and is unschedulable until the victims are gone.
            self._nominate(queued, preemption.node)
        if self._queue.is_in_group(queued, group):
            self._queue.mark_unschedulable(group, result.message)
        return None

    def _assume(self, queued: QueuedPod, group: QueuedGroup, node: str) -> Binding:
        group.has_progress = True
        self._queue.remove(queued.key)
        self._nominated.pop(queued.key, None)
        self._assumed[queued.key] = queued
        self.snapshot.assign(node, queued.pod_info())
        volume_constraints = group.ranking.volume_constraints
        binding = Binding(queued, node, volume_constraints.unbound_claims if volume_constraints is not None else ())
        if binding.unbound_claims:
            self._waiting_for_volumes[queued.key] = binding
        return binding

    def _preempt(self, queued: QueuedPod, group: QueuedGroup) -> PreemptionPlan | None:
        """Preempts pods of lower priority. If there are none to preempt, the pod's nomination is cleared."""
        snapshot, equivalence = self.snapshot, queued.equivalence
        if equivalence.never_preempts or self._preemption_in_progress(queued):
            return None
        preemption = None
        if snapshot.priorities and min(snapshot.priorities) < queued.priority:
            preemptor = Preemptor(
                equivalence, queued.priority, group.ranking.inter_pod, group.ranking.volume_constraints
            )
            names = [
                name
                for name in group.ranking.preemption_candidates()
                if not is_unresolvable(snapshot.nodes[name], preemptor)
            ]
            preemption = find_preemption(snapshot, names, preemptor, self._budgets.values(), self._tie_breaker)
        if preemption is not None:
            for victim in preemption.victims:
                victim.is_preempted = True
            self._preemptions.append(Preemption(queued, preemption))
            self._clear_nominations(preemption.node, queued.priority)
        elif queued.nominated_node:
            self._nominate(queued, "")
        return preemption

    def _preemption_in_progress(self, queued: QueuedPod) -> bool:
        node = self.snapshot.nodes.get(queued.nominated_node) if queued.nominated_node else None
        if node is None:
            return False
        return any(each.is_preempted and each.priority < queued.priority for each in node.pods.values())

    def _clear_nominations(self, node: str, priority: int) -> None:
        for each in list(self._nominated.values()):
            if each.nominated_node == node and each.priority < priority:
                self._nominate(each, "")

    def _nominate(self, queued: QueuedPod, node: str) -> None:
        """Reserves resources on the node for the pod; an empty node clears the nomination."""
        if queued.nominated_node != node:
            is_queued = self._queue.get(queued.key) is queued
            if is_queued:
                self._queue.remove(queued.key)
            queued.nominated_node = node
            if is_queued:
                self._queue.enqueue(queued)
        if self._nominated.pop(queued.key, None) is not None:
            self.snapshot.remove_pod(queued.key, quietly=True)
            self.snapshot.retry_generation += 1
        if node:
            self._nominated[queued.key] = queued
            self.snapshot.assign(node, queued.pod_info())

    # --- groups ---

    def _requeue_for_volumes(self, selects: Callable[[QueuedPod], bool]) -> bool:
        """Regroups pods whose volume constraints may have changed."""
        return self._queue.regroup(selects)

    # --- pods that have a node, or are deleted ---

    def _on_bound_pod(self, key: PodKey, pod: Object, node: str) -> bool:
        metadata = pod["metadata"]
        peer = self._peer(pod)
        observed = node, metadata.get("uid", ""), metadata.get("generation", 0), peer
        if self._bound.get(key) == observed:
            current = self.snapshot.pod_info(key)
            if current is not None and not current.start_time:
                current.start_time = (pod.get("status") or {}).get("startTime") or ""
            return False
        self._bound[key] = observed
        assumed = self._assumed.pop(key, None)
        self._waiting_for_volumes.pop(key, None)
        self._nominated.pop(key, None)
        self._queue.remove(key)
        # Nothing but the binding differs from the assumed pod.
        same = assumed is not None and (assumed.uid, assumed.generation) == observed[1:3]
        equivalence = assumed.equivalence if assumed is not None and same else self._equivalence_classes.classify(pod)
        return self.snapshot.assign(node, self._pod_info(key, pod, equivalence, peer)) or self._queue.waits_for_pods

    def _pod_info(self, key: PodKey, pod: Object, equivalence: EquivalenceClass, peer: PeerPod) -> PodInfo:
        previous = self.snapshot.pod_info(key)
        uid, status = pod["metadata"].get("uid", ""), pod.get("status") or {}
        is_preempted = previous is not None and previous.uid == uid and previous.is_preempted
        priority = pod["spec"].get("priority") or 0
        is_preempted = is_preempted or (peer.is_terminating and _was_preempted(status))
        return PodInfo(key, uid, equivalence, peer, priority, status.get("startTime") or "", is_preempted)

    def _peer(self, pod: Object) -> PeerPod:
        peer = self._equivalence_classes.peer(pod)
        if peer.terms is not None and peer.terms.uses_namespace_selector():
            self._require_kind(NAMESPACES)
        return peer

    def _remove_pod(self, key: PodKey) -> bool:
        self._bound.pop(key, None)
        self._assumed.pop(key, None)
        self._waiting_for_volumes.pop(key, None)
        self._nominated.pop(key, None)
        self._queue.remove(key)
        return self.snapshot.remove_pod(key)


def _was_preempted(status: Object) -> bool:
    return any(
        each.get("type") == "DisruptionTarget"
        and each.get("status") == "True"
        and each.get("reason") == "PreemptionByScheduler"
        for each in status.get("conditions") or ()
    )
