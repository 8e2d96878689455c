"""Ranks nodes for pods that nothing but default spread tells apart from others of their equivalence class. Pure.

Few such pods are on few nodes. Then the ranking of the class, which all of its pods share, is asked for the best of the
other nodes: a new Deployment costs no evaluation of all nodes. Many pods have a ranking of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.controlplane.scheduler.decide import FitError, NodeBid, ScheduleResult, best_node
from shoal.controlplane.scheduler.default_selectors import DefaultSpread
from shoal.controlplane.scheduler.default_spread import SpreadDomains
from shoal.controlplane.scheduler.interpod import InterPodScore
from shoal.controlplane.scheduler.ranking import NodeRanking
from shoal.controlplane.scheduler.snapshot import ClusterSnapshot
from shoal.fit.default_spread import ZONE, spread_score
from shoal.fit.podaffinity import PeerPod

MIN_FEW, FEW_SHARE = 16, 16
"""Few are at most MIN_FEW or one FEW_SHAREth of the nodes, whichever is more."""


class DefaultSpreadRanking:
    def __init__(
        self,
        spread: DefaultSpread,
        class_ranking: NodeRanking,
        domains: SpreadDomains,
        own_ranking: Callable[[], NodeRanking],
    ) -> None:
        self._spread, self._class_ranking, self._domains = spread, class_ranking, domains
        self._own_ranking = own_ranking
        self._peers: list[PeerPod] = []
        self._peers_generation = -1

    inter_pod = volume_constraints = None

    def decide(self, snapshot: ClusterSnapshot) -> ScheduleResult | FitError:
        counted = self._few_counted_nodes(snapshot)
        if counted is None:
            return self._own_ranking().decide(snapshot)
        self._domains.update(snapshot)
        zones: dict[str | None, int] = {}
        for name, pods in counted.items():
            if self._domains.is_selected(name):
                zone = snapshot.nodes[name].labels.get(ZONE)
                zones[zone] = zones.get(zone, 0) + pods
        bids: list[NodeBid] = []
        scores: list[InterPodScore] = []
        known: dict[tuple[int | None, str | None], InterPodScore] = {}
        for bid, labels, presence in self._class_ranking.best_bids(snapshot, counted):
            bids.append(bid)
            zone, pods_here = labels.get(ZONE), counted.get(bid[2], 0) if presence is not None else None
            score = known.get((pods_here, zone))
            if score is None:
                in_zone = zones.get(zone, 0) if zone is not None else None
                score = InterPodScore(0, spread_score(pods_here, in_zone, self._domains.sizes))
                known[pods_here, zone] = score
            scores.append(score)
        return ScheduleResult(best_node(bids, scores)) if bids else self._class_ranking.decide(snapshot)

    def preemption_candidates(self) -> list[str]:
        return self._class_ranking.preemption_candidates()

    def _few_counted_nodes(self, snapshot: ClusterSnapshot) -> dict[str, int] | None:
        """Returns the number of pods by node; None if there are many."""
        peers = snapshot.peers
        if self._peers_generation != peers.generation:
            self._peers = peers.select(self._spread.namespace, self._spread.selector)
            self._peers_generation = peers.generation
        limit = max(MIN_FEW, len(snapshot.nodes) // FEW_SHARE)
        counted: dict[str, int] = {}
        if len(self._peers) > limit:
            return None
        for peer in self._peers:
            nodes = peers.nodes_of(peer)
            if len(nodes) > limit:
                return None
            for name, pods in nodes.items():
                if snapshot.nodes[name].exists:
                    counted[name] = counted.get(name, 0) + pods
        return counted if len(counted) <= limit else None
