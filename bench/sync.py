"""A hub that syncs very many clusters: how long a change takes down and its status up, also when many are dark.

Two `shoal up`: one is the hub, the other has all clusters, which are logical ones, each with a kubeconfig of its own.
There is no peer: what others have published is on the page of results.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measure import SHOAL, Row
from bench.plan import BenchSizes
from bench.processes import cpu_seconds, resident_mb, tree
from bench.servers import BenchmarkFailed, BenchServer, Shoal
from bench.syncload import NAMESPACE, LatencyResult, SyncLoad, create_all, create_maps
from shoal.client.transport import RESTConfig

Object = dict[str, Any]

CLUSTERS = "/apis/workload.kcp.dev/v1alpha1/clusters"
LOGICAL = "/apis/core.shoal.dev/v1alpha1/logicalclusters"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = f"/apis/example.com/v1/namespaces/{NAMESPACE}/widgets"
RATE = 200.0
GOAL_MS, MORE_CPU_GOAL, MEMORY_GOAL_MB = 250.0, 10.0, 120.0
DARK_SHARE = 0.4
LONGEST, LOOK_SECONDS = 600.0, 0.25
MAIN = "from shoal.cli.main import main; main()"


class Hub(Shoal):
    command = ("up", "--workers", "0", "--resources-to-sync", "widgets.example.com,configmaps")


def run(sizes: BenchSizes, directory: Path, say: Callable[[str], None]) -> list[Row]:
    count, objects, changes = sizes.sync_clusters, sizes.sync_objects, sizes.sync_changes
    names = [f"m{number:03d}" for number in range(count)]
    with Shoal(directory / "members") as members, Hub(directory / "hub") as hub, UnreachableEndpoint() as dark:
        members.start()
        hub.start()
        say(f"sync: {count} clusters are registered, with {objects} objects each")
        prepare(hub, members, names, objects)
        say(f"sync: {changes:,} changes at {RATE:.0f} a second")
        bright = _changes(hub, members, names, objects, changes)
        in_the_dark = names[: int(count * DARK_SHARE)]
        say(f"sync: {len(in_the_dark)} clusters become unreachable")
        for name in in_the_dark:
            _put_kubeconfig(hub, members, name, dark.port)
        _until(lambda: _unreachable_clusters(hub) == set(in_the_dark), "the unreachable clusters were not detected")
        say(f"sync: {changes:,} changes at {RATE:.0f} per second for the others")
        dimmed = _changes(hub, members, names[len(in_the_dark) :], objects, changes)
        say(f"sync: a pull syncer with {sizes.sync_pulled:,} objects")
        resident = _syncer_memory(hub, members, directory, sizes.sync_pulled, sizes.settle)
    more = 100 * (dimmed.cpu / bright.cpu - 1)
    title = f"sync of {count} clusters with {objects} objects each, {RATE:.0f} changes/s"
    return [
        _row(f"{title}: hub to cluster, p50", "ms", bright.down(50), 0),
        _row("hub to cluster, p99", "ms", bright.down(99), GOAL_MS),
        _row("status to hub, p99", "ms", bright.up(99), GOAL_MS),
        _row("CPU of the hub for one change and its status", "ms", 1000 * bright.cpu, 0),
        _row(f"{len(in_the_dark)} of them unreachable: hub to cluster, p99", "ms", dimmed.down(99), GOAL_MS),
        _row("and status to hub, p99", "ms", dimmed.up(99), GOAL_MS),
        _row("and increase of CPU for one change", "%", more, MORE_CPU_GOAL),
        _row(f"one pull syncer with {sizes.sync_pulled:,} objects, resident", "MB", resident, MEMORY_GOAL_MB),
    ]


class ChangeLatencies:
    def __init__(self, measured: LatencyResult, cpu: float) -> None:
        if measured.failures:
            raise BenchmarkFailed(measured.failures[0])
        self._measured = measured
        self.cpu = cpu
        """Seconds of the hub's, for each."""

    def down(self, percent: int) -> float:
        return _percentile(self._measured.down, percent)

    def up(self, percent: int) -> float:
        return _percentile(self._measured.up, percent)


def _percentile(seconds: list[float], percent: int) -> float:
    ordered = sorted(seconds)
    return 1000 * ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def _changes(hub: BenchServer, members: BenchServer, names: list[str], objects: int, changes: int) -> ChangeLatencies:
    used = _cpu(hub)

    async def load() -> LatencyResult:
        return await SyncLoad(endpoint(hub), endpoint(members), names, objects).run(changes, RATE)

    measured = asyncio.run(load())
    return ChangeLatencies(measured, (_cpu(hub) - used) / changes)


def _cpu(server: BenchServer) -> float:
    return sum(cpu_seconds(pids) for pids in server.pids().values())


def endpoint(server: BenchServer) -> RESTConfig:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return RESTConfig(f"https://{server.host}:{server.port}", context, server.token)


