"""Nodes just in time: what a plan costs beside Karpenter's rule and beside the least it could, and how fast it is.

For the cost, pods are asked for by size alone, of one NodePool that buys on demand in one zone; three mixes, of each
some and many, from three catalogues. The bound and the best whole-numbered packing are `provision_judge`'s.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from bench.measure import SHOAL, Row
from bench.plan import BenchSizes
from bench.provision_judge import judge, patterns
from bench.provision_loads import MIXES, Shape, on_demand_in_one_zone, pods, question
from bench.servers import BenchmarkFailed
from shoal.fit.requirements import from_expressions, from_labels
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.simulation.model import Results
from shoal.provision.simulation.simulate import simulate
from shoal.provision.simulator.catalogues import CATALOGUES
from shoal.provision.solver.optimize import improve
from shoal.provision.solver.process import SECONDS

BOUND_GOAL, INTEGER_GOAL, RULE_GOAL = 1.03, 1.06, 1.0
SPEED_GOALS = {5_000: 1_500.0, 20_000: 1_000.0}
MEMORY_GOAL = 1_000.0
TYPES = 400
JUDGED = ("kwok36", "kwok<32")
"""The catalogues that count for the goals; another one is measured beside them."""


@dataclass(frozen=True, slots=True)
class Cell:
    title: str
    catalogue: str
    rule: float
    ours: float
    bound: float
    integer: float
    seconds: float


def run(sizes: BenchSizes, directory: Path, say: Callable[[str], None]) -> list[Row]:
    cells = []
    for catalogue in sizes.catalogues:
        for mix in MIXES:
            for count in sizes.provisioned:
                say(f"provision: {count:,} pods, {mix}, {catalogue}")
                cells.append(cell(mix, count, catalogue, sizes.bound_seconds, sizes.mip_seconds))
    return [*costs(cells), *speeds(sizes, say)]


def cell(mix: str, count: int, catalogue: str, bound_seconds: float, mip_seconds: float) -> Cell:
    shapes, types = MIXES[mix](count), CATALOGUES[catalogue]()
    wanted = on_demand_in_one_zone(types)
    asked = question(pods(shapes), types, wanted)
    rule = simulate(asked)
    # Of the CPU, so that a busy machine does not make plans dearer.
    began = time.process_time()
    ours, _ = improve(asked, rule, stop=lambda: time.process_time() >= began + SECONDS)
    seconds = time.process_time() - began
    for plan in (rule, ours):
        if plan.failures or sum(len(claim.pods) for claim in plan.new_node_claims) != count:
            raise BenchmarkFailed(f"{mix} of {count} from {catalogue}: not all pods have a node")
    judged = judge(shapes, types, _prices(types, wanted))
    known = [patterns(_nodes(plan, types), shapes) for plan in (rule, ours)]
    for each in known:
        judged.know(each)
    bound = judged.find_bound(bound_seconds)
    integer = judged.search(min(known, key=judged.price), mip_seconds)
    return Cell(f"{count:,} pods, {mix}, {catalogue}", catalogue, rule.cost, ours.cost, bound, integer, seconds)


def _prices(types: Sequence[InstanceType], wanted: list[dict[str, object]]) -> list[float]:
    """Of the offering that the NodePool would take."""
    requirements = from_expressions(wanted)
    return [
        min(each.price for each in kind.offerings if from_labels(each.labels).intersects(requirements))
        for kind in types
    ]


def _nodes(plan: Results, types: Sequence[InstanceType]) -> list[tuple[int, list[Shape]]]:
    numbers = {kind.name: number for number, kind in enumerate(types)}
    return [(numbers[claim.types[0]], [_shape(pod) for pod in claim.pods]) for claim in plan.new_node_claims]


def _shape(pod: dict[str, object]) -> Shape:
    asked = pod["spec"]["containers"][0]["resources"]["requests"]  # type: ignore[index]
    return asked["cpu"], asked["memory"]


def costs(cells: Sequence[Cell]) -> list[Row]:
    rows = [_cost_row(each) for each in cells]
    counted = [each for each in cells if each.catalogue in JUDGED] or cells
    rule, ours = ([getattr(each, whose) / each.bound for each in counted] for whose in ("rule", "ours"))
    integers, against = [each.ours / each.integer for each in counted], [each.ours / each.rule for each in cells]
    few = f"of {len(counted)}"
    return [
        *rows,
        _row(f"Karpenter's rule / LP bound, median {few}", "x", statistics.median(rule), 0),
        _row(f"Karpenter's rule / LP bound, worst {few}", "x", max(rule), 0),
        _row(f"plan / LP bound, median {few}", "x", statistics.median(ours), BOUND_GOAL),
        _row(f"plan / LP bound, worst {few}", "x", max(ours), 0),
        _row(f"plan / best integer packing, worst {few}", "x", max(integers), INTEGER_GOAL),
        _row(f"plan / Karpenter's rule, worst of {len(cells)}", "x", max(against), RULE_GOAL),
        _row("improving one plan, longest", "CPU-s", max(each.seconds for each in cells), 0),
    ]


def _cost_row(each: Cell) -> Row:
    figures = {
        "value": each.ours / each.bound,
        "rule": each.rule / each.bound,
        "integer": each.ours / each.integer,
        "price": each.ours,
        "seconds": each.seconds,
    }
    return Row(each.title, "provision", 0, {SHOAL: figures})


def speeds(sizes: BenchSizes, say: Callable[[str], None]) -> list[Row]:
    rows = []
    for count in sizes.scheduled:
        for planner in ("karpenter", "optimal"):
            say(f"provision: {count:,} diverse pods, {TYPES} types, planner {planner}")
            found = speed(count, sizes.scheduled_types, planner)
            if found["failures"]:
                raise BenchmarkFailed(f"{found['failures']:,.0f} of {count:,} pods got no node")
            title = f"{count:,} diverse pods, {sizes.scheduled_types} types, planner {planner}"
            goal = SPEED_GOALS.get(count, 0) if planner == "karpenter" else 0
            rows.append(_row(title, "pods/s", count / found["seconds"], goal, at_least=True))
            rows.append(
                _row(f"and memory of its process ({found['nodes']:,.0f} nodes)", "MB", found["megabytes"], MEMORY_GOAL)
            )
    return rows


def speed(count: int, types: int, planner: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.provision_speed", str(count), str(types), planner]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise BenchmarkFailed(f"{' '.join(command[1:])}: {done.stderr.decode()[-2000:]}")
    found: dict[str, float] = orjson.loads(done.stdout)
    return found


def _row(title: str, unit: str, value: float, goal: float, *, at_least: bool = False) -> Row:
    return Row(title, "clusters", goal, {SHOAL: {"value": value, "unit": unit, "at_least": at_least}})
