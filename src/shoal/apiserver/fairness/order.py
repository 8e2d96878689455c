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

FIRST_COST = 0.0005
"""Assumed cost of a request before one of its flow was measured."""
MOST_REMEMBERED = 1024
"""Idle children of one node that are kept."""


class Node(Generic[T]):
    """A node of one tier. It holds queued items or the nodes of the next tier."""

    __slots__ = ("children", "cost", "had", "key", "now", "queued", "ready", "waiting", "weight")

    def __init__(self, key: Hashable, weight: float = 1.0) -> None:
        self.key, self.weight = key, weight
        self.had = 0.0
        """Virtual time of this node among its siblings."""
        self.now = 0.0
        """Virtual time of its children."""
        self.cost = FIRST_COST
        self.children: OrderedDict[Hashable, Node[T]] = OrderedDict()
        self.ready: list[tuple[float, int, Node[T]]] = []
        """Heap of children with queued items, by virtual time."""
        self.waiting: deque[T] = deque()
        self.queued = False
        """True while the node is in its parent's heap."""

    def child(self, key: Hashable, weight: float) -> Node[T]:
        found = self.children.get(key)
        if found is None:
            found = self.children[key] = Node(key, weight)
            if len(self.children) > MOST_REMEMBERED:
                self._forget_one()
        found.weight = weight
        return found

    def _forget_one(self) -> None:
        for key, child in self.children.items():
            if not child.queued:
                del self.children[key]
                return


class Order(Generic[T]):
    def __init__(self) -> None:
        self._root: Node[T] = Node("")
        self._counted = 0
        self.size = 0

    def push(self, path: tuple[tuple[Hashable, float], ...], item: T) -> Node[T]:
        """Appends an item. `path` gives key and weight in every tier. Returns the flow's node, whose `cost` the caller
        updates once the real cost is known.
        """
        node, parents = self._root, []
        for key, weight in path:
            child = node.child(key, weight)
            parents.append((node, child))
            node = child
        node.waiting.append(item)
        self.size += 1
        for parent, child in reversed(parents):
            if not child.queued:
                child.had = max(child.had, parent.now)
                self._ready(parent, child)
        return node

    def pop(self, may_go: Callable[[Hashable], bool] = lambda key: True) -> tuple[T, Node[T]] | None:
        """Returns the next item among the second-tier nodes that are eligible, or None."""
        found = self._pop(self._root, 0, may_go)
        if found is not None:
            self.size -= 1
        return found

    def items(self) -> Iterator[T]:
        """Yields all queued items."""
        nodes = [self._root]
        while nodes:
            node = nodes.pop()
            yield from node.waiting
            nodes += [entry[2] for entry in node.ready]

    def _pop(self, node: Node[T], tier: int, may_go: Callable[[Hashable], bool]) -> tuple[T, Node[T]] | None:
        if node.waiting:
            return node.waiting.popleft(), node
        passed: list[tuple[float, int, Node[T]]] = []
        found = None
        while node.ready and found is None:
            entry = heapq.heappop(node.ready)
            child = entry[2]
            found = self._pop(child, tier + 1, may_go) if tier != 1 or may_go(child.key) else None
            if found is None:
                passed.append(entry)
                continue
            node.now = max(node.now, child.had)
            child.had += found[1].cost / child.weight
            child.queued = False
            if child.waiting or child.ready:
                self._ready(node, child)
        for entry in passed:
            heapq.heappush(node.ready, entry)
        return found

    def _ready(self, parent: Node[T], child: Node[T]) -> None:
        child.queued = True
        self._counted += 1
        heapq.heappush(parent.ready, (child.had, self._counted, child))
