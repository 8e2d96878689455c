"""One Deployment of many replicas: the time until all of them are Ready, and after a scale to 0 until all are gone.

Beside ours a whole Kubernetes: etcd, kube-apiserver, kube-controller-manager and kube-scheduler, unthrottled. The nodes
of both are made by the same `shoal nodes`, which plays the kubelets of the real one in a process of its own.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from bench.measure import SHOAL, Figures, Row
from bench.peer import Kubernetes, find_programs
from bench.place import LONGEST, BenchTarget, HostedTarget
from bench.plan import BenchSizes
from bench.processes import cpu_seconds
from bench.servers import BenchmarkFailed, BenchServer, Shoal

Object = dict[str, Any]
KUBERNETES = "Kubernetes"
GOAL = 15.0
NODE = {"cpu": "16", "memory": "64Gi", "pods": "110"}
NODES_PROGRAM = "shoal-nodes"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
PODS = "/api/v1/namespaces/default/pods"
NAME = "web"
LOOK_SECONDS = 0.02


@dataclass(slots=True)
class Step:
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """Of the control plane, without the process that plays kubelets."""
    nodes_cpu: list[float] = field(default_factory=list)
    """Of that."""
    writes: list[float] = field(default_factory=list)
    """For each pod: revisions of the store."""

    def figures(self) -> Figures:
        return {
            "value": statistics.median(self.seconds),
            "worst": max(self.seconds),
            "cpu_seconds": statistics.median(self.cpu),
            "nodes_cpu_seconds": statistics.median(self.nodes_cpu),
            "writes": statistics.median(self.writes),
            "all": self.seconds,
        }


def run(sizes: BenchSizes, directory: Path, say: Callable[[str], None]) -> list[Row]:
    ready = Row(f"{sizes.replicas:,} replicas on {sizes.replica_nodes:,} nodes: all Ready", "replicas", GOAL)
    none = Row("scaled to 0: all pods deleted", "replicas", 0)
    with Shoal(directory / "replicas") as server:
        server.start()
        place = HostedTarget(server, "bench-replicas")
        ready.figures[SHOAL], none.figures[SHOAL] = _measure(SHOAL, place, sizes, say)
    programs = find_programs(Kubernetes.PROGRAMS)
    if programs is None:
        print(f"NOT RUN: Kubernetes (one of {', '.join(Kubernetes.PROGRAMS)} is missing)")
        return [ready, none]
    with Kubernetes(directory / "replicas-real", programs) as real:
        real.start()
        ready.figures[KUBERNETES], none.figures[KUBERNETES] = _measure(KUBERNETES, BenchTarget(real), sizes, say)
    return [ready, none]


def _measure(name: str, place: BenchTarget, sizes: BenchSizes, say: Callable[[str], None]) -> tuple[Figures, Figures]:
    _add_nodes(place, sizes.replica_nodes)
    time.sleep(sizes.settle)
    up, down = Step(), Step()
    for number in range(sizes.rounds):
        say(f"a Deployment of {sizes.replicas:,}: {name}, round {number + 1} of {sizes.rounds}")
        _timed(place, up, sizes, lambda: _ready(place, sizes.replicas))
        _timed(place, down, sizes, lambda: _scaled_down(place))
        place.must("DELETE", f"{DEPLOYMENTS}/{NAME}")
        _until(lambda: not place.must("GET", SETS)["items"], "the ReplicaSet was not deleted")
    return up.figures(), down.figures()


def _timed(place: BenchTarget, step: Step, sizes: BenchSizes, work: Callable[[], None]) -> None:
    revision, used, began = _revision(place), _cpu(place.server), time.perf_counter()
    work()
    step.seconds.append(time.perf_counter() - began)
    now = _cpu(place.server)
    step.nodes_cpu.append(now.pop(NODES_PROGRAM) - used.pop(NODES_PROGRAM))
    step.cpu.append(sum(now.values()) - sum(used.values()))
    step.writes.append((_revision(place) - revision) / sizes.replicas)


def _ready(place: BenchTarget, count: int) -> None:
    """As one watching client sees it."""
    listed = place.must("GET", f"{DEPLOYMENTS}?limit=1")
    version = listed["metadata"]["resourceVersion"]
    watch = place.connect()
    watch.request("GET", f"{place.path}{DEPLOYMENTS}?watch=true&resourceVersion={version}", headers=place.headers())
    answer = watch.getresponse()
    place.must("POST", DEPLOYMENTS, deployment(count))
    for line in answer:
        if orjson.loads(line)["object"].get("status", {}).get("readyReplicas") == count:
            watch.close()
            return
    raise BenchmarkFailed("the watch ended before all pods were Ready")


def _scaled_down(place: BenchTarget) -> None:
    path = f"{DEPLOYMENTS}/{NAME}/scale"
    scale = place.must("GET", path)
    place.must("PUT", path, {**scale, "spec": {"replicas": 0}})
    _until(lambda: not place.must("GET", f"{PODS}?limit=1")["items"], "pods were not deleted")


def deployment(count: int) -> Object:
    labels = {"app": NAME}
    requests = {"cpu": "100m", "memory": "128Mi"}
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": requests}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": NAME}, "spec": spec}


def _add_nodes(place: BenchTarget, count: int) -> None:
    config = place.kubeconfig(place.server.directory / "nodes.kubeconfig")
    command = [sys.executable, "-c", "from shoal.cli.main import main; main()", "nodes", f"--kubeconfig={config}"]
    command += [f"--count={count}", *(f"--{resource}={amount}" for resource, amount in NODE.items())]
    place.server.launch(NODES_PROGRAM, command)
    _until(lambda: sum(map(_is_ready, place.must("GET", "/api/v1/nodes")["items"])) == count, "nodes are not Ready")


def _is_ready(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not node["spec"].get("taints")


def _revision(place: BenchTarget) -> int:
    return int(place.must("GET", f"{DEPLOYMENTS}?limit=1")["metadata"]["resourceVersion"])


def _cpu(server: BenchServer) -> dict[str, float]:
    return {program: cpu_seconds(pids) for program, pids in server.pids().items()}


def _until(look: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + LONGEST
    while not look():
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"{otherwise}, after {LONGEST:.0f} s")
        time.sleep(LOOK_SECONDS)
