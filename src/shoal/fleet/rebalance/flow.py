"""Minimum-cost flow from a source to a sink, as much as reduces the cost; used to find the fewest moves. Pure.

Successive shortest paths: the cheapest path in the residual graph is augmented until none has a negative cost. Costs
may be negative as long as there is no negative cycle.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class _Edge:
    to: int
    left: int
    cost: int
    back: int
    """Index of the reverse edge among the edges of `to`."""


class Flow:
    def __init__(self, nodes: int) -> None:
        self._edges: list[list[_Edge]] = [[] for _ in range(nodes)]

    def add(self, start: int, end: int, capacity: int, cost: int = 0) -> tuple[int, int]:
        """Adds an edge and returns its id for `flow_on`."""
        there, back = self._edges[start], self._edges[end]
        there.append(_Edge(end, capacity, cost, len(back)))
        back.append(_Edge(start, 0, -cost, len(there) - 1))
        return start, len(there) - 1

    def used(self, name: tuple[int, int]) -> int:
        edge = self._edges[name[0]][name[1]]
        return self._edges[edge.to][edge.back].left

    def run(self, source: int, sink: int) -> None:
        while self._push(source, sink):
            pass

    def _push(self, source: int, sink: int) -> bool:
        far, came = self._paths(source)
        if sink not in came or far[sink] >= 0:
            return False
        path, node = [], sink
        while node != source:
            path.append(came[node])
            node = came[node][0]
        amount = min(self._edges[start][index].left for start, index in path)
        for start, index in path:
            edge = self._edges[start][index]
            edge.left -= amount
            self._edges[edge.to][edge.back].left += amount
        return True

    def _paths(self, source: int) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
        far, came = {source: 0}, {}
        waiting, queued = deque([source]), {source}
        while waiting:
            node = waiting.popleft()
            queued.discard(node)
            for index, edge in enumerate(self._edges[node]):
                if edge.left and far[node] + edge.cost < far.get(edge.to, 1 << 60):
                    far[edge.to] = far[node] + edge.cost
                    came[edge.to] = node, index
                    if edge.to not in queued:
                        queued.add(edge.to)
                        waiting.append(edge.to)
        return far, came
