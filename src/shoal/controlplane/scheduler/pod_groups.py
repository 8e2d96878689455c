"""Which pods are ranked together: those of one equivalence class, apart where other pods matter to them. Pure."""

from __future__ import annotations

from collections import OrderedDict
from weakref import WeakKeyDictionary, WeakValueDictionary

from shoal.controlplane.scheduler.decide import TieBreaker
from shoal.controlplane.scheduler.default_selectors import DefaultSelectors, DefaultSpread
from shoal.controlplane.scheduler.default_spread import SpreadCounts, SpreadDomains
from shoal.controlplane.scheduler.equivalence import EquivalenceClass
from shoal.controlplane.scheduler.interpod import AffinityTargets, InterPodState
from shoal.controlplane.scheduler.queue import PodRanking, QueuedGroupKey, QueuedPod
from shoal.controlplane.scheduler.ranking import NodeRanking
from shoal.controlplane.scheduler.snapshot import ClusterSnapshot
from shoal.controlplane.scheduler.spread_ranking import DefaultSpreadRanking
from shoal.controlplane.scheduler.volumes import VolumeCache

MAX_OWN_RANKINGS = 8
"""Rankings kept of selectors with many pods. Each holds a result for every node."""


class PodGroups:
    def __init__(
        self, snapshot: ClusterSnapshot, volumes: VolumeCache, selectors: DefaultSelectors, tie_breaker: TieBreaker
    ) -> None:
        self._snapshot, self._volumes, self._selectors = snapshot, volumes, selectors
        self._tie_breaker = tie_breaker
        self._affinity_targets = AffinityTargets(snapshot)
        self._class_rankings: WeakValueDictionary[EquivalenceClass, NodeRanking] = WeakValueDictionary()
        self._domains: WeakKeyDictionary[EquivalenceClass, SpreadDomains] = WeakKeyDictionary()
        self._own_rankings: OrderedDict[tuple[EquivalenceClass, DefaultSpread], NodeRanking] = OrderedDict()

    @property
    def generations(self) -> tuple[int, int, int]:
        """Changes when keys may have changed."""
        snapshot = self._snapshot
        return snapshot.terms_generation, snapshot.namespaces_generation, self._selectors.generation

    def key_of(self, queued: QueuedPod) -> QueuedGroupKey:
        equivalence, peer = queued.equivalence, queued.peer
        is_distinct = (
            equivalence.has_pod_constraints or bool(equivalence.claims) or self._affinity_targets.is_targeted(peer)
        )
        spread = (
            None
            if equivalence.has_spread_constraints
            else self._selectors.find(peer.namespace, peer.labels, queued.owner)
        )
        return equivalence, peer if is_distinct else None, spread, queued.key if queued.nominated_node else None

    def new_ranking(self, queued: QueuedPod, key: QueuedGroupKey) -> PodRanking:
        equivalence, peer, spread, _ = key
        if peer is None:
            return self._class_ranking(equivalence) if spread is None else self._spread_ranking(equivalence, spread)
        volume_constraints = (
            self._volumes.constraints_for(peer.namespace, equivalence.claims, queued.uid)
            if equivalence.claims
            else None
        )
        inter_pod = (
            InterPodState(equivalence, peer, self._counts(equivalence, spread))
            if spread is not None or equivalence.has_pod_constraints or self._affinity_targets.is_targeted(peer)
            else None
        )
        return NodeRanking(equivalence, self._tie_breaker, inter_pod, volume_constraints)

    def _class_ranking(self, equivalence: EquivalenceClass) -> NodeRanking:
        ranking = self._class_rankings.get(equivalence)
        if ranking is None:
            ranking = self._class_rankings[equivalence] = NodeRanking(equivalence, self._tie_breaker)
        return ranking

    def _spread_ranking(self, equivalence: EquivalenceClass, spread: DefaultSpread) -> DefaultSpreadRanking:
        return DefaultSpreadRanking(
            spread,
            self._class_ranking(equivalence),
            self._domains_of(equivalence),
            lambda: self._own_ranking(equivalence, spread),
        )

    def _own_ranking(self, equivalence: EquivalenceClass, spread: DefaultSpread) -> NodeRanking:
        key = equivalence, spread
        ranking = self._own_rankings.get(key)
        if ranking is None:
            inter_pod = InterPodState(equivalence, None, self._counts(equivalence, spread))
            ranking = self._own_rankings[key] = NodeRanking(
                equivalence, self._tie_breaker, inter_pod, class_ranking=self._class_ranking(equivalence)
            )
            if len(self._own_rankings) > MAX_OWN_RANKINGS:
                self._own_rankings.popitem(last=False)
        self._own_rankings.move_to_end(key)
        return ranking

    def _counts(self, equivalence: EquivalenceClass, spread: DefaultSpread | None) -> SpreadCounts | None:
        return SpreadCounts(spread, self._domains_of(equivalence)) if spread is not None else None

    def _domains_of(self, equivalence: EquivalenceClass) -> SpreadDomains:
        domains = self._domains.get(equivalence)
        if domains is None:
            domains = self._domains[equivalence] = SpreadDomains(equivalence)
        return domains
