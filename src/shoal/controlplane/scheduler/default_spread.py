"""Counts for default topology spread: nodes and zones of one equivalence class, and pods of one selector. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from shoal.controlplane.scheduler.default_selectors import DefaultSpread
from shoal.controlplane.scheduler.equivalence import EquivalenceClass
from shoal.controlplane.scheduler.snapshot import ClusterSnapshot, NodeInfo
from shoal.fit.affinity import matches_node_affinity
from shoal.fit.default_spread import HOSTNAME, ZONE, DomainSizes, spread_score
from shoal.fit.podaffinity import PeerPod
from shoal.fit.taints import first_untolerated


class SpreadDomains:
    """Nodes that pods of the class may run on, as far as their descriptions tell, and their zones."""

    def __init__(self, equivalence: EquivalenceClass) -> None:
        self._equivalence = equivalence
        self._nodes: dict[str, tuple[int, bool, str | None]] = {}
        """By node: description revision, whether the pod selects it, and its zone if it is a candidate."""
        self._candidates = 0
        self._zones: Counter[str] = Counter()
        self._revision = -1
        self.sizes = DomainSizes()

    def update(self, snapshot: ClusterSnapshot) -> None:
        if self._revision == snapshot.revision:
            return
        changed_nodes = snapshot.changed_since(self._revision) if self._revision >= 0 else None
        names: Iterable[str] = {*snapshot.nodes, *self._nodes} if changed_nodes is None else changed_nodes
        for name in names:
            self._update_node(name, snapshot.nodes.get(name))
        self._revision = snapshot.revision

    def is_selected(self, name: str) -> bool:
        """Returns whether the node affinity of the pod selects the node. The pods of others do not count."""
        found = self._nodes.get(name)
        return found is not None and found[1]

    def _update_node(self, name: str, node: NodeInfo | None) -> None:
        old = self._nodes.get(name)
        exists = node is not None and node.exists
        if old is not None and node is not None and exists and old[0] == node.description_revision:
            return
        if old is not None:
            del self._nodes[name]
            if old[2] is not None:
                self._count(old[2], -1)
        if node is None or not exists:
            return
        equivalence = self._equivalence
        is_selected = matches_node_affinity(equivalence.spec, name, node.labels)
        is_candidate = (
            is_selected
            and not node.unschedulable
            and first_untolerated(node.taints, equivalence.tolerations) is None
            and (equivalence.node_names is None or name in equivalence.node_names)
        )
        zone = node.labels.get(ZONE, "") if is_candidate else None
        self._nodes[name] = node.description_revision, is_selected, zone
        if zone is not None:
            self._count(zone, 1)

    def _count(self, zone: str, sign: int) -> None:
        self._candidates += sign
        self._zones[zone] += sign
        if not self._zones[zone]:
            del self._zones[zone]
        self.sizes = DomainSizes(self._candidates, len(self._zones))


class SpreadCounts:
    """Pods of one selector by node and zone."""

    def __init__(self, spread: DefaultSpread, domains: SpreadDomains) -> None:
        self._spread, self._domains = spread, domains
        self._nodes: dict[str, tuple[int, str | None]] = {}
        """By node with such pods: their number, and the zone they count for."""
        self._zones: Counter[str] = Counter()
        self._revision = -1
        self._matches: dict[PeerPod, bool] = {}
        self.changed_nodes: set[str] = set()
        """Nodes whose count changed. The reader clears it."""
        self.changed_zones: set[str] = set()
        """Zones whose count changed. The reader clears it."""

    @property
    def sizes(self) -> DomainSizes:
        return self._domains.sizes

    def update(self, snapshot: ClusterSnapshot) -> None:
        self._domains.update(snapshot)
        changed_nodes = snapshot.changed_since(self._revision) if self._revision >= 0 else None
        names: Iterable[str] = {*snapshot.nodes, *self._nodes} if changed_nodes is None else changed_nodes
        for name in names:
            node = snapshot.nodes.get(name)
            self._set_count(name, node, self._pods_on(node) if node is not None and node.exists else 0)
        self._revision = snapshot.revision

    def _set_count(self, name: str, node: NodeInfo | None, pods: int) -> None:
        counted_zone = node.labels.get(ZONE) if node is not None and self._domains.is_selected(name) else None
        old, new = self._nodes.get(name), ((pods, counted_zone) if pods else None)
        if old == new:
            return
        self.changed_nodes.add(name)
        for share, sign in ((old, -1), (new, 1)):
            if share is not None and share[1] is not None:
                self._zones[share[1]] += sign * share[0]
                self.changed_zones.add(share[1])
        if new is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = new

    def pods_here(self, name: str, labels: Mapping[str, str]) -> int | None:
        """Returns the number of pods on the node; None if it has no hostname label."""
        if HOSTNAME not in labels:
            return None
        found = self._nodes.get(name)
        return found[0] if found is not None else 0

    def score(self, labels: Mapping[str, str], pods_here: int | None) -> int:
        zone = labels.get(ZONE)
        return spread_score(pods_here, self._zones.get(zone, 0) if zone is not None else None, self._domains.sizes)

    def _pods_on(self, node: NodeInfo) -> int:
        namespace, matches = self._spread.namespace, self._matches
        pods = 0
        for peer, number in node.peers.items():
            if peer.namespace == namespace and not peer.is_terminating:
                is_match = matches.get(peer)
                if is_match is None:
                    is_match = matches[peer] = self._spread.selector.matches(peer.labels)
                if is_match:
                    pods += number
        return pods
