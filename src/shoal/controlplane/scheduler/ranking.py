"""Ranks the nodes of a cluster for pods of one equivalence class. Pure.

Returns the same result as `decide.decide` with few evaluations, regardless of the number of nodes. A node that only
lost resources since its evaluation cannot be better than its bid: it is evaluated again only when it is the best one
left. A node that may have improved is evaluated at once. All changed nodes are evaluated before a pod is declared
unschedulable. Inter-pod constraints are handled by `node_groups`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from shoal.controlplane.scheduler.company import Company, Mood
from shoal.controlplane.scheduler.decide import (
    NOT_NAMED,
    Bid,
    Chosen,
    Dice,
    Reasons,
    Refused,
    attraction,
    banned,
    best,
    crowded,
    headroom,
    message,
)
from shoal.controlplane.scheduler.places import Place, Places
from shoal.controlplane.scheduler.shape import Shape
from shoal.controlplane.scheduler.snapshot import Node, Snapshot
from shoal.controlplane.scheduler.volumes import Ties


class Ranking:
    def __init__(self, shape: Shape, dice: Dice, company: Company | None = None, ties: Ties | None = None) -> None:
        self._shape, self._dice = shape, dice
        self.company, self.ties = company, ties
        self._keys: tuple[str, ...] = ()
        self._forget()

    def _forget(self) -> None:
        self._gains = self._revision = -1
        self._known: dict[str, tuple[int, Reasons, int, int, Place]] = {}
        """Results that do not depend on pods, by the node description revision they were computed for."""
        self._bids: dict[str, Bid] = {}
        self._refused: dict[str, Reasons] = {}
        self._places = Places(self.company, self._keys, self._bids)

    def decide(self, snapshot: Snapshot) -> Chosen | Refused:
        if self.ties is not None and self.ties.message:
            nodes = sum(node.present for node in snapshot.nodes.values())
            return Refused(f"0/{nodes} nodes are available: {self.ties.message}." if nodes else message(()))
        if self.company is not None:
            self._keep_company(self.company, snapshot)
        if self._gains != snapshot.gains:
            better = snapshot.gained_since(self._gains) if self._gains >= 0 else None
            self._look_at(snapshot, better)
            self._gains = snapshot.gains
        chosen = self._best(snapshot)
        if chosen is not None:
            return Chosen(chosen)
        self._look_at(snapshot, snapshot.changed_since(self._revision) if self._revision >= 0 else None)
        self._revision = snapshot.revision
        return Refused(message([*self._refused.values(), *self._closed(), *self._not_named(snapshot)]))

    def possible(self) -> list[str]:
        """After a FitError: the nodes that reject, or might reject, only because of their pods."""
        return [name for name, known in self._known.items() if not known[1]]

    def _keep_company(self, company: Company, snapshot: Snapshot) -> None:
        company.update(snapshot)
        changes = company.changes()
        keys = tuple(sorted(company.keys))
        if keys != self._keys:
            self._keys = keys
            self._forget()
        else:
            self._places.feel(changes)

    def _best(self, snapshot: Snapshot) -> str | None:
        bids: list[Bid] = []
        moods: list[Mood] = []
        for mood, heap, place in self._places.open():
            bid = self._top(mood, heap, place, snapshot)
            if bid is not None:
                bids.append(bid)
                moods.append(mood)
        if len(bids) < 2:
            return bids[0][2] if bids else None
        return best(bids, moods)

    def _top(self, mood: Mood, heap: list[Bid], of: Place | None, snapshot: Snapshot) -> Bid | None:
        """Returns the best bid of a heap, which belongs to one group or to all small groups with one score."""
        while heap:
            bid = heap[0]
            _, _, name, revision = bid
            if self._bids.get(name) is not bid:
                heapq.heappop(heap)
                continue
            place = self._known[name][4]
            if place is not of and (of is not None or place.heap is not None or place.mood != mood):
                heapq.heappop(heap)
            elif snapshot.nodes[name].revision == revision:
                return bid
            else:
                heapq.heappop(heap)
                self._look(name, snapshot.nodes[name])
        return None

    def _closed(self) -> Iterator[Reasons]:
        """Yields the inter-pod reasons of nodes that pass all other filters."""
        if self.company is not None:
            for name in self._bids:
                yield (self.company.obstacle(self._known[name][4].labels),)

    def _not_named(self, snapshot: Snapshot) -> list[Reasons]:
        """Returns a reason for each node that is not evaluated because the pod requires other nodes by name."""
        if self._shape.pinned is None:
            return []
        return [NOT_NAMED] * (sum(node.present for node in snapshot.nodes.values()) - len(self._known))

    def _look_at(self, snapshot: Snapshot, names: set[str] | None) -> None:
        """Evaluates the nodes; None for all."""
        only = self._shape.pinned
        if only is not None:
            names = set(only) if names is None else names & only
        for name in {*snapshot.nodes, *self._known} if names is None else names:
            self._look(name, snapshot.nodes.get(name))
        self._places.tidy()

    def _look(self, name: str, node: Node | None) -> None:
        self._bids.pop(name, None)
        self._refused.pop(name, None)
        known = self._known.get(name)
        if node is None or not node.present:
            if known is not None:
                self._places.leave(name, known[4])
                del self._known[name]
            return
        shape = self._shape
        if known is None or known[0] != node.described:
            if known is not None:
                self._places.leave(name, known[4])
            place = self._places.enter(name, node.labels)
            known = (node.described, banned(shape, node), attraction(shape, node), self._dice(name), place)
            self._known[name] = known
        _, ban, liked, throw, place = known
        why = ban or crowded(shape, node) or (self.ties.reasons(node) if self.ties is not None else ())
        if why:
            self._refused[name] = why
            return
        bid = self._bids[name] = (-(liked + headroom(shape, node)), throw, name, node.revision)
        self._places.offer(place, bid)
