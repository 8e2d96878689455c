"""A hub with very many Workers and ManagedClusters: bindings per second, the latency of an apply until it has a Worker,
memory.

One `shoal up` without workers; this program simulates them: their objects, their Leases at the real rate, and the watch
each has of its ManagedClusters. The hub is real; the hosted clusters do not exist. A binding counts when its Worker's
watch shows it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from bench.connection import LoadConnection, WatchConnection
from bench.load import Figures, Job, Meter, connect, drive
from bench.measure import SHOAL, Row, generate
from bench.plan import BenchSizes
from bench.servers import BenchmarkFailed, BenchServer, Shoal

Object = dict[str, Any]
GROUP = "infrastructure.cluster.x-k8s.io/v1alpha1"
SYSTEM, NAMESPACES, LOCATIONS = "shoal-system", 20, 4
MANAGED = f"/apis/{GROUP}/managedclusters"
WORKERS = f"/apis/{GROUP}/namespaces/{SYSTEM}/workers"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
HEARTBEAT_SECONDS = 10.0
CONNECTIONS, APPLYING, BEATING = 16, 64, 32
LONGEST = 1200.0
WAITING, APPLIED = "c", "a"
"""How the names begin of those that wait for Workers, and of those that come later."""

BINDINGS_GOAL, APPLY_GOAL_MS, MEMORY_GOAL_MB, RESTART_GOAL = 2000.0, 500.0, 1536.0, 15.0
APPLIES_PER_SECOND = 500.0


def cluster(number: int, prefix: str = WAITING) -> tuple[str, Object]:
    """Its collection's path and the object."""
    namespace = f"team-{number % NAMESPACES}"
    metadata = {"name": f"{prefix}{number:06d}", "namespace": namespace}
    spec = {"nodes": 1 + number % 3}
    obj = {"apiVersion": GROUP, "kind": "ManagedCluster", "metadata": metadata, "spec": spec}
    return f"/apis/{GROUP}/namespaces/{namespace}/managedclusters", obj


def worker_name(number: int) -> str:
    return f"w{number:04d}"


def worker(number: int, capacity: int) -> Object:
    spec = {"capacity": capacity, "location": f"region-{number % LOCATIONS}", "versions": ["v1.35", "v1.36"]}
    spec |= {"allocatable": {"nodes": 4 * capacity}, "cost": f"0.0{1 + number % 9}", "infrastructure": "external"}
    return {"apiVersion": GROUP, "kind": "Worker", "metadata": {"name": worker_name(number)}, "spec": spec}


def lease(number: int) -> Object:
    metadata = {"name": f"worker-{worker_name(number)}"}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {"holderIdentity": "bench", "renewTime": _now()},
    }


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() // 1000 % 1_000_000:06d}Z"


# --- the load generator's part ---


async def create_clusters(job: Job) -> Figures:
    return await _each(job, (_post(job, *cluster(number)) for number in range(job.count)))


async def create_workers(job: Job) -> Figures:
    return await _each(job, (_post(job, WORKERS, worker(number, job.updates)) for number in range(job.count)))


async def bind(job: Job) -> Figures:
    """Starts all Workers and waits until `count` ManagedClusters are bound. The time is from the first binding to the
    last.
    """
    seen = await _watch(job, WAITING)
    connections = await connect(job, LoadConnection, BEATING)
    figures = Figures()
    with Meter(job, figures):
        leases = (_post(job, LEASES, lease(number)) for number in range(job.watchers))
        await drive(connections, lambda _: lambda: next(leases, None), Figures())
        await _renew_leases(job, connections, seen.complete)
    seen.check()
    figures.operations, figures.seconds = len(seen.bound), max(0.001, seen.last - seen.first)
    return figures


