"""State of inter-pod affinity and topology spread for one pod to schedule. Pure.

Most pods are unaffected and have no InterPodState. An update costs only the nodes that changed since the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shoal.controlplane.scheduler.default_spread import SpreadCounts
from shoal.controlplane.scheduler.equivalence import EquivalenceClass
from shoal.controlplane.scheduler.snapshot import ClusterSnapshot, NodeInfo
from shoal.fit import podaffinity, topology
from shoal.fit.affinity import matches_node_affinity
from shoal.fit.default_spread import ZONE
from shoal.fit.podaffinity import AFFINITY_MISMATCH, AffinityCounts, AffinityTerms, PeerPod
from shoal.fit.taints import first_untolerated
from shoal.fit.topology import (
    DO_NOT_SCHEDULE,
    MAX_NODE_SCORE,
    MISSING_TOPOLOGY_LABEL,
    SCHEDULE_ANYWAY,
    SPREAD_WEIGHT,
    TopologySpread,
    normalized_skew,
    spread_constraints,
)

AFFINITY_WEIGHT = 2
UNRESOLVABLE = frozenset((AFFINITY_MISMATCH, MISSING_TOPOLOGY_LABEL))
"""Reasons that do not change when pods leave a node."""


class InterPodScore(NamedTuple):
    """Raw score of a node; it is normalized over all nodes."""

    affinity: int = 0
    spread: int | None = 0


class InterPodState:
    def __init__(
        self, equivalence: EquivalenceClass, pod: PeerPod | None, default_spread: SpreadCounts | None = None
    ) -> None:
        """`pod` is None for pods that nothing but default spread concerns."""
        self._equivalence, self.default_spread = equivalence, default_spread
        self._pod, self._has_terms = pod or PeerPod("", {}), pod is not None
        self._reset()

    def _reset(self) -> None:
        spec, labels = self._equivalence.spec, self._pod.labels
        self._hard_spread = TopologySpread(spread_constraints(spec, labels, DO_NOT_SCHEDULE), self._pod)
        self._soft_spread = TopologySpread(spread_constraints(spec, labels, SCHEDULE_ANYWAY), self._pod)
        self._has_spread = bool(spec.get("topologySpreadConstraints"))
        self._affinity: AffinityCounts | None = None
        self._node_shares: dict[str, tuple[podaffinity.AffinityShare, topology.SpreadShare, topology.SpreadShare]] = {}
        self._node_eligibility: dict[str, tuple[int, bool, bool]] = {}
        """By node: description revision, whether the pod selects the node, whether it tolerates its taints."""
        self._revision = self._namespaces_generation = -1
        self._last_totals: object = None

    @property
    def waits_for_pods(self) -> bool:
        """Whether arriving pods can make the pod schedulable, not only leaving ones."""
        return bool(self._hard_spread.constraints) or bool(self._pod.terms is not None and self._pod.terms.affinity)

    @property
    def topology_keys(self) -> set[str]:
        """Node labels that matter."""
        affinity_keys = self._affinity.topology_keys if self._affinity is not None else set[str]()
        default_keys = {ZONE} if self.default_spread is not None else set[str]()
        return affinity_keys | self._hard_spread.topology_keys | self._soft_spread.topology_keys | default_keys

    def update(self, snapshot: ClusterSnapshot) -> None:
        if self._namespaces_generation != snapshot.namespaces_generation:
            self._reset()
            self._affinity = AffinityCounts(self._pod, snapshot.namespace_labels)
            self._namespaces_generation = snapshot.namespaces_generation
        changed_nodes = snapshot.changed_since(self._revision) if self._revision >= 0 else None
        names: Iterable[str] = {*snapshot.nodes, *self._node_shares} if changed_nodes is None else changed_nodes
        for name in names:
            if self._has_terms:
                self.update_node(name, snapshot.nodes.get(name))
        self._revision = snapshot.revision
        if self.default_spread is not None:
            self.default_spread.update(snapshot)

    def changed_labels(self) -> set[tuple[str, str]] | None:
        """Returns the node labels and values whose result may have changed since the last call; None for all."""
        assert self._affinity is not None
        changed = self._affinity.changed_domains | self._hard_spread.changed_domains | self._soft_spread.changed_domains
        for each in (self._affinity, self._hard_spread, self._soft_spread):
            each.changed_domains.clear()
        sizes = None
        if self.default_spread is not None:
            changed |= {(ZONE, zone) for zone in self.default_spread.changed_zones}
            self.default_spread.changed_zones.clear()
            sizes = self.default_spread.sizes
        before, self._last_totals = (
            self._last_totals,
            (self._affinity.is_first_of_group, self._hard_spread.minimums, self._soft_spread.minimums, sizes),
        )
        return changed if before == self._last_totals else None

    def update_node(self, name: str, node: NodeInfo | None) -> None:
        """Updates the counts of one node. `node` may be a copy used for a dry run."""
        affinity = self._affinity
        assert affinity is not None
        old = self._node_shares.pop(name, None)
        if old is not None:
            affinity.subtract(old[0])
            self._hard_spread.subtract(old[1])
            self._soft_spread.subtract(old[2])
        if node is None or not node.exists:
            self._node_eligibility.pop(name, None)
            return
        affinity_share = affinity.add(node.labels, node.peers)
        hard_share: topology.SpreadShare = []
        soft_share: topology.SpreadShare = []
        if self._has_spread:
            _, is_selected, is_tolerating = self._eligibility(node)
            hard_share = self._hard_spread.add(node.labels, node.peers, is_selected, is_tolerating)
            soft_share = self._soft_spread.add(node.labels, node.peers, is_selected, is_tolerating)
        if affinity_share or hard_share or soft_share:
            self._node_shares[name] = affinity_share, hard_share, soft_share

    def reject_reason(self, labels: Mapping[str, str]) -> str:
        """Returns why the pod cannot run on a node with these labels; empty if it can."""
        assert self._affinity is not None
        return self._hard_spread.reject_reason(labels) or self._affinity.reject_reason(labels)

    def take_recounted_nodes(self) -> set[str]:
        """Returns the nodes for which the result of `pods_here` may have changed since the last call."""
        if self.default_spread is None:
            return set()
        names, self.default_spread.changed_nodes = self.default_spread.changed_nodes, set()
        return names

    def pods_here(self, name: str, labels: Mapping[str, str]) -> int | None:
        """Returns what, beside its labels, the score of a node depends on."""
        return self.default_spread.pods_here(name, labels) if self.default_spread is not None else None

    def score(self, labels: Mapping[str, str], pods_here: int | None = None) -> InterPodScore:
        """`pods_here`: what the method of this name returns for the node."""
        assert self._affinity is not None
        if self.default_spread is not None:
            spread: int | None = self.default_spread.score(labels, pods_here)
        else:
            spread = self._soft_spread.skew_score(labels) if self._soft_spread.constraints else 0
        return InterPodScore(self._affinity.score(labels), spread)

    def _eligibility(self, node: NodeInfo) -> tuple[int, bool, bool]:
        cached = self._node_eligibility.get(node.name)
        if cached is None or cached[0] != node.description_revision:
            equivalence = self._equivalence
            is_selected = matches_node_affinity(equivalence.spec, node.name, node.labels)
            is_tolerating = first_untolerated(node.taints, equivalence.tolerations) is None
            cached = self._node_eligibility[node.name] = node.description_revision, is_selected, is_tolerating
        return cached


def normalized_scores(inter_pod_scores: list[InterPodScore]) -> list[int]:
    """Normalizes the scores of all nodes to 0..MAX_NODE_SCORE and weights them."""
    low, high = (
        min(inter_pod_score.affinity for inter_pod_score in inter_pod_scores),
        max(inter_pod_score.affinity for inter_pod_score in inter_pod_scores),
    )
    spreads = [inter_pod_score.spread for inter_pod_score in inter_pod_scores if inter_pod_score.spread is not None]
    fewest, most = min(spreads, default=0), max(spreads, default=0)
    return [
        AFFINITY_WEIGHT * (MAX_NODE_SCORE * (inter_pod_score.affinity - low) // (high - low) if high > low else 0)
        + SPREAD_WEIGHT * normalized_skew(inter_pod_score.spread, fewest, most)
        for inter_pod_score in inter_pod_scores
    ]


class AffinityTargets:
    """Finds pods that are matched by affinity terms of existing pods. Each pair is checked once."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._terms: list[AffinityTerms] = snapshot.pod_terms
        self._namespaces = snapshot.namespaces_generation
        self._checked: dict[PeerPod, int] = {}
        """Number of terms checked, for pods that none matches; negative: one matches."""

    def is_targeted(self, peer: PeerPod) -> bool:
        snapshot = self._snapshot
        if not snapshot.pod_terms:
            return False
        if (
            self._terms is not snapshot.pod_terms
            or self._namespaces != snapshot.namespaces_generation
            or len(self._checked) > 10_000
        ):
            self._terms, self._namespaces = snapshot.pod_terms, snapshot.namespaces_generation
            self._checked.clear()
        checked = self._checked.get(peer, 0)
        if 0 <= checked < len(self._terms):
            is_match = any(each.matches_any(peer, snapshot.namespace_labels) for each in self._terms[checked:])
            checked = self._checked[peer] = -1 if is_match else len(self._terms)
        return checked < 0
