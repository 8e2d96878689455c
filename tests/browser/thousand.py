"""A thousand clusters on a hub whose loops rest: what is written of them stays as it is."""

from __future__ import annotations

from typing import Any

from tests.serving import Cluster

Object = dict[str, Any]

CLUSTERS = 1000
FLEET = "infrastructure.cluster.x-k8s.io/v1alpha1"
MANAGED = f"/apis/{FLEET}/namespaces/default/managedclusters"
WORKERS = f"/apis/{FLEET}/namespaces/shoal-system/workers"
REGISTERED = "/apis/workload.kcp.dev/v1alpha1/clusters"
SINCE = "2026-01-01T00:00:00Z"
TEAMS = ("payments", "search", "checkout", "media", "fraud", "logistics", "identity", "ledger")
STAGES = ("prod", "stage", "test", "edge")
HOMES = {
    "frankfurt-1": 220,
    "dublin-1": 180,
    "virginia-1": 160,
    "virginia-2": 140,
    "singapore-1": 120,
    "saopaulo-1": 90,
    "sydney-1": 60,
    "a-worker-whose-name-is-as-long-as-it-may-be-far-north-01": 29,
}
"""Clusters each; the last one is hosted by nobody."""
ODD = {3: "Provisioning", 57: "Failed", 91: "Unknown"}
LONGEST = "a-cluster-whose-name-is-long-as-may-be"


def name_of(number: int) -> str:
    if number == 0:
        return LONGEST
    return f"{TEAMS[number % 8]}-{STAGES[number // 8 % 4]}-{number:03}"


def managed(name: str) -> Object:
    return {"apiVersion": FLEET, "kind": "ManagedCluster", "metadata": {"name": name}, "spec": {"nodes": 3}}


def conditions(*types: str) -> list[Object]:
    given = {"status": "True", "reason": "Fine", "message": "", "lastTransitionTime": SINCE}
    return [{"type": type_, **given} for type_ in types]


def told(root: Cluster, path: str, obj: Object, status: Object) -> None:
    """An object and what loops would say of it."""
    made = root.post(path, obj).ok()
    root.put(f"{path}/{made['metadata']['name']}/status", {**made, "status": status}).ok()


def fill(root: Cluster) -> None:
    root.post("/api/v1/namespaces", {"metadata": {"name": "shoal-system"}})
    for name, count in HOMES.items():
        spec = {"capacity": count + 20, "location": name.partition("-")[0]}
        obj = {"apiVersion": FLEET, "kind": "Worker", "metadata": {"name": name}, "spec": spec}
        told(root, WORKERS, obj, {"phase": "Running", "availableCapacity": 20, "conditions": conditions("Ready")})
    homes = [home for home, count in HOMES.items() for _ in range(count)]
    for number in range(CLUSTERS):
        told(root, MANAGED, managed(name_of(number)), status_of(number, homes[number] if number < len(homes) else ""))
        if number % 10 == 0 and number < len(homes):
            register(root, number)


def status_of(number: int, home: str) -> Object:
    phase = ODD.get(number % 100, "Running") if home else "Pending"
    status: Object = {"phase": phase, "conditions": conditions("Scheduled", "Ready")}
    if phase == "Failed":
        status["errors"] = [{"time": SINCE, "reason": "NoNodes", "message": "its nodes did not come up in 15 minutes"}]
    if not home:
        words = "0 of 8 workers fit: 8 have no free slot"
        return {**status, "errors": [{"time": SINCE, "reason": "Unschedulable", "message": words}]}
    return {**status, "assignedWorker": home, "version": "v1.36.4", "nodes": number % 7 + 1}


def register(root: Cluster, number: int) -> None:
    """The workload Cluster of one, for what it has and what is left of it."""
    name = name_of(number)
    cluster = {
        "apiVersion": "workload.kcp.dev/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": {"shoal.dev/managedcluster": f"default.{name}"}},
        "spec": {},
    }
    room = {"cpu": str(number % 24), "memory": f"{number % 90}Gi"}
    full = {"allocatable": {"cpu": "24", "memory": "96Gi"}, "available": room}
    kinds = ("Ready", "HeartbeatHealthy", "APIImporterReady", "SyncerReady")
    told(root, REGISTERED, cluster, {**full, "conditions": conditions(*kinds)})
