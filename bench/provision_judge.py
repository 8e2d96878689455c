"""What a packing has to cost at least, and the best one that a long search finds: the measure of plans, not a planner.

It shares nothing with the solver that it judges but the program for linear programs. The bound is the configuration
LP's: nodes that are worth more than they cost are added until there are none, each found by an integer program; the
bound that integer programs prove for these makes it valid at any time (Farley).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import highspy
import numpy as np

from bench.provision_loads import Shape
from shoal.fit.resources import parse_amounts
from shoal.provision.cloudprovider.types import InstanceType

RESOURCES = ("cpu", "memory", "pods")
CLOSE = 2e-4
"""So near to the linear program's value the bound is good enough."""
GAP = 1e-4
"""Of one node's value, that is not looked for."""
Pattern = tuple[int, tuple[int, ...]]
"""Which type, and how many of each shape."""


@dataclass(slots=True)
class PackingBound:
    shapes: list[tuple[int, ...]]
    counts: list[int]
    rooms: list[tuple[int, ...]]
    prices: list[float]
    bound: float = 0.0
    _patterns: dict[Pattern, None] = field(default_factory=dict)

    def price(self, patterns: Iterable[Pattern]) -> float:
        return sum(self.prices[kind] for kind, _ in patterns)

    def know(self, patterns: Iterable[Pattern]) -> None:
        """Nodes that somebody thought of."""
        self._patterns |= dict.fromkeys(patterns)

    def find_bound(self, seconds: float) -> float:
        deadline = time.process_time() + seconds
        self.know(self._single(shape) for shape in range(len(self.shapes)))
        while True:
            value, duals = self._master()
            best, found = 0.0, []
            for kind in range(len(self.prices)):
                most, pattern = self._worth(kind, duals)
                best = max(best, most / self.prices[kind])
                if float(np.dot(duals, pattern)) > self.prices[kind] * (1 + GAP):
                    found.append((kind, pattern))
            # Values that no node is worth more than its price with are a solution of the dual.
            self.bound = max(self.bound, value / max(best, 1.0))
            if not found or self.bound >= value * (1 - CLOSE) or time.process_time() > deadline:
                return self.bound
            self.know(found)

    def search(self, start: Sequence[Pattern], seconds: float) -> float:
        """The price of the best whole numbers of known nodes, from a packing that is known."""
        self.know(start)
        patterns = list(self._patterns)
        model = self._model(patterns)
        model.changeColsIntegrality(
            len(patterns),
            np.arange(len(patterns), dtype=np.int32),
            np.array([highspy.HighsVarType.kInteger] * len(patterns)),
        )
        model.setOptionValue("time_limit", float(seconds))
        model.setOptionValue("mip_rel_gap", 0.0)
        times = Counter(start)
        given = highspy.HighsSolution()
        given.col_value = [float(times.get(each, 0)) for each in patterns]
        model.setSolution(given)
        model.run()
        info = model.getInfo()
        known = self.price(start)
        return min(known, float(info.objective_function_value)) if info.primal_solution_status == 2 else known

    def alone(self) -> list[Pattern]:
        """Every pod on a node of its own."""
        return [self._single(shape) for shape, many in enumerate(self.counts) for _ in range(many)]

    def _single(self, shape: int) -> Pattern:
        """The cheapest node that one pod of the shape fits on."""
        fits = [
            kind
            for kind, room in enumerate(self.rooms)
            if all(one <= all_ for one, all_ in zip(self.shapes[shape], room, strict=True))
        ]
        kind = min(fits, key=lambda each: self.prices[each])
        return kind, tuple(int(number == shape) for number in range(len(self.shapes)))

    def _master(self) -> tuple[float, np.ndarray[Any, np.dtype[np.float64]]]:
        model = self._model(list(self._patterns))
        model.run()
        return float(model.getInfo().objective_function_value), np.asarray(model.getSolution().row_dual, np.float64)

    def _model(self, patterns: Sequence[Pattern]) -> highspy.Highs:
        """Every shape is held often enough, by nodes of these patterns."""
        model = _quiet()
        size, infinity = len(self.counts), highspy.kHighsInf
        model.addRows(
            size,
            np.asarray(self.counts, np.float64),
            np.full(size, infinity),
            0,
            np.array([], np.int32),
            np.array([]),
            np.array([]),
        )
        starts, indices, values = [0], [], []
        for _, contents in patterns:
            held = [(shape, amount) for shape, amount in enumerate(contents) if amount]
            indices += [shape for shape, _ in held]
            values += [float(amount) for _, amount in held]
            starts.append(len(indices))
        model.addCols(
            len(patterns),
            np.asarray([self.prices[kind] for kind, _ in patterns], np.float64),
            np.zeros(len(patterns)),
            np.full(len(patterns), infinity),
            len(indices),
            np.asarray(starts[:-1], np.int32),
            np.asarray(indices, np.int32),
            np.asarray(values, np.float64),
        )
        return model

    def _worth(self, kind: int, duals: Any) -> tuple[float, tuple[int, ...]]:
        """What a node of the type may be worth at most, and a good one."""
        model = _quiet()
        model.setOptionValue("mip_rel_gap", GAP)
        size = len(self.counts)
        model.addRows(
            len(RESOURCES),
            np.full(len(RESOURCES), -highspy.kHighsInf),
            np.asarray(self.rooms[kind], np.float64),
            0,
            np.array([], np.int32),
            np.array([]),
            np.array([]),
        )
        rows = len(RESOURCES)
        model.addCols(
            size,
            -np.maximum(duals, 0.0),
            np.zeros(size),
            np.asarray(self.counts, np.float64),
            size * rows,
            np.arange(0, size * rows, rows, dtype=np.int32),
            np.tile(np.arange(rows, dtype=np.int32), size),
            np.asarray([amount for shape in self.shapes for amount in shape], np.float64),
        )
        model.changeColsIntegrality(
            size, np.arange(size, dtype=np.int32), np.array([highspy.HighsVarType.kInteger] * size)
        )
        model.run()
        found = tuple(round(value) for value in model.getSolution().col_value)
        return -float(model.getInfo().mip_dual_bound), found


def judge(asked: Sequence[Shape], types: Sequence[InstanceType], prices: Sequence[float]) -> PackingBound:
    """Memory is counted in KiB: an integer program keeps its numbers small."""
    counted = Counter(asked)
    shapes = sorted(counted)
    return PackingBound(
        [
            _resource_vector(parse_amounts({"cpu": cpu, "memory": memory, "pods": "1"}), up=True)
            for cpu, memory in shapes
        ],
        [counted[shape] for shape in shapes],
        [_resource_vector(kind.allocatable, up=False) for kind in types],
        list(prices),
    )


def _resource_vector(has: dict[str, int], *, up: bool) -> tuple[int, ...]:
    kibibytes = -(-has["memory"] // 1024) if up else has["memory"] // 1024
    return has["cpu"], kibibytes, has["pods"]


def patterns(claims: Iterable[tuple[int, Sequence[Shape]]], asked: Sequence[Shape]) -> list[Pattern]:
    """Of nodes by type and the pods on each."""
    order = sorted(set(asked))
    found = []
    for kind, held in claims:
        times = Counter(held)
        found.append((kind, tuple(times.get(shape, 0) for shape in order)))
    return found


def _quiet() -> highspy.Highs:
    model = highspy.Highs()  # type: ignore[no-untyped-call]
    model.setOptionValue("output_flag", False)
    model.setOptionValue("threads", 1)
    return model