async def apply(job: Job) -> Figures:
    """Applies at a steady rate. Measures the time from when each was due until the watch shows its Worker."""
    seen = await _watch(job, APPLIED)
    beats = await connect(job, LoadConnection, BEATING)
    free: asyncio.Queue[LoadConnection] = asyncio.Queue()
    for each in await connect(job, LoadConnection, APPLYING):
        free.put_nowait(each)
    due: dict[str, float] = {}
    figures = Figures()

    def answered(connection: LoadConnection) -> None:
        if connection.status >= 300:
            figures.record_failure(f"status {connection.status}")
        free.put_nowait(connection)

    async def send() -> None:
        began = time.perf_counter()
        for number in range(job.count):
            at = began + number / job.rate
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            connection = await free.get()
            path, obj = cluster(number, APPLIED)
            due[obj["metadata"]["name"]] = at
            connection.send(_post(job, path, obj), answered)

    with Meter(job, figures):
        async with asyncio.TaskGroup() as group:
            group.create_task(send())
            group.create_task(_renew_leases(job, beats, seen.complete))
    seen.check()
    figures.operations = len(seen.bound)
    figures.latencies = [seen.bound[name] - at for name, at in due.items()]
    return figures


class BoundClusters:
    """When a watch showed each of them with a Worker."""

    def __init__(self, number: int, prefix: str) -> None:
        self.bound: dict[str, float] = {}
        self.first = self.last = 0.0
        self._number, self._prefix = number, prefix
        self.complete = asyncio.Event()

    def check(self) -> None:
        if len(self.bound) != self._number:
            raise BenchmarkFailed(f"a watch ended after {len(self.bound)} of {self._number} bindings")

    def event(self, line: bytes) -> None:
        if b'"assignedWorker":' not in line:
            return
        name = orjson.loads(line)["object"]["metadata"]["name"]
        if name in self.bound or not name.startswith(self._prefix):
            return
        self.last = self.bound[name] = time.perf_counter()
        self.first = self.first or self.last
        if len(self.bound) == self._number:
            self.complete.set()


async def _watch(job: Job, prefix: str) -> BoundClusters:
    """As the workers do: each what is given to it."""
    seen = BoundClusters(job.count, prefix)
    query = f"watch=1&allowWatchBookmarks=true&resourceVersion={job.namespace}"
    for first in range(0, job.watchers, CONNECTIONS):  # a connection that asks nothing for long is closed
        some = await connect(job, lambda: WatchConnection(seen.event), min(CONNECTIONS, job.watchers - first))
        for at, connection in enumerate(some, first):
            selector = quote(f"status.assignedWorker={worker_name(at)}", safe="")
            connection.send(job.head("GET", f"{MANAGED}?{query}&fieldSelector={selector}"), lambda _: None)
            connection.on_lost = seen.complete.set
    return seen


async def _renew_leases(job: Job, connections: list[LoadConnection], until: asyncio.Event) -> None:
    """Renews the Lease of each Worker periodically, without waiting for each other, as real workers do."""
    free: asyncio.Queue[LoadConnection] = asyncio.Queue()
    for each in connections:
        free.put_nowait(each)
    number, began = 0, time.perf_counter()
    deadline = began + LONGEST
    while not until.is_set():
        if time.perf_counter() > deadline:
            raise BenchmarkFailed("not all ManagedClusters were bound")
        if time.perf_counter() - began < number * HEARTBEAT_SECONDS / job.watchers:
            await asyncio.sleep(0.002)
            continue
        (await free.get()).send(_renewal(job, number % job.watchers), free.put_nowait)
        number += 1


def _renewal(job: Job, number: int) -> bytes:
    body = orjson.dumps({"spec": {"renewTime": _now()}})
    head = job.head("PATCH", f"{LEASES}/worker-{worker_name(number)}", len(body))
    return head.replace(b"application/json\r\nContent-L", b"application/merge-patch+json\r\nContent-L") + body


async def _each(job: Job, requests: Iterator[bytes]) -> Figures:
    connections = await connect(job, LoadConnection, job.connections)
    figures = Figures()
    with Meter(job, figures):
        await drive(connections, lambda _: lambda: next(requests, None), figures)
    return figures


