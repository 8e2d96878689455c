"""Ranks the nodes of a cluster for pods of one equivalence class. Pure.

Returns the same result as `decide.decide` with few evaluations, regardless of the number of nodes. A node that only
lost resources since its evaluation cannot be better than its bid: it is evaluated again only when it is the best one
left. A node that may have improved is evaluated at once. All changed nodes are evaluated before a pod is declared
unschedulable. Inter-pod constraints are handled by `node_groups`.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping

from shoal.controlplane.scheduler.decide import (
    NODE_NAME_MISMATCH,
    FilterReasons,
    FitError,
    NodeBid,
    ScheduleResult,
    TieBreaker,
    allocation_score,
    best_node,
    fit_error_message,
    fit_filter,
    static_filter,
    static_score,
)
from shoal.controlplane.scheduler.equivalence import EquivalenceClass
from shoal.controlplane.scheduler.interpod import InterPodScore, InterPodState
from shoal.controlplane.scheduler.node_groups import NEUTRAL_SCORE, TopologyNodeGroup, TopologyNodeGroups
from shoal.controlplane.scheduler.snapshot import ClusterSnapshot, NodeInfo
from shoal.controlplane.scheduler.volumes import VolumeConstraints
from shoal.fit.default_spread import HOSTNAME, ZONE


class NodeRanking:
    def __init__(
        self,
        equivalence: EquivalenceClass,
        tie_breaker: TieBreaker,
        inter_pod: InterPodState | None = None,
        volume_constraints: VolumeConstraints | None = None,
        class_ranking: NodeRanking | None = None,
    ) -> None:
        """`class_ranking`: the ranking of the equivalence class. What it has found out of nodes is used, if this one
        has no volume constraints.
        """
        self._class_ranking = class_ranking
        self._equivalence, self._tie_breaker = equivalence, tie_breaker
        self.inter_pod, self.volume_constraints = inter_pod, volume_constraints
        self._topology_keys: tuple[str, ...] = (ZONE,) if inter_pod is None else ()
        """Without inter-pod constraints the nodes are grouped for `best_bids`."""
        self._reset()

    def _reset(self) -> None:
        self._improvements = self._revision = -1
        self._static_results: dict[str, tuple[int, FilterReasons, int, int, TopologyNodeGroup]] = {}
        """Results that do not depend on pods, by the node description revision they were computed for."""
        self._bids: dict[str, NodeBid] = {}
        self._filtered: dict[str, FilterReasons] = {}
        self._groups = TopologyNodeGroups(self.inter_pod, self._topology_keys, self._bids)

    def decide(self, snapshot: ClusterSnapshot) -> ScheduleResult | FitError:
        if self.volume_constraints is not None and self.volume_constraints.message:
            nodes = sum(node.exists for node in snapshot.nodes.values())
            return FitError(
                f"0/{nodes} nodes are available: {self.volume_constraints.message}." if nodes else fit_error_message(())
            )
        if self.inter_pod is not None:
            self._update_inter_pod(self.inter_pod, snapshot)
        self._evaluate_improved(snapshot)
        node_name = self._best_node(snapshot)
        if node_name is not None:
            return ScheduleResult(node_name)
        self._evaluate_nodes(snapshot, snapshot.changed_since(self._revision) if self._revision >= 0 else None)
        self._revision = snapshot.revision
        return FitError(
            fit_error_message([*self._filtered.values(), *self._inter_pod_reasons(), *self._excluded_by_name(snapshot)])
        )

    def best_bids(
        self, snapshot: ClusterSnapshot, apart: Collection[str]
    ) -> Iterator[tuple[NodeBid, Mapping[str, str], int | None]]:
        """Yields bids with the labels of their nodes that matter, and with 0 for a node that has a hostname label.
        These are the bids of the nodes in `apart`, and for every set of labels the best one of the other nodes. Only
        for a ranking without inter-pod constraints.
        """
        self._evaluate_improved(snapshot)
        for group in self._groups.large_groups:
            heap, skipped = group.heap or [], []
            while (bid := self._top_bid(NEUTRAL_SCORE, heap, group, snapshot)) is not None and bid[2] in apart:
                skipped.append(heapq.heappop(heap))
            for each in skipped:
                heapq.heappush(heap, each)
            if bid is not None:
                yield bid, group.labels, group.pods_here
        for name in apart:
            current = self._bids.get(name)
            if current is not None and current[3] != snapshot.nodes[name].revision:
                self._evaluate_node(name, snapshot.nodes[name])
                current = self._bids.get(name)
            if current is not None:
                group = self._static_results[name][4]
                yield current, group.labels, group.pods_here

    def preemption_candidates(self) -> list[str]:
        """After a FitError: the nodes that reject, or might reject, only because of their pods."""
        return [name for name, static in self._static_results.items() if not static[1]]

    def _update_inter_pod(self, inter_pod: InterPodState, snapshot: ClusterSnapshot) -> None:
        inter_pod.update(snapshot)
        changes = inter_pod.changed_labels()
        keys = tuple(sorted(inter_pod.topology_keys))
        if keys != self._topology_keys:
            self._topology_keys = keys
            self._reset()
        else:
            self._groups.refresh_scores(changes)
            recounted_nodes = inter_pod.take_recounted_nodes()
            for name in recounted_nodes:
                self._regroup_node(name, snapshot)
            if recounted_nodes:
                self._groups.compact()

    def _regroup_node(self, name: str, snapshot: ClusterSnapshot) -> None:
        static, node = self._static_results.get(name), snapshot.nodes.get(name)
        if static is None or node is None:
            return
        self._groups.remove(name, static[4])
        group = self._groups.add(name, node.labels, self._pods_here(name, node))
        self._static_results[name] = (*static[:4], group)
        if name in self._bids:
            self._groups.push(group, self._bids[name])

    def _pods_here(self, name: str, node: NodeInfo) -> int | None:
        if self.inter_pod is None:
            return 0 if HOSTNAME in node.labels else None
        return self.inter_pod.pods_here(name, node.labels)

    def _evaluate_improved(self, snapshot: ClusterSnapshot) -> None:
        if self._improvements != snapshot.improvements:
            improved = snapshot.improved_since(self._improvements) if self._improvements >= 0 else None
            self._evaluate_nodes(snapshot, improved)
            self._improvements = snapshot.improvements

    def _best_node(self, snapshot: ClusterSnapshot) -> str | None:
        bids: list[NodeBid] = []
        inter_pod_scores: list[InterPodScore] = []
        for inter_pod_score, heap, group in self._groups.open_heaps():
            bid = self._top_bid(inter_pod_score, heap, group, snapshot)
            if bid is not None:
                bids.append(bid)
                inter_pod_scores.append(inter_pod_score)
        if len(bids) < 2:
            return bids[0][2] if bids else None
        return best_node(bids, inter_pod_scores if self.inter_pod is not None else [])

    def _top_bid(
        self,
        inter_pod_score: InterPodScore,
        heap: list[NodeBid],
        heap_group: TopologyNodeGroup | None,
        snapshot: ClusterSnapshot,
    ) -> NodeBid | None:
        """Returns the best bid of a heap, which belongs to one group or to all small groups with one score."""
        while heap:
            bid = heap[0]
            _, _, name, revision = bid
            if self._bids.get(name) is not bid:
                heapq.heappop(heap)
                continue
            group = self._static_results[name][4]
            if group is not heap_group and (
                heap_group is not None or group.heap is not None or group.score != inter_pod_score
            ):
                heapq.heappop(heap)
            elif snapshot.nodes[name].revision == revision:
                return bid
            else:
                heapq.heappop(heap)
                self._evaluate_node(name, snapshot.nodes[name])
        return None

    def _inter_pod_reasons(self) -> Iterator[FilterReasons]:
        """Yields the inter-pod reasons of nodes that pass all other filters."""
        if self.inter_pod is not None:
            for name in self._bids:
                yield (self.inter_pod.reject_reason(self._static_results[name][4].labels),)

    def _excluded_by_name(self, snapshot: ClusterSnapshot) -> list[FilterReasons]:
        """Returns a reason for each node that is not evaluated because the pod requires other nodes by name."""
        if self._equivalence.node_names is None:
            return []
        return [NODE_NAME_MISMATCH] * (sum(node.exists for node in snapshot.nodes.values()) - len(self._static_results))

    def _evaluate_nodes(self, snapshot: ClusterSnapshot, names: set[str] | None) -> None:
        """Evaluates the nodes; None for all."""
        node_names = self._equivalence.node_names
        if node_names is not None:
            names = set(node_names) if names is None else names & node_names
        for name in {*snapshot.nodes, *self._static_results} if names is None else names:
            self._evaluate_node(name, snapshot.nodes.get(name))
        self._groups.compact()

    def _evaluate_node(self, name: str, node: NodeInfo | None) -> None:
        self._bids.pop(name, None)
        self._filtered.pop(name, None)
        static = self._static_results.get(name)
        if node is None or not node.exists:
            if static is not None:
                self._groups.remove(name, static[4])
                del self._static_results[name]
            return
        equivalence = self._equivalence
        if static is None or static[0] != node.description_revision:
            if static is not None:
                self._groups.remove(name, static[4])
            group = self._groups.add(name, node.labels, self._pods_here(name, node))
            known = self._class_ranking._static_results.get(name) if self._class_ranking is not None else None
            if known is not None and known[0] == node.description_revision:
                static = (*known[:4], group)
            else:
                static = (
                    node.description_revision,
                    static_filter(equivalence, node),
                    static_score(equivalence, node),
                    self._tie_breaker(name),
                    group,
                )
            self._static_results[name] = static
        _, static_reasons, static_points, tie_break, group = static
        known_bid = self._class_ranking._bids.get(name) if self._class_ranking is not None else None
        if known_bid is not None and known_bid[3] == node.revision:
            self._bids[name] = known_bid
            self._groups.push(group, known_bid)
            return
        filter_reasons = (
            static_reasons
            or fit_filter(equivalence, node)
            or (self.volume_constraints.reasons(node) if self.volume_constraints is not None else ())
        )
        if filter_reasons:
            self._filtered[name] = filter_reasons
            return
        bid = self._bids[name] = (
            -(static_points + allocation_score(equivalence, node)),
            tie_break,
            name,
            node.revision,
        )
        self._groups.push(group, bid)
