"""Very many hosted clusters: created, idle, first request, woken, used, idle again, deleted.

One `shoal up` whose clusters become idle early. There is no peer, because no other system creates a cluster by one
POST.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from bench.connection import LoadConnection
from bench.load import Figures, Job, Meter, connect, drive
from bench.measure import SHOAL, Row, generate
from bench.plan import BenchSizes
from bench.servers import BenchmarkFailed, BenchServer, Shoal

LOGICAL = "/apis/core.shoal.dev/v1alpha1/logicalclusters"
CONNECTIONS = 32
NEW = 100
"""Clusters that are asked right after they were made."""
LONGEST = 300.0
WORK = (
    "/api",
    "/apis",
    "/api/v1/namespaces",
    "/api/v1/serviceaccounts",
    "/api/v1/pods",
    "/apis/apps/v1/deployments",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
)
"""What a person's first minutes with kubectl ask for."""


class SleepyServer(Shoal):
    def __init__(self, directory: Path, clusters: int) -> None:
        """A cluster is idle if it was not requested for longer than it takes to request all of them."""
        super().__init__(directory)
        self.command = (*self.command, "--idle-seconds", str(max(2, clusters / 100)))


def cluster_name(number: int) -> str:
    return f"hosted-{number:06d}"


# --- the load generator's part ---


async def create(job: Job) -> Figures:
    """`count` clusters of profile `cluster`."""
    return await _each(job, (_create_request(job, cluster_name(number)) for number in range(job.count)))


async def first(job: Job) -> Figures:
    """The first answer of each of `count` new clusters, every one made before the clock starts."""
    (connection,) = await connect(job, LoadConnection, 1)
    figures = Figures()
    with Meter(job, figures):
        for number in range(job.count):
            name = f"new-{number:06d}"
            await drive(
                [connection],
                lambda _, name=name: _single_request_source(_create_request(job, name)),  # type: ignore[misc]
                Figures(),
            )
            asked = job.head("GET", f"/clusters/{name}/api/v1/namespaces/default")
            await drive([connection], lambda _, asked=asked: _single_request_source(asked), figures)  # type: ignore[misc]
    return figures


async def work(job: Job) -> Figures:
    """Some reads and one written object in every cluster."""
    return await _each(job, _work_requests(job))


async def delete(job: Job) -> Figures:
    return await _each(job, (job.head("DELETE", f"{LOGICAL}/{cluster_name(number)}") for number in range(job.count)))


async def _each(job: Job, requests: Iterator[bytes]) -> Figures:
    connections = await connect(job, LoadConnection, job.connections)
    figures = Figures()
    with Meter(job, figures):
        await drive(connections, lambda _: lambda: next(requests, None), figures)
    return figures


def _single_request_source(request: bytes) -> Callable[[], bytes | None]:
    requests = iter([request])
    return lambda: next(requests, None)


def _work_requests(job: Job) -> Iterator[bytes]:
    written = orjson.dumps({"metadata": {"name": "settings"}, "data": {"color": "blue"}})
    for number in range(job.count):
        below = f"/clusters/{cluster_name(number)}"
        yield from (job.head("GET", below + path) for path in WORK)
        yield job.head("POST", f"{below}/api/v1/namespaces/default/configmaps", len(written)) + written


def _create_request(job: Job, name: str) -> bytes:
    body = orjson.dumps(
        {
            "apiVersion": "core.shoal.dev/v1alpha1",
            "kind": "LogicalCluster",
            "metadata": {"name": name},
            "spec": {"profile": "cluster"},
        }
    )
    return job.head("POST", LOGICAL, len(body)) + body


LOADS = {"create-clusters": create, "first-requests": first, "work-in-clusters": work, "delete-clusters": delete}


# --- what is measured ---


def run(sizes: BenchSizes, directory: Path, say: Callable[[str], None]) -> list[Row]:
    count, title = sizes.clusters, f"{sizes.clusters:,} hosted clusters"
    few, many = {"count": min(NEW, count)}, {"connections": CONNECTIONS, "count": count}
    with SleepyServer(directory / "clusters", count) as server:
        server.start()
        # What the first cluster of all loads for all others is not the cost of one.
        generate(server, "", {"verb": "first-requests", **few})
        before = _resident(server, sizes)
        say(f"clusters: creating {count:,}")
        made = generate(server, "", {"verb": "create-clusters", **many})
        idle = _resident(server, sizes) - before
        say("clusters: sending requests to each")
        worked = generate(server, "", {"verb": "work-in-clusters", **many})
        awake = _resident(server, sizes) - before
        say("clusters: waiting until idle")
        _until(lambda: _idle_count(server) >= count, "the clusters do not become idle")
        asleep = _resident(server, sizes) - before
        for number in range(few["count"]):
            server.must("DELETE", f"{LOGICAL}/new-{number:06d}")
        _until(lambda: _remaining_count(server) == count, "the new clusters were not deleted")
        say("clusters: first request of new clusters, beside all others")
        new = generate(server, "", {"verb": "first-requests", **few})
        say("clusters: deleting all")
        began = time.perf_counter()
        generate(server, "", {"verb": "delete-clusters", **many})
        _until(lambda: _remaining_count(server) == few["count"], "clusters were not deleted")
        gone = time.perf_counter() - began
    each = 1024 / count
    return [
        _row(f"{title} created", "per second", made["operations"] / made["seconds"], 100, at_least=True),
        _row("memory of one without requests", "KB", idle * each, 100),
        _row("memory of one that had requests and is idle", "KB", asleep * each, 100),
        _row("memory of one with requests", "KB", awake * each, 0),
        _row("requests in all of them", "per second", worked["operations"] / worked["seconds"], 0),
        _row("first request of a new one, median", "ms", new["p50_ms"], 50),
        _row("first request of a new one, 99th percentile", "ms", new["p99_ms"], 50),
        _row(f"{title} deleted", "s", gone, 60),
    ]


def _row(title: str, unit: str, value: float, goal: float, *, at_least: bool = False) -> Row:
    return Row(title, "clusters", goal, {SHOAL: {"value": value, "unit": unit, "at_least": at_least}})


def _resident(server: BenchServer, sizes: BenchSizes) -> float:
    time.sleep(sizes.settle)
    return sum(server.resident().values())


def _remaining_count(server: BenchServer) -> int:
    return len(server.must("GET", LOGICAL)["items"]) - 1


def _idle_count(server: BenchServer) -> int:
    line = b'shoal_logical_clusters{state="asleep"} '
    text = server.must("GET", "/metrics")
    return next(int(float(found[len(line) :])) for found in text.splitlines() if found.startswith(line))


def _until(look: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + LONGEST
    while not look():
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"{otherwise}, after {LONGEST:.0f} s")
        time.sleep(0.1)
