"""State of inter-pod affinity and topology spread for one pod to schedule. Pure.

Most pods are unaffected and have no InterPodState. An update costs only the nodes that changed since the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shoal.controlplane.scheduler.shape import Shape
from shoal.controlplane.scheduler.snapshot import Node, Snapshot
from shoal.fit import podaffinity, topology
from shoal.fit.affinity import selected
from shoal.fit.podaffinity import NOT_TOGETHER, Neighbours, Peer, Terms
from shoal.fit.taints import untolerated
from shoal.fit.topology import DO_NOT_SCHEDULE, NO_DOMAIN, SCHEDULE_ANYWAY, Spread, constraints

HIGHEST = 100
AFFINITY_WEIGHT = SPREAD_WEIGHT = 2
HOPELESS = frozenset((NOT_TOGETHER, NO_DOMAIN))
"""Reasons that do not change when pods leave a node."""


class Mood(NamedTuple):
    """Raw score of a node; it is normalized over all nodes."""

    affinity: int = 0
    crowd: int | None = 0


class Company:
    def __init__(self, shape: Shape, me: Peer) -> None:
        self._shape, self._me = shape, me
        self._start()

    def _start(self) -> None:
        spec, labels = self._shape.spec, self._me.labels
        self._hard = Spread(constraints(spec, labels, DO_NOT_SCHEDULE), self._me)
        self._soft = Spread(constraints(spec, labels, SCHEDULE_ANYWAY), self._me)
        self._spreads = bool(spec.get("topologySpreadConstraints"))
        self._around: Neighbours | None = None
        self._shares: dict[str, tuple[podaffinity.Share, topology.Share, topology.Share]] = {}
        self._fitness: dict[str, tuple[int, bool, bool]] = {}
        """By node: description revision, whether the pod selects the node, whether it tolerates its taints."""
        self._revision = self._namespaces = -1
        self._seen: object = None

    @property
    def needy(self) -> bool:
        """Whether arriving pods can make the pod schedulable, not only leaving ones."""
        return bool(self._hard.constraints) or bool(self._me.terms is not None and self._me.terms.together)

    @property
    def keys(self) -> set[str]:
        """Node labels that matter."""
        around = self._around.keys if self._around is not None else set[str]()
        return around | self._hard.keys | self._soft.keys

    def update(self, snapshot: Snapshot) -> None:
        if self._namespaces != snapshot.namespaces:
            self._start()
            self._around = Neighbours(self._me, snapshot.namespace_labels)
            self._namespaces = snapshot.namespaces
        changed = snapshot.changed_since(self._revision) if self._revision >= 0 else None
        names: Iterable[str] = {*snapshot.nodes, *self._shares} if changed is None else changed
        for name in names:
            self.look(name, snapshot.nodes.get(name))
        self._revision = snapshot.revision

    def changes(self) -> set[tuple[str, str]] | None:
        """Returns the node labels and values whose result may have changed since the last call; None for all."""
        assert self._around is not None
        touched = self._around.touched | self._hard.touched | self._soft.touched
        for each in (self._around, self._hard, self._soft):
            each.touched.clear()
        before, self._seen = self._seen, (self._around.first, self._hard.level, self._soft.level)
        return touched if before == self._seen else None

    def look(self, name: str, node: Node | None) -> None:
        """Updates the counts of one node. `node` may be a copy used for a dry run."""
        around = self._around
        assert around is not None
        old = self._shares.pop(name, None)
        if old is not None:
            around.take(old[0])
            self._hard.take(old[1])
            self._soft.take(old[2])
        if node is None or not node.present:
            self._fitness.pop(name, None)
            return
        near = around.add(node.labels, node.peers)
        hard: topology.Share = []
        soft: topology.Share = []
        if self._spreads:
            _, chosen, tolerated = self._fit(node)
            hard = self._hard.add(node.labels, node.peers, chosen, tolerated)
            soft = self._soft.add(node.labels, node.peers, chosen, tolerated)
        if near or hard or soft:
            self._shares[name] = near, hard, soft

    def obstacle(self, labels: Mapping[str, str]) -> str:
        """Returns why the pod cannot run on a node with these labels; empty if it can."""
        assert self._around is not None
        return self._hard.obstacle(labels) or self._around.obstacle(labels)

    def mood(self, labels: Mapping[str, str]) -> Mood:
        assert self._around is not None
        return Mood(self._around.score(labels), self._soft.weight(labels) if self._soft.constraints else 0)

    def _fit(self, node: Node) -> tuple[int, bool, bool]:
        known = self._fitness.get(node.name)
        if known is None or known[0] != node.described:
            shape = self._shape
            chosen = selected(shape.spec, node.name, node.labels)
            tolerated = untolerated(node.taints, shape.tolerations) is None
            known = self._fitness[node.name] = node.described, chosen, tolerated
        return known


def worths(moods: list[Mood]) -> list[int]:
    """Normalizes the scores of all nodes to 0..MAX_NODE_SCORE and weights them."""
    low, high = min(mood.affinity for mood in moods), max(mood.affinity for mood in moods)
    crowds = [mood.crowd for mood in moods if mood.crowd is not None]
    fewest, most = min(crowds, default=0), max(crowds, default=0)
    return [
        AFFINITY_WEIGHT * (HIGHEST * (mood.affinity - low) // (high - low) if high > low else 0)
        + SPREAD_WEIGHT * _calm(mood.crowd, fewest, most)
        for mood in moods
    ]


def _calm(crowd: int | None, fewest: int, most: int) -> int:
    if crowd is None:
        return 0
    return HIGHEST * (most + fewest - crowd) // most if most else HIGHEST


class Concerns:
    """Finds pods that are matched by affinity terms of existing pods. Each pair is checked once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._said: list[Terms] = snapshot.said
        self._namespaces = snapshot.namespaces
        self._known: dict[Peer, int] = {}
        """Number of terms checked, for pods that none matches; negative: one matches."""

    def of(self, peer: Peer) -> bool:
        snapshot = self._snapshot
        if not snapshot.said:
            return False
        if self._said is not snapshot.said or self._namespaces != snapshot.namespaces or len(self._known) > 10_000:
            self._said, self._namespaces = snapshot.said, snapshot.namespaces
            self._known.clear()
        asked = self._known.get(peer, 0)
        if 0 <= asked < len(self._said):
            meant = any(each.concern(peer, snapshot.namespace_labels) for each in self._said[asked:])
            asked = self._known[peer] = -1 if meant else len(self._said)
        return asked < 0
