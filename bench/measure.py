"""Carries a plan out: servers are started and filled, every load runs on each in turn, the median round counts."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from bench.load import Job
from bench.plan import MEMORY_GOAL, START_GOAL, BenchLoad, BenchSizes, etcd_loads, loads
from bench.servers import BenchmarkFailed, BenchServer
from bench.subject import DEFINITION_PATH, collection, definition

ROOT = Path(__file__).resolve().parent.parent
Figures = dict[str, Any]
SHOAL, PEER = "Shoal", "kube-apiserver"
Make = Callable[[Path], BenchServer]
"""A server in a directory; not yet started."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line: by server's name, the medians; a `goal` of 0 is none."""

    title: str
    kind: str
    """`load`, `etcd` (a load, with everybody's objects in etcd), `seconds`, `megabytes`, `story` (a step of it),
    `clusters` (a figure of hosted ones, with its unit), `scheduling` (pods that got a node), `replicas` (a step of
    one Deployment) or `provision` (what a plan costs)."""
    goal: float
    figures: dict[str, Figures] = field(default_factory=dict)


def run(
    keys: set[str], sizes: BenchSizes, makers: dict[str, Make], directory: Path, say: Callable[[str], None]
) -> list[Row]:
    """Start-up and memory first, one server at a time; then the loads, all servers running, one at a time asked."""
    rows: list[Row] = []
    if "start" in keys:
        say("start")
        rows += starts(sizes, makers, directory)
    if "memory" in keys:
        say("memory")
        rows += memory(sizes, makers, directory)
    wanted = [load for load in loads(sizes) if load.key in keys]
    if wanted:
        rows += _loads(wanted, sizes, makers, directory, say)
    return rows


def starts(sizes: BenchSizes, makers: dict[str, Make], directory: Path) -> list[Row]:
    first = Row("first start", "seconds", 0)
    again = Row("start on an existing data directory", "seconds", START_GOAL)
    for name, make in makers.items():
        with make(directory / f"start-{name}") as server:
            first.figures[name] = {"value": server.start()}
            times = [_restart(server) for _ in range(sizes.starts)]
            again.figures[name] = {"value": statistics.median(times), "all": times}
    return [first, again]


def _restart(server: BenchServer) -> float:
    server.stop()
    return server.start()


def memory(sizes: BenchSizes, makers: dict[str, Make], directory: Path) -> list[Row]:
    objects = f"{sizes.listed:,} objects"
    empty = Row("resident, empty", "megabytes", MEMORY_GOAL)
    full = Row(f"resident, {objects}", "megabytes", MEMORY_GOAL)
    restart = Row(f"start with {objects}", "seconds", 0)
    restarted = Row(f"resident, {objects}, after that start", "megabytes", MEMORY_GOAL)
    for name, make in makers.items():
        with make(directory / f"memory-{name}") as server:
            server.start()
            empty.figures[name] = _resident(server, sizes)
            define(server)
            fill(server, "bench-memory", sizes.listed)
            full.figures[name] = _resident(server, sizes)
            restart.figures[name] = {"value": _restart(server)}
            restarted.figures[name] = _resident(server, sizes)
    return [empty, full, restart, restarted]


def _resident(server: BenchServer, sizes: BenchSizes) -> Figures:
    time.sleep(sizes.settle)
    programs = server.resident()
    return {"value": sum(programs.values()), "alone": next(iter(programs.values())), "programs": programs}


def on_etcd(
    sizes: BenchSizes, ours: dict[str, Make], peers: dict[str, Make], directory: Path, say: Callable[[str], None]
) -> list[Row]:
    """One line for each of our ways to use etcd, beside the same figures of the peer. `ours` is by way."""
    found = _loads(etcd_loads(sizes), sizes, {**ours, **peers}, directory / "etcd", say)
    return [
        Row(f"{row.title}, {way}", "etcd", row.goal, {SHOAL: row.figures[way], **{p: row.figures[p] for p in peers}})
        for row in found
        for way in ours
    ]


