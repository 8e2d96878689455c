"""One hosted cluster with many nodes and many pods: how many pods get a node in a second.

Beside ours the real kube-scheduler, on the same API server and with pods of its own, unthrottled. Ours finds the pods
waiting and gets the nodes while the time runs; the real one finds both. The time runs from the first binding to the
last, as a client that watches sees them.
"""

from __future__ import annotations

import http.client
import os
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import yaml

from bench.measure import SHOAL, Figures, Row
from bench.plan import Sizes
from bench.processes import cpu_seconds, tree
from bench.servers import Failed, Shoal

Object = dict[str, Any]
REAL = "kube-scheduler"
GOAL = 1000.0
CONNECTIONS = 8
LONGEST = 600.0


def run(sizes: Sizes, directory: Path, say: Callable[[str], None]) -> list[Row]:
    title = f"{sizes.pods:,} pods on {sizes.nodes:,} nodes"
    row = Row(title, "scheduling", GOAL)
    with Shoal(directory / "scheduling") as server:
        server.start()
        say(f"{title}: {SHOAL}")
        row.figures[SHOAL] = _ours(server, sizes)
        program = find_scheduler()
        if program is None:
            print("NOT RUN: kube-scheduler (it is not in $SHOAL_PEERS, ~/.cache/shoal/bin or PATH)")
        else:
            say(f"{title}: {REAL}")
            row.figures[REAL] = _real(server, sizes, program, directory)
    return [row]


def find_scheduler() -> Path | None:
    places = [os.environ.get("SHOAL_PEERS", ""), str(Path.home() / ".cache/shoal/bin"), os.environ.get("PATH", "")]
    found = shutil.which(REAL, path=os.pathsep.join(place for place in places if place))
    return Path(found) if found else None


def _ours(server: Shoal, sizes: Sizes) -> Figures:
    cluster = Cluster(server, "bench-ours")
    cluster.create("/api/v1/namespaces/default/pods", (pod(number) for number in range(sizes.pods)))
    cluster.until_told(f"/api/v1/namespaces/default/pods/{_name('pod', sizes.pods - 1)}")
    with cluster.bindings(sizes.pods) as seen:
        before = cpu_seconds(tree(server.processes["shoal"].pid))
        cluster.create("/api/v1/nodes", (node(number) for number in range(sizes.nodes)))
        seen.wait()
        cpu = cpu_seconds(tree(server.processes["shoal"].pid)) - before
    return _figures(sizes, seen, cpu)


def _real(server: Shoal, sizes: Sizes, program: Path, directory: Path) -> Figures:
    cluster = Cluster(server, "bench-real")
    cluster.create("/api/v1/nodes", (node(number) for number in range(sizes.nodes)))
    pods = (pod(number, schedulerName=REAL) for number in range(sizes.pods))
    cluster.create("/api/v1/namespaces/default/pods", pods)
    with cluster.bindings(sizes.pods) as seen, real_scheduler(program, cluster, directory) as pid:
        seen.first.wait(LONGEST)
        both = [*tree(server.processes["shoal"].pid), pid]
        before = cpu_seconds(both)
        seen.wait()
        cpu = cpu_seconds(both) - before
    return _figures(sizes, seen, cpu)


def _figures(sizes: Sizes, seen: Bindings, cpu: float) -> Figures:
    seconds = max(seen.ended - seen.began, 0.001)
    return {"rate": sizes.pods / seconds, "value": seconds, "cpu_seconds": cpu, "operations": sizes.pods}


@contextmanager
def real_scheduler(program: Path, cluster: Cluster, directory: Path) -> Iterator[int]:
    """Its process id."""
    config = directory / "kube-scheduler.yaml"
    connection = {"kubeconfig": str(cluster.kubeconfig(directory / "kube-scheduler.kubeconfig"))}
    asked = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {**connection, "qps": 10_000, "burst": 20_000},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": REAL}],
    }
    config.write_text(yaml.safe_dump(asked))
    with (directory / "kube-scheduler.log").open("wb") as log:
        command = [str(program), f"--config={config}", "--secure-port=0"]
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


class Cluster:
    """A hosted cluster, made for the occasion."""

    def __init__(self, server: Shoal, name: str) -> None:
        self._server, self.path = server, f"/clusters/{name}"
        body = {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": name}}
        clusters = "/apis/core.shoal.dev/v1alpha1/logicalclusters"
        server.must("POST", clusters, {**body, "spec": {"profile": "cluster"}})
        for _ in range(1000):
            if server.ask("GET", f"{self.path}/api/v1/namespaces/default/serviceaccounts/default")[0] == 200:
                return
            time.sleep(0.02)
        raise Failed(f"{name} does not come up")

    def create(self, path: str, objects: Iterator[Object]) -> None:
        turn = threading.Lock()

        def work(_: int) -> None:
            connection = self.connect()
            while True:
                with turn:
                    body = next(objects, None)
                if body is None:
                    break
                headers = {**self.headers(), "Content-Type": "application/json"}
                connection.request("POST", self.path + path, orjson.dumps(body), headers)
                answer = connection.getresponse()
                said = answer.read()
                if answer.status >= 300:
                    raise Failed(f"{path}: {answer.status} {said[:500].decode()}")
            connection.close()

        with ThreadPoolExecutor(CONNECTIONS) as threads:
            list(threads.map(work, range(CONNECTIONS)))

    def until_told(self, path: str) -> None:
        """The last pod was told that there is no node."""
        deadline = time.monotonic() + LONGEST
        while time.monotonic() < deadline:
            if self._server.must("GET", self.path + path)["status"].get("conditions"):
                return
            time.sleep(0.1)
        raise Failed("pods that fit nowhere were not told")

    @contextmanager
    def bindings(self, number: int) -> Iterator[Bindings]:
        listed = self._server.must("GET", f"{self.path}/api/v1/namespaces/default/pods?limit=1")
        seen = Bindings(self, listed["metadata"]["resourceVersion"], number)
        try:
            yield seen
        finally:
            seen.close()

    def kubeconfig(self, file: Path) -> Path:
        server = f"https://{self._server.host}:{self._server.port}{self.path}"
        text = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "u", "user": {"token": self._server.token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        file.write_text(yaml.safe_dump(text))
        return file

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._server.token}"}

    def connect(self) -> http.client.HTTPSConnection:
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection(self._server.host, self._server.port, timeout=LONGEST, context=context)


class Bindings:
    """A watch that counts the pods that get a node."""

    def __init__(self, cluster: Cluster, version: str, number: int) -> None:
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
            raise Failed("not all pods got a node")

    def close(self) -> None:
        self._connection.close()
