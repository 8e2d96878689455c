"""Start-time fair queuing in three tiers: cluster, priority level and flow. Pure.

Every node has a virtual time that advances by cost divided by weight. The node that is furthest behind is served next.
A node that becomes active again starts at the virtual time of its siblings, so an idle node saves up nothing.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

INITIAL_COST_SECONDS = 0.0005
"""Assumed cost of a request before one of its flow was measured."""
MAX_IDLE_CHILDREN = 1024
"""Idle children of one node that are kept."""


class QueueNode(Generic[T]):
    """A node of one tier. It holds queued items or the nodes of the next tier."""

    __slots__ = (
        "children",
        "cost",
        "is_ready",
        "key",
        "queue",
        "ready_children",
        "virtual_start",
        "virtual_time",
        "weight",
    )

    def __init__(self, key: Hashable, weight: float = 1.0) -> None:
        self.key, self.weight = key, weight
        self.virtual_start = 0.0
        """Virtual time of this node among its siblings."""
        self.virtual_time = 0.0
        """Virtual time of its children."""
        self.cost = INITIAL_COST_SECONDS
        self.children: OrderedDict[Hashable, QueueNode[T]] = OrderedDict()
        self.ready_children: list[tuple[float, int, QueueNode[T]]] = []
        """Heap of children with queued items, by virtual time."""
        self.queue: deque[T] = deque()
        self.is_ready = False
        """True while the node is in its parent's heap."""

    def child(self, key: Hashable, weight: float) -> QueueNode[T]:
        child = self.children.get(key)
        if child is None:
            child = self.children[key] = QueueNode(key, weight)
            if len(self.children) > MAX_IDLE_CHILDREN:
                self._evict_idle_child()
        child.weight = weight
        return child

    def _evict_idle_child(self) -> None:
        for key, child in self.children.items():
            if not child.is_ready:
                del self.children[key]
                return


class FairQueue(Generic[T]):
    def __init__(self) -> None:
        self._root: QueueNode[T] = QueueNode("")
        self._sequence = 0
        self.size = 0

    def push(self, path: tuple[tuple[Hashable, float], ...], item: T) -> QueueNode[T]:
        """Appends an item. `path` gives key and weight in every tier. Returns the flow's node, whose `cost` the caller
        updates once the real cost is known.
        """
        node, parents = self._root, []
        for key, weight in path:
            child = node.child(key, weight)
            parents.append((node, child))
            node = child
        node.queue.append(item)
        self.size += 1
        for parent, child in reversed(parents):
            if not child.is_ready:
                child.virtual_start = max(child.virtual_start, parent.virtual_time)
                self._mark_ready(parent, child)
        return node

    def pop(self, is_eligible: Callable[[Hashable], bool] = lambda key: True) -> tuple[T, QueueNode[T]] | None:
        """Returns the next item among the second-tier nodes that are eligible, or None."""
        popped = self._pop_from(self._root, 0, is_eligible)
        if popped is not None:
            self.size -= 1
        return popped

    def charge(self, path: tuple[tuple[Hashable, float], ...], cost: float) -> None:
        """Counts service that a flow got elsewhere, from its next turn on. Nothing is counted while nobody waits: an
        idle node saves up nothing, and owes nothing either.
        """
        if not self.size:
            return
        node = self._root
        for key, weight in path:
            child = node.child(key, weight)
            child.virtual_start = max(child.virtual_start, node.virtual_time) + cost / weight
            node = child

    def items(self) -> Iterator[T]:
        """Yields all queued items."""
        nodes = [self._root]
        while nodes:
            node = nodes.pop()
            yield from node.queue
            nodes += [entry[2] for entry in node.ready_children]

    def _pop_from(
        self, node: QueueNode[T], tier: int, is_eligible: Callable[[Hashable], bool]
    ) -> tuple[T, QueueNode[T]] | None:
        if node.queue:
            return node.queue.popleft(), node
        skipped: list[tuple[float, int, QueueNode[T]]] = []
        popped = None
        while node.ready_children and popped is None:
            entry = heapq.heappop(node.ready_children)
            child = entry[2]
            popped = self._pop_from(child, tier + 1, is_eligible) if tier != 1 or is_eligible(child.key) else None
            if popped is None:
                skipped.append(entry)
                continue
            node.virtual_time = max(node.virtual_time, child.virtual_start)
            child.virtual_start += popped[1].cost / child.weight
            child.is_ready = False
            if child.queue or child.ready_children:
                self._mark_ready(node, child)
        for entry in skipped:
            heapq.heappush(node.ready_children, entry)
        return popped

    def _mark_ready(self, parent: QueueNode[T], child: QueueNode[T]) -> None:
        child.is_ready = True
        self._sequence += 1
        heapq.heappush(parent.ready_children, (child.virtual_start, self._sequence, child))
