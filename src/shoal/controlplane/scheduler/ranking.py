"""The nodes of a cluster in the order in which pods of one shape want them. Pure.

It answers what `decide.decide` answers with few looks, however many nodes there are. A node that only lost room since
it was looked at is no better than it was: it is looked at again when it is the best that is left. A node that may be
better now is looked at at once, and all that changed only before a pod is refused.
"""

from __future__ import annotations

import heapq

from shoal.controlplane.scheduler.decide import (
    Chosen,
    Dice,
    Reasons,
    Refused,
    attraction,
    banned,
    crowded,
    headroom,
    message,
)
from shoal.controlplane.scheduler.shape import Shape
from shoal.controlplane.scheduler.snapshot import Node, Snapshot

Bid = tuple[int, int, str, int]
"""Score (the lower the better), throw, name, and the revision of the node that it is for."""


class Ranking:
    def __init__(self, shape: Shape, dice: Dice) -> None:
        self._shape, self._dice = shape, dice
        self._gains = self._revision = -1
        self._known: dict[str, tuple[int, Reasons, int, int]] = {}
        """What does not change with the pods, for the description of the node that it was found for."""
        self._bids: dict[str, Bid] = {}
        self._refused: dict[str, Reasons] = {}
        self._heap: list[Bid] = []
        """The bids, and older ones of the same nodes."""

    def decide(self, snapshot: Snapshot) -> Chosen | Refused:
        if self._gains != snapshot.gains:
            better = snapshot.gained_since(self._gains) if self._gains >= 0 else None
            self._look_at(snapshot, better)
            self._gains = snapshot.gains
        while self._heap:
            bid = self._heap[0]
            _, _, name, revision = bid
            if self._bids.get(name) is not bid:
                heapq.heappop(self._heap)
            elif snapshot.nodes[name].revision == revision:
                return Chosen(name)
            else:
                heapq.heappop(self._heap)
                self._look(name, snapshot.nodes[name])
        self._look_at(snapshot, snapshot.changed_since(self._revision) if self._revision >= 0 else None)
        self._revision = snapshot.revision
        return Refused(message(self._refused.values()))

    def _look_at(self, snapshot: Snapshot, names: set[str] | None) -> None:
        """None: at all."""
        for name in {*snapshot.nodes, *self._known} if names is None else names:
            self._look(name, snapshot.nodes.get(name))
        if len(self._heap) > 2 * len(self._bids) + 64:
            self._heap = list(self._bids.values())
            heapq.heapify(self._heap)

    def _look(self, name: str, node: Node | None) -> None:
        self._bids.pop(name, None)
        self._refused.pop(name, None)
        if node is None or not node.present:
            self._known.pop(name, None)
            return
        shape = self._shape
        known = self._known.get(name)
        if known is None or known[0] != node.described:
            known = (node.described, banned(shape, node), attraction(shape, node), self._dice(name))
            self._known[name] = known
        _, ban, liked, throw = known
        why = ban or crowded(shape, node)
        if why:
            self._refused[name] = why
            return
        bid = self._bids[name] = (-(liked + headroom(shape, node)), throw, name, node.revision)
        heapq.heappush(self._heap, bid)
