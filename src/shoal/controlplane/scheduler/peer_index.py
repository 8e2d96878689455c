"""Where pods run, by what other pods see of them. Pure.

It finds the pods of a selector without a look at every node. The scheduler asks for those of one ReplicaSet, Service or
StatefulSet, which are few of all pods.
"""

from __future__ import annotations

from collections.abc import Hashable, Set
from typing import TypeVar

from shoal.fit.podaffinity import PeerPod
from shoal.objects.selectors import LabelSelector

Key = TypeVar("Key", bound=Hashable)


class PeerIndex:
    def __init__(self) -> None:
        self.generation = 0
        """Changes when a peer appears or disappears."""
        self._nodes_by_peer: dict[PeerPod, dict[str, int]] = {}
        """Number of pods by peer and node."""
        self._by_label: dict[tuple[str, str, str], set[PeerPod]] = {}
        """Peers by namespace, label and value."""
        self._by_namespace: dict[str, set[PeerPod]] = {}

    def add(self, peer: PeerPod, node: str) -> None:
        nodes = self._nodes_by_peer.get(peer)
        if nodes is None:
            nodes = self._nodes_by_peer[peer] = {}
            self.generation += 1
            self._by_namespace.setdefault(peer.namespace, set()).add(peer)
            for label, value in peer.labels.items():
                self._by_label.setdefault((peer.namespace, label, value), set()).add(peer)
        nodes[node] = nodes.get(node, 0) + 1

    def remove(self, peer: PeerPod, node: str) -> None:
        nodes = self._nodes_by_peer[peer]
        nodes[node] -= 1
        if nodes[node]:
            return
        del nodes[node]
        if nodes:
            return
        del self._nodes_by_peer[peer]
        self.generation += 1
        _discard(self._by_namespace, peer.namespace, peer)
        for label, value in peer.labels.items():
            _discard(self._by_label, (peer.namespace, label, value), peer)

    def nodes_of(self, peer: PeerPod) -> dict[str, int]:
        """Returns the number of pods by node."""
        return self._nodes_by_peer.get(peer) or {}

    def select(self, namespace: str, selector: LabelSelector) -> list[PeerPod]:
        """Returns the peers that the selector matches and that are not being deleted."""
        pairs = selector.equality_pairs()
        nobody: Set[PeerPod] = frozenset()
        candidates = (
            min((self._by_label.get((namespace, *pair), nobody) for pair in pairs), key=len)
            if pairs
            else self._by_namespace.get(namespace, nobody)
        )
        return [peer for peer in candidates if not peer.is_terminating and selector.matches(peer.labels)]


def _discard(index: dict[Key, set[PeerPod]], key: Key, peer: PeerPod) -> None:
    index[key].discard(peer)
    if not index[key]:
        del index[key]
