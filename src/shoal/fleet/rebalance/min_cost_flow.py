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
    residual: int
    cost: int
    reverse_index: int
    """Index of the reverse edge among the edges of `to`."""


class MinCostFlow:
    def __init__(self, nodes: int) -> None:
        self._edges: list[list[_Edge]] = [[] for _ in range(nodes)]

    def add_edge(self, start: int, end: int, capacity: int, cost: int = 0) -> tuple[int, int]:
        """Adds an edge and returns its id for `flow_on`."""
        forward, backward = self._edges[start], self._edges[end]
        forward.append(_Edge(end, capacity, cost, len(backward)))
        backward.append(_Edge(start, 0, -cost, len(forward) - 1))
        return start, len(forward) - 1

    def flow_on(self, edge_id: tuple[int, int]) -> int:
        edge = self._edges[edge_id[0]][edge_id[1]]
        return self._edges[edge.to][edge.reverse_index].residual

    def run(self, source: int, sink: int) -> None:
        while self._augment(source, sink):
            pass

    def _augment(self, source: int, sink: int) -> bool:
        distances, predecessors = self._shortest_paths(source)
        if sink not in predecessors or distances[sink] >= 0:
            return False
        path, node = [], sink
        while node != source:
            path.append(predecessors[node])
            node = predecessors[node][0]
        amount = min(self._edges[start][index].residual for start, index in path)
        for start, index in path:
            edge = self._edges[start][index]
            edge.residual -= amount
            self._edges[edge.to][edge.reverse_index].residual += amount
        return True

    def _shortest_paths(self, source: int) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
        distances, predecessors = {source: 0}, {}
        pending, queued = deque([source]), {source}
        while pending:
            node = pending.popleft()
            queued.discard(node)
            for index, edge in enumerate(self._edges[node]):
                if edge.residual and distances[node] + edge.cost < distances.get(edge.to, 1 << 60):
                    distances[edge.to] = distances[node] + edge.cost
                    predecessors[edge.to] = node, index
                    if edge.to not in queued:
                        queued.add(edge.to)
                        pending.append(edge.to)
        return distances, predecessors
