"""Many Deployments on a hub with many workload Clusters: Deployments placed per second, and the time to move them.

The clusters are simulated: this program is their syncers, which report readiness and capacity. Leaves count when a
watching client sees them. Division and planning are pure, and measured in this process.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measure import SHOAL, Row
from bench.place import LONGEST, BenchTarget
from bench.plan import BenchSizes
from bench.processes import cpu_seconds, tree
from bench.servers import BenchmarkFailed, Shoal
from shoal.fit.room import NO_DEMAND
from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.workloadcluster import CLUSTER_LABEL
from shoal.placement.cluster_info import ClusterInfo, cluster_info_of
from shoal.placement.decide import decide_placement
from shoal.placement.interpreter import DIVIDED
from shoal.placement.policy import DEFAULT_POLICY
from shoal.placement.snapshot import PlacementSnapshot, plan_changes

Object = dict[str, Any]

CLUSTERS = "/apis/workload.kcp.dev/v1alpha1/clusters"
IMPORTS = "/apis/apiresource.kcp.dev/v1alpha1/apiresourceimports"
NEGOTIATED = "/apis/apiresource.kcp.dev/v1alpha1/negotiatedapiresources"
PLACEMENTS = "/apis/placement.shoal.dev/v1alpha1/namespaces/default/placements"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
USED, REPLICAS = 5, 20
"""Clusters of one Deployment, and its replicas."""
DIVIDE_GOAL_MS, PLAN_GOAL, GOAL, LOST_GOAL = 2.0, 1.0, 500.0, 3.0
NOW, LONG_AGO = 1.7e9, "2020-01-01T00:00:00Z"
TRIES, LOOK_SECONDS = 9, 0.02


def run(sizes: BenchSizes, directory: Path, say: Callable[[str], None]) -> list[Row]:
    count, clusters = sizes.placed, sizes.placed_clusters
    say(f"placement: {sizes.divided:,} replicas divided, a fleet of {sizes.planned:,} objects planned")
    divided, planned = _measure_division(sizes.divided, clusters), _measure_planning(sizes.planned, clusters)
    with Shoal(directory / "placement") as server:
        server.start()
        hub = BenchTarget(server)
        _prepare(hub, clusters)
        say(f"placement: {count:,} Deployments over {clusters} clusters")
        took, cpu = _measure_placement(hub, count, clusters)
        say(f"placement: one of {clusters} clusters is lost")
        lost = _measure_cluster_loss(hub, _name(0), min(USED, clusters))
    return [
        _row(f"{sizes.divided:,} replicas divided over {clusters} clusters", "ms", 1000 * divided, DIVIDE_GOAL_MS),
        _row(f"plan for a fleet of {sizes.planned:,} objects, one Cluster changes", "s", planned, PLAN_GOAL),
        _row(f"{count:,} Deployments placed over {clusters} clusters", "/s", count / took, GOAL, at_least=True),
        _row(f"and CPU of the hub for one and its {min(USED, clusters)} leaves", "ms", 1000 * cpu / count, 0),
        _row(f"one of {clusters} clusters lost: re-placed after the grace", "s", lost, LOST_GOAL),
    ]


def _row(title: str, unit: str, value: float, goal: float, *, at_least: bool = False) -> Row:
    return Row(title, "clusters", goal, {SHOAL: {"value": value, "unit": unit, "at_least": at_least}})


# --- pure ---


def _measure_division(replicas: int, clusters: int) -> float:
    sites = [ClusterInfo(_name(number)) for number in range(clusters)]
    return _median(lambda: decide_placement(replicas, sites, DEFAULT_POLICY, {}, NO_DEMAND, NOW))


def _measure_planning(objects: int, clusters: int) -> float:
    """Roots and their leaves are the objects, and of a hub that is at rest."""
    fleet = snapshot(objects, clusters)
    changed = {**cluster(0, clusters), "spec": {"unschedulable": True}}
    return _median(lambda: plan_changes(fleet, [changed], NOW))


def snapshot(objects: int, clusters: int) -> PlacementSnapshot:
    sites = {_name(number): cluster_info_of(cluster(number, clusters)) for number in range(clusters)}
    placements = [rule(number) for number in range(_groups(clusters))]
    empty = PlacementSnapshot(sites, placements, {}, {"Deployment": DIVIDED})
    found: dict[tuple[str, str, str], Object] = {}
    number = 0
    while len(found) < objects:
        root = deployment(number, clusters)
        root["metadata"] |= {"uid": f"u{number}", "namespace": "default"}
        placed = empty.leaf_changes_of(root, NOW)
        for made in (root, *(placed[1].create if placed else ())):
            made["metadata"].setdefault("uid", f"u{number} {made['metadata']['name']}")
            found["Deployment", "default", made["metadata"]["name"]] = made
        number += 1
    return PlacementSnapshot(sites, placements, found, empty.interpreters)


def _median(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(TRIES):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


# --- on a hub ---


def _prepare(hub: BenchTarget, clusters: int) -> None:
    hub.must("POST", NEGOTIATED, deployment_api_resource())
    hub.create(PLACEMENTS, (rule(number) for number in range(_groups(clusters))))
    for number in range(clusters):
        body = cluster(number, clusters)
        hub.must("POST", CLUSTERS, body)
        _write_status(hub, _name(number), body["status"])
        hub.must("POST", IMPORTS, deployment_import(number))
    _until(lambda: len(_ready_clusters(hub)) == clusters, "not all clusters are ready")
    _until(lambda: hub.server.ask("GET", DEPLOYMENTS)[0] == 200, "Deployments are not served")


def _measure_placement(hub: BenchTarget, count: int, clusters: int) -> tuple[float, float]:
    """Seconds from the first create until the last leaf is seen, and CPU-seconds."""
    with Leaves(hub, count * min(USED, clusters)) as leaves:
        used, began = _cpu(hub), time.perf_counter()
        hub.create(DEPLOYMENTS, (deployment(number, clusters) for number in range(count)))
        return leaves.wait() - began, _cpu(hub) - used


def _measure_cluster_loss(hub: BenchTarget, name: str, used: int) -> float:
    """There is no grace period, so the move starts when the hub is told. Each Deployment gets a leaf elsewhere and
    keeps an empty one there.
    """
    there = f"{DEPLOYMENTS}?labelSelector={CLUSTER_LABEL}%3D{name}"
    roots = len(hub.must("GET", there)["items"])
    wanted = 0 if used < USED else roots
    with Leaves(hub, wanted) as leaves:
        began = time.perf_counter()
        _write_status(hub, name, {"conditions": _conditions("False")})
        if wanted:
            leaves.wait()
        _until(
            lambda: not any(one["spec"]["replicas"] for one in hub.must("GET", there)["items"]),
            "replicas were not deleted",
        )
        return time.perf_counter() - began


def _write_status(hub: BenchTarget, name: str, status: Object) -> None:
    """The hub's controllers write this status too."""
    path = f"{CLUSTERS}/{name}"
    while True:
        found = hub.must("GET", path)
        body = {**found, "status": {**(found.get("status") or {}), **status}}
        answered, said = hub.server.ask("PUT", f"{path}/status", body)
        if answered < 300:
            return
        if answered != 409:
            raise BenchmarkFailed(f"{path}: {said}")