def _post(job: Job, path: str, obj: Object) -> bytes:
    body = orjson.dumps(obj)
    return job.head("POST", path, len(body)) + body


LOADS = {
    "create-fleet": create_clusters,
    "create-workers": create_workers,
    "bind-fleet": bind,
    "apply-fleet": apply,
}


# --- what is measured ---


def run(sizes: BenchSizes, directory: Path, say: Callable[[str], None]) -> list[Row]:
    workers, clusters, applies = sizes.fleet_workers, sizes.fleet_clusters, sizes.fleet_applies
    capacity = (clusters + applies) * 12 // (10 * workers) + 1
    with Shoal(directory / "fleet") as server:
        server.start()
        prepare(server, workers, clusters, capacity, say)
        say(f"fleet: {clusters:,} ManagedClusters are bound to {workers:,} Workers")
        bound = _job(server, "bind-fleet", clusters, workers)
        rate = bound["operations"] / bound["seconds"]
        say(f"fleet: {rate:,.0f} a second; {applies:,} more at {APPLIES_PER_SECOND:.0f} a second")
        applied = _job(server, "apply-fleet", applies, workers)
        time.sleep(sizes.settle)
        resident = sum(server.resident().values())
        say(f"fleet: p99 {applied['p99_ms']:.0f} ms, {resident:,.0f} MB; restart")
        server.stop()
        restarted = server.start()
        held = server.must("GET", f"{WORKERS}?limit=1")["metadata"].get("remainingItemCount", 0) + 1
        if held != workers:
            raise BenchmarkFailed(f"{held} of {workers} Workers remain after a restart")
    pace = f"{APPLIES_PER_SECOND:.0f} applies per second"
    return [
        _row(f"fleet of {workers:,} Workers: {clusters:,} bindings", "/s", rate, BINDINGS_GOAL, at_least=True),
        _row("a binding: CPU of the hub", "ms", 1000 * sum(bound["cpu"].values()) / clusters, 0),
        _row(f"from apply to bound at {pace}, p50", "ms", applied["p50_ms"], 0),
        _row(f"from apply to bound at {pace}, p99", "ms", applied["p99_ms"], APPLY_GOAL_MS),
        _row("the hub, resident", "MB", resident, MEMORY_GOAL_MB),
        _row("restart to serving", "s", restarted, RESTART_GOAL),
    ]


def prepare(server: BenchServer, workers: int, clusters: int, capacity: int, say: Callable[[str], None]) -> None:
    """Every object exists, and every ManagedCluster is pending."""
    for name in (SYSTEM, *(f"team-{number}" for number in range(NAMESPACES))):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        status, said = server.ask("POST", "/api/v1/namespaces", body)
        if status not in (201, 409):
            raise BenchmarkFailed(f"namespace {name}: {said}")
    say(f"fleet: {workers:,} Workers and {clusters:,} ManagedClusters are created")
    generate(server, "", {"verb": "create-fleet", "connections": CONNECTIONS, "count": clusters})
    job = {"verb": "create-workers", "connections": CONNECTIONS, "count": workers, "updates": capacity}
    generate(server, "", job)
    path, obj = cluster(clusters - 1)
    deadline = time.monotonic() + LONGEST
    while not server.must("GET", f"{path}/{obj['metadata']['name']}").get("status"):
        if time.monotonic() > deadline:
            raise BenchmarkFailed("ManagedClusters without a Worker were not reported")
        time.sleep(0.2)


def _job(server: BenchServer, verb: str, count: int, workers: int) -> Any:
    revision = server.must("GET", f"{MANAGED}?limit=1")["metadata"]["resourceVersion"]
    job = {"verb": verb, "count": count, "watchers": workers, "rate": APPLIES_PER_SECOND}
    return generate(server, revision, job)


def _row(title: str, unit: str, value: float, goal: float, at_least: bool = False) -> Row:
    return Row(title, "clusters", goal, {SHOAL: {"value": value, "unit": unit, "at_least": at_least}})