def _loads(
    wanted: list[BenchLoad], sizes: BenchSizes, makers: dict[str, Make], directory: Path, say: Callable[[str], None]
) -> list[Row]:
    with ExitStack() as running:
        servers = {name: running.enter_context(make(directory / f"load-{name}")) for name, make in makers.items()}
        for server in servers.values():
            server.start()
            define(server)
        # What follows a start and a new definition, such as OpenAPI, is not the cost of requests.
        time.sleep(sizes.settle)
        return [_row(load, sizes, servers, say) for load in wanted]


def _row(load: BenchLoad, sizes: BenchSizes, servers: dict[str, BenchServer], say: Callable[[str], None]) -> Row:
    rounds: dict[str, list[Figures]] = {name: [] for name in servers}
    for server in servers.values():
        fill(server, load.namespace, load.prepare)
    for number, name in _turns(sizes.rounds, list(servers)):
        say(f"{load.title}: round {number + 1} of {sizes.rounds}, {name}")
        rounds[name].append(_per_second(generate(servers[name], load.namespace, load.job)))
        if load.tidy:
            generate(servers[name], load.namespace, load.tidy)
    return Row(load.title, "load", load.goal, {name: _median(found) for name, found in rounds.items()})


def _turns(rounds: int, names: list[str]) -> Iterator[tuple[int, str]]:
    """Who is measured next; the order is turned every round, so that none is always the first."""
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            yield number, name


def define(server: BenchServer) -> None:
    """The CustomResourceDefinition, served."""
    server.must("POST", DEFINITION_PATH, definition())
    for _ in range(1000):
        if server.ask("GET", collection("default"))[0] == 200:
            return
        time.sleep(0.02)
    raise BenchmarkFailed(f"{server.name} does not serve the CustomResourceDefinition")


def fill(server: BenchServer, namespace: str, count: int) -> None:
    """A namespace with so many objects, once."""
    found, _ = server.ask("GET", f"/api/v1/namespaces/{namespace}")
    if found == 200:
        return
    server.must(
        "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    )
    if count:
        generate(server, namespace, {"verb": "create", "connections": min(32, count), "count": count})
        held = len(server.must("GET", collection(namespace))["items"])
        if held != count:
            raise BenchmarkFailed(f"{server.name} lists {held} objects of {count}")


def generate(server: BenchServer, namespace: str, job: dict[str, Any]) -> Figures:
    """One run of the load generator; any answer that is no success ends the benchmark."""
    asked = Job(server.host, server.port, server.token, namespace=namespace, pids=server.pids(), **job)
    command = [sys.executable, "-m", "bench.generator"]
    ended = subprocess.run(command, input=orjson.dumps(asdict(asked)), capture_output=True, cwd=ROOT)
    if ended.returncode:
        raise BenchmarkFailed(f"the load generator failed on {server.name}: {ended.stderr.decode()[-2000:]}")
    figures: Figures = orjson.loads(ended.stdout)
    if figures["errors"]:
        raise BenchmarkFailed(
            f"{server.name}, {job['verb']}: {figures['errors']} in {figures['operations']} operations"
        )
    return figures


def _per_second(figures: Figures) -> Figures:
    operations, cpu = figures["operations"], figures["cpu"]
    tick = 0.01  # of /proc, and what an idle process is taken to have used
    return {
        "rate": operations / figures["seconds"],
        "p50_ms": figures["p50_ms"],
        "p99_ms": figures["p99_ms"],
        "bytes": figures["bytes"],
        "cpu_seconds": sum(cpu.values()),
        "per_cpu": operations / max(tick, sum(cpu.values())),
        "per_cpu_alone": operations / max(tick, next(iter(cpu.values()))),
        "client_share": figures["client_cpu"] / figures["seconds"],
        "operations": operations,
    }


def _median(rounds: list[Figures]) -> Figures:
    return {name: statistics.median(found[name] for found in rounds) for name in rounds[0]}