# --- before ---


def prepare(hub: BenchServer, members: BenchServer, names: list[str], objects: int) -> None:
    """Every object is in its cluster."""
    hub.must("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    members.must("POST", DEFINITIONS, definition())  # what root does not serve cannot be seen of all clusters at once
    for name in names:
        member(members, name)
        _put_kubeconfig(hub, members, name, members.port)
        reference = {"namespace": NAMESPACE, "name": name}
        register(hub, name, {"kubeconfigSecretRef": reference})
    _until(lambda: _ready(hub) >= set(names), "not all clusters were ready")
    asyncio.run(create_all(endpoint(hub), names, objects))
    wanted = len(names) * objects
    _until(lambda: _count(members, "/clusters/*/apis/example.com/v1/widgets") == wanted, "not all objects were synced")
    time.sleep(1.0)


def member(members: BenchServer, name: str) -> None:
    metadata, spec = {"name": name}, {"profile": "hub"}
    body = {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster", "metadata": metadata, "spec": spec}
    members.must("POST", LOGICAL, body)
    members.must("POST", f"/clusters/{name}{DEFINITIONS}", definition())


def register(hub: BenchServer, name: str, spec: Object) -> None:
    body = {"apiVersion": "workload.kcp.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec}
    hub.must("POST", CLUSTERS, body)


def definition() -> Object:
    properties = {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    names = {"plural": "widgets", "kind": "Widget"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def kubeconfig(members: BenchServer, name: str, port: int, token: str = "") -> str:
    authority = base64.b64encode((members.directory / "data" / "pki" / "ca.crt").read_bytes()).decode()
    return f"""apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: c}}}}]
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:{port}{name}", certificate-authority-data: {authority}}}}}]
users: [{{name: c, user: {{token: "{token or members.token}"}}}}]
"""


def _put_kubeconfig(hub: BenchServer, members: BenchServer, name: str, port: int) -> None:
    text = kubeconfig(members, f"/clusters/{name}", port)
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    secret = {"metadata": {"name": name}, "data": {"value": base64.b64encode(text.encode()).decode()}}
    if hub.ask("POST", path, secret)[0] == 409:
        hub.must("PUT", f"{path}/{name}", secret)


# --- what is looked at ---


def _ready(hub: BenchServer) -> set[str]:
    return {name for name, conditions in _conditions(hub).items() if conditions.get("Ready") == "True"}


def _unreachable_clusters(hub: BenchServer) -> set[str]:
    return {name for name, conditions in _conditions(hub).items() if conditions.get("HeartbeatHealthy") == "False"}


def _conditions(hub: BenchServer) -> dict[str, dict[str, str]]:
    found = hub.must("GET", CLUSTERS)["items"]
    return {
        obj["metadata"]["name"]: {c["type"]: c["status"] for c in (obj.get("status") or {}).get("conditions") or ()}
        for obj in found
    }


def _count(server: BenchServer, path: str) -> int:
    found = server.must("GET", f"{path}?limit=1")
    return len(found["items"]) + int(found["metadata"].get("remainingItemCount") or 0)


def _until(look: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + LONGEST
    while not look():
        if time.monotonic() > deadline:
            raise BenchmarkFailed(otherwise)
        time.sleep(LOOK_SECONDS)


class UnreachableEndpoint:
    """An address where nobody ever answers."""

    def __enter__(self) -> UnreachableEndpoint:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port: int = self._listener.getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()


def _syncer_memory(hub: BenchServer, members: BenchServer, directory: Path, objects: int, settle: float) -> float:
    """Resident megabytes of `shoal syncer` with that many ConfigMaps."""
    name = "pulled"
    member(members, name)
    register(hub, name, {"syncMode": "pull"})
    asyncio.run(create_maps(endpoint(hub), name, objects))
    files = {"from": kubeconfig(hub, "", hub.port), "to": kubeconfig(members, f"/clusters/{name}", members.port)}
    for file, text in files.items():
        (directory / file).write_text(text)
    flags = ["--from-kubeconfig", str(directory / "from"), "--to-kubeconfig", str(directory / "to"), "--cluster", name]
    syncer = subprocess.Popen(
        [sys.executable, "-c", MAIN, "syncer", *flags, "--resources-to-sync", "configmaps"], stderr=subprocess.DEVNULL
    )
    try:
        there = f"/clusters/{name}/api/v1/configmaps"
        _until(lambda: _count(members, f"{there}") >= objects, "the pull syncer did not copy everything")
        time.sleep(settle)
        return resident_mb(tree(syncer.pid))
    finally:
        syncer.terminate()
        syncer.wait()


def _row(title: str, unit: str, value: float, goal: float) -> Row:
    return Row(title, "clusters", goal, {SHOAL: {"value": value, "unit": unit, "at_least": False}})
