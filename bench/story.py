"""The story of the README, timed: a cluster, a Deployment over two of them, nodes bought, and all of it deleted.

One `shoal up` with two workers inside; every round tells the whole story. A step ends when a client sees its end.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import yaml

from bench.measure import SHOAL, Figures, Row
from bench.plan import BenchSizes
from bench.processes import cpu_seconds
from bench.servers import BenchmarkFailed, Shoal

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
MANAGED = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/default/managedclusters"
WORKERS = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/workers"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PATHS = {
    "ManagedCluster": MANAGED,
    "Deployment": DEPLOYMENTS,
    "NodePool": "/apis/karpenter.sh/v1/nodepools",
    "ClusterAPINodeClass": "/apis/karpenter.cluster.x-k8s.io/v1alpha1/clusterapinodeclasses",
}
NAMES = ("east", "west")
STEPS = {
    "one ManagedCluster is Running": 0.5,
    "and a second one, with a NodePool in each": 0.0,
    "a Deployment of 10 is divided over both and runs": 2.0,
    "scaled to 60: nodes are provisioned, all pods run": 3.0,
    "the Deployment is deleted with all pods": 0.0,
    "both clusters are deleted with all objects": 0.0,
}
"""In this order, with what each may take; 0 is no goal."""
LONGEST = 60.0
LOOK_SECONDS = 0.005


class Up(Shoal):
    name = "Shoal with two workers"
    command = ("up", "--workers", "2")


class HubUser:
    """One connection to the hub, with the administrator's token or that of a hosted cluster."""

    def __init__(self, server: Shoal, below: str = "", token: str = "") -> None:
        self._below, self._token = below, token or server.token
        context = ssl._create_unverified_context()
        self._connection = http.client.HTTPSConnection(server.host, server.port, context=context, timeout=LONGEST)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """None: there is none."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        self._connection.request(method, self._below + path, None if body is None else orjson.dumps(body), headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status >= 300 and answer.status != 404:
            raise BenchmarkFailed(f"{method} {path}: {answer.status} {content.decode(errors='replace')}")
        return orjson.loads(content) if answer.status < 300 else None

    def create(self, file: str, *names: str) -> None:
        """A kind that is not served yet is waited for."""
        for obj in yaml.safe_load_all((EXAMPLES / file).read_text()):
            if not names or obj["metadata"]["name"] in names:
                until(partial(self.ask, "POST", PATHS[obj["kind"]], obj), f"{obj['kind']} is not served")

    def count(self, path: str) -> int:
        return len((self.ask("GET", path) or {"items": []})["items"])

    def close(self) -> None:
        self._connection.close()


def until(look: Callable[[], Any], otherwise: str) -> None:
    deadline = time.monotonic() + LONGEST
    while not look():
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"{otherwise}, after {LONGEST:.0f} s")
        time.sleep(LOOK_SECONDS)


def run(sizes: BenchSizes, directory: Path, say: Callable[[str], None]) -> list[Row]:
    found: dict[str, list[tuple[float, float]]] = {step: [] for step in STEPS}
    with Up(directory / "story") as server:
        server.start()
        hub = HubUser(server)
        until(lambda: [_phase(obj) for obj in hub.ask("GET", WORKERS)["items"]] == ["Running"] * 2, "no workers")
        for number in range(sizes.rounds):
            say(f"story: round {number + 1} of {sizes.rounds}")
            steps = run_story(server, hub)
            for step in STEPS:
                began, used = time.perf_counter(), _cpu(server)
                next(steps)
                found[step].append((time.perf_counter() - began, _cpu(server) - used))
        hub.close()
    return [Row(step, "story", goal, {SHOAL: _figures(found[step])}) for step, goal in STEPS.items()]


def run_story(server: Shoal, hub: HubUser) -> Iterator[None]:
    """Runs the steps in the order of `STEPS`."""
    hub.create("clusters.yaml", "east")
    until(lambda: _phase(hub.ask("GET", f"{MANAGED}/east")) == "Running", "east is not Running")
    yield
    hub.create("clusters.yaml", "west")
    until(lambda: _phase(hub.ask("GET", f"{MANAGED}/west")) == "Running", "west is not Running")
    inside = [_inside(server, hub, name) for name in NAMES]
    for person in inside:
        person.create("nodepool.yaml")
    yield
    hub.create("deployment.yaml")
    until(lambda: _ready(hub, 10), "10 pods do not run")
    yield
    hub.ask("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 60}})
    until(lambda: _ready(hub, 60), "60 pods do not run")
    yield
    hub.ask("DELETE", f"{DEPLOYMENTS}/web")
    until(
        lambda: not hub.count(DEPLOYMENTS) and not any(p.count("/api/v1/pods") for p in inside), "pods were not deleted"
    )
    yield
    for name, person in zip(NAMES, inside, strict=True):
        person.close()
        hub.ask("DELETE", f"{MANAGED}/{name}")
    until(lambda: not hub.count(MANAGED), "clusters were not deleted")
    yield


def _inside(server: Shoal, hub: HubUser, name: str) -> HubUser:
    secret = hub.ask("GET", f"/api/v1/namespaces/default/secrets/{name}-kubeconfig")
    config = yaml.safe_load(base64.b64decode(secret["data"]["value"]))
    return HubUser(server, f"/managedclusters/default/{name}", config["users"][0]["user"]["token"])


def _phase(obj: Any) -> str:
    return str(((obj or {}).get("status") or {}).get("phase"))


def _ready(hub: HubUser, count: int) -> bool:
    status = (hub.ask("GET", f"{DEPLOYMENTS}/web") or {}).get("status") or {}
    return bool(status.get("readyReplicas") == status.get("replicas") == count)


def _cpu(server: Shoal) -> float:
    return cpu_seconds(pid for pids in server.pids().values() for pid in pids)


def _figures(rounds: list[tuple[float, float]]) -> Figures:
    seconds, cpu = [wall for wall, _ in rounds], [used for _, used in rounds]
    return {
        "value": statistics.median(seconds),
        "worst": max(seconds),
        "cpu_seconds": statistics.median(cpu),
        "all": seconds,
    }
