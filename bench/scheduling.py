"""One hosted cluster with many nodes and many pods: how many pods get a node in a second.

Beside ours the real kube-scheduler, on the same API server and with pods of its own, unthrottled. Ours finds the pods
waiting and gets the nodes while the time runs; the real one finds both. The time runs from the first binding to the
last, as a client that watches sees them.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from bench import peer
from bench.measure import SHOAL, Figures, Row
from bench.place import LONGEST, BenchTarget, HostedTarget
from bench.plan import BenchSizes
from bench.processes import cpu_seconds, tree
from bench.servers import BenchmarkFailed, Shoal

Object = dict[str, Any]
REAL = "kube-scheduler"
GOAL = 1000.0


def run(sizes: BenchSizes, directory: Path, say: Callable[[str], None]) -> list[Row]:
    title = f"{sizes.pods:,} pods on {sizes.nodes:,} nodes"
    row = Row(title, "scheduling", GOAL)
    with Shoal(directory / "scheduling") as server:
        server.start()
        say(f"{title}: {SHOAL}")
        row.figures[SHOAL] = _measure_shoal(server, sizes)
        program = (peer.find_programs((REAL,)) or {}).get(REAL)
        if program is None:
            print("NOT RUN: kube-scheduler (not found in $SHOAL_PEERS, ~/.cache/shoal/bin or PATH)")
        else:
            say(f"{title}: {REAL}")
            row.figures[REAL] = _measure_kube_scheduler(server, sizes, program, directory)
    return [row]


def _measure_shoal(server: Shoal, sizes: BenchSizes) -> Figures:
    cluster = HostedTarget(server, "bench-ours")
    cluster.create("/api/v1/namespaces/default/pods", (pod(number) for number in range(sizes.pods)))
    _wait_unschedulable(cluster, f"/api/v1/namespaces/default/pods/{_name('pod', sizes.pods - 1)}")
    with _bindings(cluster, sizes.pods) as seen:
        before = cpu_seconds(tree(server.processes["shoal"].pid))
        cluster.create("/api/v1/nodes", (node(number) for number in range(sizes.nodes)))
        seen.wait()
        cpu = cpu_seconds(tree(server.processes["shoal"].pid)) - before
    return _figures(sizes, seen, cpu)


def _measure_kube_scheduler(server: Shoal, sizes: BenchSizes, program: Path, directory: Path) -> Figures:
    cluster = HostedTarget(server, "bench-real")
    cluster.create("/api/v1/nodes", (node(number) for number in range(sizes.nodes)))
    pods = (pod(number, schedulerName=REAL) for number in range(sizes.pods))
    cluster.create("/api/v1/namespaces/default/pods", pods)
    with _bindings(cluster, sizes.pods) as seen, real_scheduler(program, cluster, directory) as pid:
        seen.first.wait(LONGEST)
        both = [*tree(server.processes["shoal"].pid), pid]
        before = cpu_seconds(both)
        seen.wait()
        cpu = cpu_seconds(both) - before
    return _figures(sizes, seen, cpu)


def _figures(sizes: BenchSizes, seen: BindingCounter, cpu: float) -> Figures:
    seconds = max(seen.ended - seen.began, 0.001)
    return {"rate": sizes.pods / seconds, "value": seconds, "cpu_seconds": cpu, "operations": sizes.pods}


@contextmanager
def real_scheduler(program: Path, cluster: BenchTarget, directory: Path) -> Iterator[int]:
    """Its process id."""
    command = peer.scheduler_command(program, cluster.kubeconfig(directory / "kube-scheduler.kubeconfig"), REAL)
    with (directory / "kube-scheduler.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait()


def node(number: int) -> Object:
    name = _name("node", number)
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    metadata = {"name": name, "labels": labels}
    status = {"capacity": room, "allocatable": room, "conditions": ready}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def pod(number: int, **spec: str) -> Object:
    requests = {"cpu": "100m", "memory": "128Mi"}
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": requests}}
    metadata = {"name": _name("pod", number), "labels": {"app": "bench"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def _name(kind: str, number: int) -> str:
    return f"{kind}-{number:06}"


def _wait_unschedulable(place: BenchTarget, path: str) -> None:
    """Waits until the last pod is marked unschedulable."""
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        if place.must("GET", path)["status"].get("conditions"):
            return
        time.sleep(0.1)
    raise BenchmarkFailed("unschedulable pods were not reported")


@contextmanager
def _bindings(place: BenchTarget, number: int) -> Iterator[BindingCounter]:
    listed = place.must("GET", "/api/v1/namespaces/default/pods?limit=1")
    seen = BindingCounter(place, listed["metadata"]["resourceVersion"], number)
    try:
        yield seen
    finally:
        seen.close()


class BindingCounter:
    """A watch that counts the pods that get a node."""

    def __init__(self, cluster: BenchTarget, version: str, number: int) -> None:
        self._number = number
        self._connection = cluster.connect()
        query = f"watch=true&resourceVersion={version}"
        path = f"{cluster.path}/api/v1/namespaces/default/pods?{query}"
        self._connection.request("GET", path, headers=cluster.headers())
        self._answer = self._connection.getresponse()
        self.began = self.ended = 0.0
        self.first, self._last = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        bound: set[str] = set()
        for line in self._answer:
            if b'"nodeName":' not in line:
                continue
            bound.add(orjson.loads(line)["object"]["metadata"]["name"])
            if len(bound) == 1:
                self.began = time.perf_counter()
                self.first.set()
            if len(bound) == self._number:
                self.ended = time.perf_counter()
                self._last.set()
                return

    def wait(self) -> None:
        if not self._last.wait(LONGEST):
            raise BenchmarkFailed("not all pods were scheduled")

    def close(self) -> None:
        self._connection.close()
