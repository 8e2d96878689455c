"""Very many clusters by Cluster API: declared with their machines until all run, deleted until nothing is left.

One `shoal up`. There is no peer, because a machine is an object here and no other system has such cheap ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from bench.connection import LoadConnection
from bench.load import Figures, Job, Meter, connect, drive
from bench.measure import SHOAL, Row, generate
from bench.plan import BenchSizes
from bench.processes import cpu_seconds
from bench.servers import BenchmarkFailed, BenchServer, Shoal

Object = dict[str, Any]
GROUP, INFRASTRUCTURE = "cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"
CORE = f"/apis/{GROUP}/v1beta2/namespaces/default"
EMBEDDED = f"/apis/{INFRASTRUCTURE}/v1alpha1/namespaces/default"
PATHS = {
    "EmbeddedCluster": f"{EMBEDDED}/embeddedclusters",
    "EmbeddedMachineTemplate": f"{EMBEDDED}/embeddedmachinetemplates",
    "Cluster": f"{CORE}/clusters",
    "MachineDeployment": f"{CORE}/machinedeployments",
}
LEFT = (
    *PATHS.values(),
    *(f"{CORE}/machinesets", f"{CORE}/machines", f"{EMBEDDED}/embeddedmachines"),
    "/api/v1/namespaces/default/secrets",
)
LOGICAL = "/apis/core.shoal.dev/v1alpha1/logicalclusters"
CONNECTIONS = 16
MACHINES = 5
GOAL = 30.0
LONGEST = 600.0
LOOK_SECONDS = 0.25


def cluster_name(number: int) -> str:
    return f"c{number:05d}"


def objects(name: str) -> Iterator[Object]:
    """The objects a user applies in one file."""
    reference = {"apiGroup": INFRASTRUCTURE, "name": name}
    embedded = {"apiVersion": f"{INFRASTRUCTURE}/v1alpha1", "metadata": {"name": name}}
    core = {"apiVersion": f"{GROUP}/v1beta2", "metadata": {"name": name}}
    # Cluster API alone is measured: they are not to become workload Clusters of the hub.
    alone: Object = {"name": name, "annotations": {"workloads.kcp.dev/register": "false"}}
    spec: Object = {"infrastructureRef": {**reference, "kind": "EmbeddedCluster"}}
    yield {**core, "kind": "Cluster", "metadata": alone, "spec": spec}
    yield {**embedded, "kind": "EmbeddedCluster", "spec": {}}
    size = {"capacity": {"cpu": "2", "memory": "8Gi", "pods": "110"}}
    yield {**embedded, "kind": "EmbeddedMachineTemplate", "spec": {"template": {"spec": size}}}
    machine = {"clusterName": name, "infrastructureRef": {**reference, "kind": "EmbeddedMachineTemplate"}}
    spec = {"clusterName": name, "replicas": MACHINES, "template": {"spec": machine}}
    yield {**core, "kind": "MachineDeployment", "spec": spec}


# --- the load generator's part ---


async def create(job: Job) -> Figures:
    return await _each(
        job, (_create_request(job, obj) for number in range(job.count) for obj in objects(cluster_name(number)))
    )


async def delete(job: Job) -> Figures:
    paths = (f"{PATHS['Cluster']}/{cluster_name(number)}" for number in range(job.count))
    return await _each(job, (job.head("DELETE", path) for path in paths))


async def _each(job: Job, requests: Iterator[bytes]) -> Figures:
    connections = await connect(job, LoadConnection, job.connections)
    figures = Figures()
    with Meter(job, figures):
        await drive(connections, lambda _: lambda: next(requests, None), figures)
    return figures


def _create_request(job: Job, obj: Object) -> bytes:
    body = orjson.dumps(obj)
    return job.head("POST", PATHS[obj["kind"]], len(body)) + body


LOADS = {"create-capi": create, "delete-capi": delete}


# --- what is measured ---


def run(sizes: BenchSizes, directory: Path, say: Callable[[str], None]) -> list[Row]:
    count = sizes.capi_clusters
    title = f"Cluster API: {count:,} clusters with {MACHINES} machines each"
    with Shoal(directory / "capi") as server:
        server.start()
        # What the first cluster of all loads for all others is not the cost of one.
        _measure_step(server, "create-capi", 1, lambda: _has_converged(server, 1))
        _measure_step(server, "delete-capi", 1, lambda: not _remaining_count(server))
        say(f"Cluster API: {count:,} clusters are created")
        took, cpu, writes = _measure_step(server, "create-capi", count, lambda: _has_converged(server, count))
        say("Cluster API: deleting all clusters")
        gone, gone_cpu, gone_writes = _measure_step(server, "delete-capi", count, lambda: not _remaining_count(server))
    return [
        _row(f"{title} converge", "s", took, GOAL, cpu_seconds=cpu),
        _row("one of these clusters, with its machines: writes", "revisions", writes / count, 0),
        _row("deleted, nothing is left", "s", gone, 0, cpu_seconds=gone_cpu),
        _row("one of these deletions: writes", "revisions", gone_writes / count, 0),
    ]


def _row(title: str, unit: str, value: float, goal: float, **more: float) -> Row:
    return Row(title, "clusters", goal, {SHOAL: {"value": value, "unit": unit, "at_least": False, **more}})


def _measure_step(server: BenchServer, verb: str, count: int, ended: Callable[[], bool]) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds of the server, and writes."""
    revision, used, began = _revision(server), _cpu(server), time.perf_counter()
    generate(server, "", {"verb": verb, "connections": CONNECTIONS, "count": count})
    deadline = time.monotonic() + LONGEST
    while not ended():
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"{verb}: not done after {LONGEST:.0f} s")
        time.sleep(LOOK_SECONDS)
    return time.perf_counter() - began, _cpu(server) - used, _revision(server) - revision


def _has_converged(server: BenchServer, count: int) -> bool:
    """Every Cluster is Provisioned and Available with all of its workers; every Machine is Running, with its Node."""
    clusters = [obj for obj in server.must("GET", PATHS["Cluster"])["items"] if _is_whole(obj)]
    if len(clusters) < count:
        return False
    machines = server.must("GET", f"{CORE}/machines")["items"]
    running = [obj for obj in machines if obj["status"]["phase"] == "Running" and obj["status"]["nodeRef"]["name"]]
    return len(running) == len(machines) == count * MACHINES


def _is_whole(cluster: Object) -> bool:
    status = cluster.get("status") or {}
    available = any(each["type"] == "Available" and each["status"] == "True" for each in status.get("conditions") or ())
    workers = (status.get("workers") or {}).get("availableReplicas")
    return available and status.get("phase") == "Provisioned" and workers == MACHINES


def _remaining_count(server: BenchServer) -> int:
    """Returns the number of objects of any kind that the clusters created."""
    kept = len(server.must("GET", LOGICAL)["items"]) - 1
    return kept + sum(len(server.must("GET", f"{path}?limit=1")["items"]) for path in LEFT)


def _revision(server: BenchServer) -> int:
    return int(server.must("GET", f"{LOGICAL}?limit=1")["metadata"]["resourceVersion"])


def _cpu(server: BenchServer) -> float:
    return cpu_seconds(pid for pids in server.pids().values() for pid in pids)
