"""Pods that come one by one: what their nodes cost beside the bound, and how long a pod waits for a decision.

One `shoal up` with a worker inside and a ManagedCluster of no nodes with the machine sizes of `provision_story`. Pods
are created at equal intervals, as a script that applies them would. Each count has a cluster of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measure import SHOAL, Row
from bench.plan import BenchSizes
from bench.provision_loads import Shape
from bench.provision_story import ALIKE, MIXED, PODS, Fleet, Parts, Up, prepare_cluster
from bench.servers import BenchmarkFailed

Object = dict[str, Any]

SECONDS = 5.0
"""In which all pods of a load are created."""
COST_GOAL, WAIT_GOAL = 1.05, 2.0
LONGEST = 120.0


def run(sizes: BenchSizes, directory: Path, say: Callable[[str], None]) -> list[Row]:
    rows = []
    for count in sizes.trickled:
        for title, parts in (("alike", ALIKE), ("of three sizes", MIXED)):
            say(f"provision: {count} pods {title}, one by one within {SECONDS:g} s")
            with Up(directory / f"trickle-{count}-{len(parts)}") as server:
                server.start()
                fleet = prepare_cluster(server, parts)
                time.sleep(sizes.settle)
                rows += measure(fleet, count, f"{count} pods {title}, one by one within {SECONDS:g} s")
    return rows


def measure(fleet: Fleet, count: int, title: str) -> list[Row]:
    created: dict[str, float] = {}
    bound: dict[str, float] = {}
    decided: dict[str, float] = {}
    events = fleet.inside.watch("/api/v1/namespaces/default/events"), fleet.inside.watch(PODS)

    def read_events() -> None:
        for event in events[0]:
            if event["object"]["reason"] == "Nominated":
                decided.setdefault(event["object"]["involvedObject"]["name"], time.monotonic())

    def read_pods() -> None:
        for event in events[1]:
            if (event["object"].get("status") or {}).get("phase") == "Running":
                bound.setdefault(event["object"]["metadata"]["name"], time.monotonic())

    for read in (read_events, read_pods):
        threading.Thread(target=read, daemon=True).start()
    began = time.monotonic()
    for number, shape in enumerate(_in_turn(fleet.parts, fleet.counts(count))):
        time.sleep(max(0.0, began + number * SECONDS / count - time.monotonic()))
        name = f"pod-{number:04}"
        created[name] = time.monotonic()
        fleet.inside.ask("POST", PODS, _pod(name, shape))
    while len(bound) < count:
        if time.monotonic() > began + LONGEST:
            raise BenchmarkFailed(f"{len(bound)} of {count} pods run after {LONGEST:g} s")
        time.sleep(0.05)
    first = min(created, key=lambda name: created[name])
    nodes, waits = len(fleet.claims()), [bound[name] - created[name] for name in created]
    return [
        _row(f"{title}: cost of the nodes ({nodes}) / best packing", "x", fleet.above_best(count), COST_GOAL),
        _row("and / LP bound", "x", fleet.above_bound(count), 0),
        _row("the first pod has a NodeClaim after", "s", decided.get(first, bound[first]) - created[first], WAIT_GOAL),
        _row("the first pod runs after", "s", bound[first] - created[first], 0),
        _row("the last of them runs after, at most", "s", max(waits), 0),
    ]


def _in_turn(parts: Parts, counts: dict[str, int]) -> list[Shape]:
    """Pods of all sizes in turn, in proportion."""
    places = [(place / number, parts[name][0]) for name, number in counts.items() for place in range(number)]
    return [shape for _, shape in sorted(places, key=lambda each: each[0])]


def _pod(name: str, shape: Shape) -> Object:
    cpu, memory = shape
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    spec = {"containers": [{"name": "main", "image": "example.com/app:1", "resources": resources}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _row(title: str, unit: str, value: float, goal: float) -> Row:
    return Row(title, "clusters", goal, {SHOAL: {"value": value, "unit": unit, "at_least": False}})