class Leaves:
    """A watch that counts those that come."""

    def __init__(self, hub: BenchTarget, count: int) -> None:
        self._count, self._seen, self._ended = count, threading.Event(), 0.0
        version = hub.must("GET", f"{DEPLOYMENTS}?limit=1")["metadata"]["resourceVersion"]
        self._connection = hub.connect()
        path = f"{DEPLOYMENTS}?watch=true&resourceVersion={version}&labelSelector={CLUSTER_LABEL}"
        self._connection.request("GET", path, headers=hub.headers())
        self._answer = self._connection.getresponse()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        found = 0
        for line in self._answer:
            found += line.startswith(b'{"type":"ADDED"')
            if found == self._count:
                self._ended = time.perf_counter()
                self._seen.set()
                return

    def wait(self) -> float:
        if not self._seen.wait(LONGEST):
            raise BenchmarkFailed("not all Deployments were placed")
        return self._ended

    def __enter__(self) -> Leaves:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _cpu(hub: BenchTarget) -> float:
    return cpu_seconds(tree(hub.server.processes["shoal"].pid))


def _until(look: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + LONGEST
    while not look():
        if time.monotonic() > deadline:
            raise BenchmarkFailed(otherwise)
        time.sleep(LOOK_SECONDS)


# --- objects ---


def _name(number: int) -> str:
    return f"c{number:03d}"


def _groups(clusters: int) -> int:
    return max(clusters // USED, 1)


def _conditions(status: str) -> list[Object]:
    said = {"status": status, "reason": "Bench", "message": "", "lastTransitionTime": LONG_AGO}
    return [{"type": kind, **said} for kind in (*workloadcluster.READY_CONDITIONS, workloadcluster.READY)]


def _ready_clusters(hub: BenchTarget) -> list[Object]:
    return [one for one in hub.must("GET", CLUSTERS)["items"] if workloadcluster.is_ready(one)]


def cluster(number: int, clusters: int) -> Object:
    """Some are larger than others; each is preferred by one group of Deployments."""
    room = {"cpu": str(1000 + number % 7), "memory": "4000Gi", "pods": "10000"}
    return {
        "apiVersion": "workload.kcp.dev/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": _name(number), "labels": {"group": f"g{number % _groups(clusters)}"}},
        "spec": {"syncMode": workloadcluster.PULL},
        "status": {"conditions": _conditions("True"), "lastSyncerHeartbeatTime": LONG_AGO, "available": room},
    }


def rule(group: int) -> Object:
    name = f"g{group}"
    here = {"matchLabels": {"group": name}}
    return {
        "apiVersion": "placement.shoal.dev/v1alpha1",
        "kind": "Placement",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selects": [{"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": here}],
            "clusters": {"maxClusters": USED, "preferred": [{"weight": 1, "selector": here}]},
            "replicas": {"by": "Capacity"},
            "disruption": {"gracePeriod": "0s"},
        },
    }


def deployment(number: int, clusters: int) -> Object:
    name = f"app{number:05d}"
    requests = {"cpu": "100m", "memory": "128Mi"}
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": requests}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": {"app": name}}, "template": template}
    labels = {"group": f"g{number % _groups(clusters)}"}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


DEPLOYMENT_API: Object = {
    "groupVersion": {"group": "apps", "version": "v1"},
    "scope": "Namespaced",
    "plural": "deployments",
    "singular": "deployment",
    "kind": "Deployment",
    "listKind": "DeploymentList",
    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}


def deployment_api_resource() -> Object:
    """Returns the API resource object by which the hub serves Deployments, as if it had discovered them in a
    cluster.
    """
    head = {"apiVersion": "apiresource.kcp.dev/v1alpha1", "kind": "NegotiatedAPIResource"}
    return {**head, "metadata": {"name": "deployments.v1.apps"}, "spec": {**DEPLOYMENT_API, "publish": True}}


def deployment_import(number: int) -> Object:
    """Returns the import by which a cluster offers Deployments."""
    name = _name(number)
    head = {"apiVersion": "apiresource.kcp.dev/v1alpha1", "kind": "APIResourceImport"}
    return {
        **head,
        "metadata": {"name": f"deployments.{name}.v1.apps"},
        "spec": {**DEPLOYMENT_API, "location": name},
    }
