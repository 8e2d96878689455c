"""Nodes just in time from end to end: pods come to a cluster without nodes, most of them leave, a price and a template
change.

One `shoal up` with a worker inside, a ManagedCluster of no nodes, a dozen types of machines to buy. From the second
step on a watching client looks whether the PodDisruptionBudget and the NodePool's budget hold at every change.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import yaml

from bench.measure import SHOAL, Row
from bench.plan import BenchSizes
from bench.processes import cpu_seconds
from bench.provision_judge import PackingBound, judge
from bench.provision_loads import Shape
from bench.provision_watch import BudgetWatcher, has
from bench.servers import BenchmarkFailed, Shoal
from bench.story import DEPLOYMENTS, MANAGED, WORKERS
from shoal.fit.resources import parse_amounts
from shoal.kinds.clusterapi.machine_sizes import (
    CAPACITY_PREFIX,
    KARPENTER_MEMBER_LABEL,
    PRICE_ANNOTATION,
    MachineSize,
    capacity_annotations,
    machine_spec,
)
from shoal.provision.cloudprovider.types import InstanceType

Object = dict[str, Any]

RUN_GOAL, BOUND_GOAL = 5.0, 1.05
NAME = "east"
EMBEDDED = "infrastructure.cluster.x-k8s.io"
CAPI = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machinedeployments"
TEMPLATES = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/default/embeddedmachinetemplates"
CLASSES = "/apis/karpenter.cluster.x-k8s.io/v1alpha1/clusterapinodeclasses"
POOLS, CLAIMS = "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1/nodeclaims"
PODS = "/api/v1/namespaces/default/pods"
PDBS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
FAMILIES = {"compute": (2, 0.0425), "general": (4, 0.048), "memory": (8, 0.063)}
"""GiB, and price an hour, for each CPU."""
TYPES = {
    f"{family}-{cpu}": MachineSize(f"{family}-{cpu}", str(cpu), f"{cpu * ratio}Gi", f"{cpu * price:g}")
    for family, (ratio, price) in FAMILIES.items()
    for cpu in (2, 4, 8, 16)
}
Parts = dict[str, tuple[Shape, float]]
"""Deployments: what a pod of each asks for, and its share of all pods."""
ALIKE: Parts = {"web": (("800m", "1500Mi"), 1.0)}
MIXED: Parts = {
    "front": (("500m", "1Gi"), 0.5),
    "back": (("1", "3Gi"), 0.3),
    "cache": (("1500m", "10Gi"), 0.2),
}
"""Measured beside: the scheduler fills nodes in its own way, so pods of several sizes end up otherwise than planned."""
LESS = 10
BUDGET = "20%"
DEARER = 3.0
QUIET_SECONDS = 45.0
"""Without a change the cluster is at rest: longer than a look at it and the second look together take."""
REST_SECONDS = 400.0
"""So long it is waited for."""
LONGEST, LOOK_SECONDS = 900.0, 0.1
BOUND_SECONDS = 20.0
LABELS = {"app.kubernetes.io/part-of": "story"}


class Up(Shoal):
    name = "Shoal with a worker"
    command = ("up", "--workers", "1")


@dataclass(frozen=True, slots=True)
class Api:
    """A connection for each request: between two of them minutes may pass."""

    host: str
    port: int
    token: str
    below: str = ""

    def ask(self, method: str, path: str, body: Object | None = None) -> Any:
        """None: there is none."""
        answer = self._answer(method, path, body)
        content = answer.read()
        if answer.status >= 300 and answer.status != 404:
            raise BenchmarkFailed(f"{method} {path}: {answer.status} {content.decode(errors='replace')}")
        return orjson.loads(content) if answer.status < 300 else None

    def watch(self, path: str) -> Iterator[Object]:
        """All that are there come first, as added."""
        answer = self._answer("GET", f"{path}?watch=true&timeoutSeconds=7200")
        return (orjson.loads(line) for line in answer)

    def _answer(self, method: str, path: str, body: Object | None = None) -> http.client.HTTPResponse:
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(self.host, self.port, context=context, timeout=LONGEST)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        connection.request(method, self.below + path, None if body is None else orjson.dumps(body), headers)
        return connection.getresponse()


@dataclass(slots=True)
class Fleet:
    server: Shoal
    inside: Api
    worker: Api
    """The root of the worker, where the machines are."""
    parts: Parts
    prices: dict[str, float] = field(default_factory=dict)

    def cpu(self) -> float:
        return cpu_seconds(pid for pids in self.server.pids().values() for pid in pids)

    def claims(self) -> list[Object]:
        found: list[Object] = self.inside.ask("GET", CLAIMS)["items"]
        return found

    def cost(self) -> float:
        types = [each["metadata"]["labels"]["node.kubernetes.io/instance-type"] for each in self.claims()]
        return sum(self.prices[name] for name in types)

    def counts(self, count: int) -> dict[str, int]:
        return counts(self.parts, count)

    def asked_cpu(self, count: int) -> int:
        """Thousandths."""
        return sum(
            parse_amounts({"cpu": self.parts[name][0][0]})["cpu"] * many for name, many in self.counts(count).items()
        )

    def above_bound(self, count: int) -> float:
        return self.cost() / self._judge(count).find_bound(BOUND_SECONDS)

    def above_best(self, count: int) -> float:
        """Beside the best whole nodes of the kinds that the bound is made of."""
        judged = self._judge(count)
        judged.find_bound(BOUND_SECONDS)
        return self.cost() / judged.search(judged.alone(), BOUND_SECONDS)

    def _judge(self, count: int) -> PackingBound:
        shapes = [self.parts[name][0] for name, number in self.counts(count).items() for _ in range(number)]
        types = [
            InstanceType(name, parse_amounts(size.capacity), parse_amounts(size.capacity), ())
            for name, size in TYPES.items()
        ]
        return judge(shapes, types, [self.prices[name] for name in TYPES])


def counts(parts: Parts, count: int) -> dict[str, int]:
    """So many pods of each; the first makes up for what is rounded off."""
    found = {name: int(count * share) for name, (_, share) in parts.items()}
    found[next(iter(found))] += count - sum(found.values())
    return found


def run(sizes: BenchSizes, directory: Path, say: Callable[[str], None]) -> list[Row]:
    rows = run_story(ALIKE, sizes, directory / "provision-alike", say)
    return rows + run_story(MIXED, sizes, directory / "provision-mixed", say)


def run_story(parts: Parts, sizes: BenchSizes, directory: Path, say: Callable[[str], None]) -> list[Row]:
    """Of several Deployments, only how they come and leave."""
    count, less = sizes.bought, sizes.bought // LESS
    with Up(directory) as server:
        server.start()
        fleet = prepare_cluster(server, parts)
        time.sleep(sizes.settle)
        say(f"provision: {count:,} pods of {len(parts)} Deployment(s) in a cluster without nodes")
        rows = measure_scale_up(fleet, count)
        watched = BudgetWatcher(less * 9 // 10, BUDGET, fleet.asked_cpu(less))
        with watch_events(fleet, watched):
            say(f"provision: scaled to {less:,}")
            rows += measure_scale_down(fleet, less, watched)
            if parts is ALIKE:
                say("provision: changing a price")
                rows += measure_price_rise(fleet, less, watched)
                say("provision: changing the template")
                rows += measure_drift(fleet, watched)
        for each in watched.broken[:10]:
            say(f"provision: VIOLATED: {each}")
        held = 100 * (1 - len(watched.broken) / watched.changes)
        title = f"observed changes at which budgets, PDB and capacity held (of {watched.changes:,})"
        return [*rows, _row(title, "%", held, 100, at_least=True)]


def prepare_cluster(server: Shoal, parts: Parts) -> Fleet:
    hub = Api(server.host, server.port, server.token)
    _until(lambda: [_phase(obj) for obj in hub.ask("GET", WORKERS)["items"]] == ["Running"], "there is no worker")
    managed = _of(f"{EMBEDDED}/v1alpha1", "ManagedCluster", NAME)
    hub.ask("POST", MANAGED, {**managed, "spec": {"nodes": 0, "register": False}})
    _until(lambda: _phase(hub.ask("GET", f"{MANAGED}/{NAME}")) == "Running", f"{NAME} is not Running")
    secret = hub.ask("GET", f"/api/v1/namespaces/default/secrets/{NAME}-kubeconfig")
    token = yaml.safe_load(base64.b64decode(secret["data"]["value"]))["users"][0]["user"]["token"]
    data = server.data / "workers" / "worker-1"
    worker = Api(server.host, int((data / "port").read_text()), (data / "admin-token").read_text().strip())
    fleet = Fleet(server, Api(hub.host, hub.port, token, f"/managedclusters/default/{NAME}"), worker, parts)
    for name, size in TYPES.items():
        worker.ask("POST", TEMPLATES, _template(size))
        worker.ask("POST", CAPI, _machines(size))
        fleet.prices[name] = float(size.price)
    _until(lambda: fleet.inside.ask("POST", CLASSES, _node_class()) is not None, "node classes are not served")
    fleet.inside.ask("POST", POOLS, _pool())
    _until(lambda: has(fleet.inside.ask("GET", f"{POOLS}/default"), "Ready"), "the NodePool is not ready")
    return fleet


def measure_scale_up(fleet: Fleet, count: int) -> list[Row]:
    events = fleet.inside.watch(DEPLOYMENTS)
    began, used = time.perf_counter(), fleet.cpu()
    for name, number in fleet.counts(count).items():
        fleet.inside.ask("POST", DEPLOYMENTS, _deployment(name, number, fleet.parts[name][0]))
    ready: dict[str, int] = {}
    for event in events:
        obj = event["object"]
        ready[obj["metadata"]["name"]] = (obj.get("status") or {}).get("readyReplicas") or 0
        if sum(ready.values()) == count:
            break
    took, cpu = time.perf_counter() - began, fleet.cpu() - used
    nodes, pods = len(fleet.claims()), f"{count:,} pods of {len(fleet.parts)} Deployment(s)"
    return [
        _row(f"{pods} in a cluster without nodes until all run ({nodes} nodes)", "s", took, RUN_GOAL),
        _row("and CPU time of all processes", "CPU-s", cpu, 0),
        _row("cost of these nodes / LP bound", "x", fleet.above_bound(count), 0),
    ]


def measure_scale_down(fleet: Fleet, count: int, watched: BudgetWatcher) -> list[Row]:
    spec = {"minAvailable": watched.least_ready, "selector": {"matchLabels": LABELS}}
    fleet.inside.ask(
        "POST",
        PDBS,
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "story"}, "spec": spec},
    )
    began, used = time.monotonic(), fleet.cpu()
    for name, number in fleet.counts(count).items():
        fleet.inside.ask("PATCH", f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": number}})
    _until(lambda: len(watched.pods) == count, f"more than {count} pods remain")
    took = _rest(watched) - began
    nodes = len(fleet.claims())
    return [
        _row(f"scaled to {count:,}: consolidated, {BUDGET} at a time, until stable ({nodes} nodes)", "s", took, 0),
        _row("and CPU time of all processes", "CPU-s", fleet.cpu() - used, 0),
        _row(
            "cost of the remaining nodes / LP bound",
            "x",
            fleet.above_bound(count),
            BOUND_GOAL if fleet.parts is ALIKE else 0,
        ),
    ]


def measure_price_rise(fleet: Fleet, count: int, watched: BudgetWatcher) -> list[Row]:
    """Of the type that most nodes are of."""
    types = watched.types()
    name = max(sorted(set(types)), key=types.count)
    fleet.prices[name] *= DEARER
    began = time.monotonic()
    said = {"metadata": {"annotations": {PRICE_ANNOTATION: f"{fleet.prices[name]:g}"}}}
    fleet.worker.ask("PATCH", f"{CAPI}/{NAME}-{name}", said)
    _until(lambda: name not in watched.types() and watched.at_rest(), f"nodes of the more expensive type {name} remain")
    title = f"the price of {types.count(name)} of {len(types)} nodes is {DEARER:g} times as high: "
    return [
        _row(f"{title}replaced until stable", "s", _rest(watched) - began, 0),
        _row("cost of the nodes then / LP bound", "x", fleet.above_bound(count), 0),
    ]


def measure_drift(fleet: Fleet, watched: BudgetWatcher) -> list[Row]:
    nodes, began = len(fleet.claims()), time.monotonic()
    fleet.inside.ask(
        "PATCH", f"{POOLS}/default", {"spec": {"template": {"metadata": {"labels": {"example.com/team": "blue"}}}}}
    )

    def rolled() -> bool:
        found = [each["metadata"]["labels"].get("example.com/team") for each in fleet.claims()]
        return set(found) == {"blue"} and watched.at_rest()

    _until(rolled, "nodes of the previous template remain")
    took = time.monotonic() - began
    return [_row(f"changed template: {nodes} nodes replaced, {BUDGET} at a time, replacements first", "s", took, 0)]


@contextmanager
def watch_events(fleet: Fleet, watched: BudgetWatcher) -> Iterator[None]:
    """Tells of all events, from two threads."""
    turn = threading.Lock()

    def read(events: Iterator[Object], told: Callable[[Object, float], None]) -> None:
        for event in events:
            with turn:
                told(event, time.monotonic())

    for path, told in ((PODS, watched.pod), (CLAIMS, watched.claim)):
        threading.Thread(target=read, args=(fleet.inside.watch(path), told), daemon=True).start()
    _until(lambda: len(watched.claims) == len(fleet.claims()), "the watches do not contain all nodes")
    yield


def _phase(obj: Object | None) -> str:
    return str(((obj or {}).get("status") or {}).get("phase"))


def _rest(watched: BudgetWatcher) -> float:
    """Returns the time when it came to rest, or when the wait ended."""
    deadline = time.monotonic() + REST_SECONDS
    while time.monotonic() < deadline:
        if watched.at_rest() and time.monotonic() > watched.moved + QUIET_SECONDS:
            return watched.moved
        time.sleep(LOOK_SECONDS)
    return deadline


def _until(look: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + LONGEST
    while not look():
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"{otherwise}, after {LONGEST:.0f} s")
        time.sleep(LOOK_SECONDS)


def _row(title: str, unit: str, value: float, goal: float, *, at_least: bool = False) -> Row:
    return Row(title, "clusters", goal, {SHOAL: {"value": value, "unit": unit, "at_least": at_least}})


# --- what is put there ---


def _template(size: MachineSize) -> Object:
    spec = {"template": {"spec": machine_spec(size, is_provisioned=True)}}
    return {**_of(f"{EMBEDDED}/v1alpha1", "EmbeddedMachineTemplate", f"{NAME}-{size.name}"), "spec": spec}


def _machines(size: MachineSize) -> Object:
    name = f"{NAME}-{size.name}"
    reference = {"apiGroup": EMBEDDED, "kind": "EmbeddedMachineTemplate", "name": name}
    said = {**capacity_annotations(size), f"{CAPACITY_PREFIX}taints": "karpenter.sh/unregistered=:NoExecute"}
    found = _of("cluster.x-k8s.io/v1beta2", "MachineDeployment", name)
    found["metadata"] |= {"labels": {KARPENTER_MEMBER_LABEL: "", **LABELS}, "annotations": said}
    template = {"spec": {"clusterName": NAME, "infrastructureRef": reference}}
    return {**found, "spec": {"clusterName": NAME, "replicas": 0, "template": template}}


def _node_class() -> Object:
    """Of the sizes that every ManagedCluster has, none is bought."""
    spec = {"scalableResourceSelector": {"matchLabels": LABELS}}
    return {**_of("karpenter.cluster.x-k8s.io/v1alpha1", "ClusterAPINodeClass", "default"), "spec": spec}


def _pool() -> Object:
    reference = {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default"}
    disruption = {"consolidateAfter": "0s", "budgets": [{"nodes": BUDGET}]}
    spec = {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}, "disruption": disruption}
    return {**_of("karpenter.sh/v1", "NodePool", "default"), "spec": spec}


def _deployment(name: str, count: int, shape: Shape) -> Object:
    cpu, memory = shape
    labels = {"app": name}
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    container = {"name": "main", "image": "example.com/app:1", "resources": resources}
    template = {"metadata": {"labels": {**LABELS, **labels}}, "spec": {"containers": [container]}}
    spec = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    return {**_of("apps/v1", "Deployment", name), "spec": spec}


def _of(version: str, kind: str, name: str) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
