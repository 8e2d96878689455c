"""Capacity of a workload Cluster: the sums, and how they are written to its status."""

from __future__ import annotations

from typing import Any

from shoal.sync.controllers import SyncSettings
from shoal.sync.registration.capacity import ClusterCapacity, crosses_zero
from tests.serving import Cluster, Server, fresh_cluster
from tests.sync.hub_server import own_hub
from tests.sync.sync_environment import WORKLOAD_CLUSTERS
from tests.sync.test_apis import ready, register

Object = dict[str, Any]


def node(name: str, cpu: str = "4", is_ready: bool = True, cordoned: bool = False) -> Object:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "metadata": {"name": name},
        "spec": {"unschedulable": cordoned} if cordoned else {},
        "status": {
            "capacity": {**amounts, "memory": "9Gi"},
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True" if is_ready else "False"}],
        },
    }


def pod(name: str, on: str = "a", cpu: str = "1", phase: str = "Running") -> Object:
    container = {"name": "c", "image": "c:1", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    spec: Object = {"containers": [container], **({"nodeName": on} if on else {})}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": {"phase": phase}}


def ledger(nodes: list[Object], pods: list[Object]) -> ClusterCapacity:
    made = ClusterCapacity()
    made.set_nodes(nodes)
    made.set_pods(pods)
    return made


def test_sums_are_of_ready_nodes() -> None:
    found = ledger([node("a"), node("b", "500m"), node("c", is_ready=False)], []).totals()
    assert found["capacity"] == {"cpu": "4500m", "memory": "18Gi", "pods": "220"}
    assert found["allocatable"] == found["available"] == {"cpu": "4500m", "memory": "16Gi", "pods": "220"}


def test_what_is_left_is_of_nodes_that_take_pods() -> None:
    pods = [pod("one"), pod("two", "b"), pod("done", phase="Succeeded"), pod("waiting", on=""), pod("lost", "gone")]
    found = ledger([node("a"), node("b", cordoned=True)], pods)
    assert found.totals()["available"] == {"cpu": "3", "memory": "7Gi", "pods": "109"}
    assert found.totals()["allocatable"]["cpu"] == "8"


def test_changes_are_followed() -> None:
    found = ledger([node("a")], [pod("one")])
    found.on_pod("MODIFIED", pod("one", cpu="2"))
    assert found.totals()["available"]["cpu"] == "2"
    found.on_pod("ADDED", pod("two", cpu="3"))
    assert found.totals()["available"]["cpu"] == "0"
    found.on_pod("DELETED", pod("two"))
    found.on_pod("MODIFIED", pod("one", phase="Failed"))
    assert found.totals()["available"]["cpu"] == "4"
    found.on_node("MODIFIED", node("a", is_ready=False))
    assert found.totals() == {"capacity": {}, "allocatable": {}, "available": {}}
    found.on_node("DELETED", node("a"))
    found.on_node("ADDED", node("b", "2"))
    assert found.totals()["allocatable"]["cpu"] == "2"


def test_nothing_is_said_before_it_is_known() -> None:
    found = ClusterCapacity()
    found.on_node("ADDED", node("a"))
    found.on_pod("ADDED", pod("one"))
    assert not found.is_known
    found.set_nodes([node("a")])
    assert not found.is_known
    found.pods_unreadable = True
    assert found.is_known
    assert "available" not in found.totals()


def test_what_is_used_up_or_free_again_is_told_at_once() -> None:
    some, none = {"available": {"cpu": "1"}}, {"available": {"cpu": "0"}}
    assert crosses_zero(some, none)
    assert crosses_zero(none, some)
    assert crosses_zero({}, some)
    assert not crosses_zero(some, {"available": {"cpu": "2"}})
    assert not crosses_zero({}, {})


def status_of(hub: Cluster) -> Object:
    found: Object = hub.get(f"{WORKLOAD_CLUSTERS}/east").ok().get("status") or {}
    return found


def test_the_status_of_a_workload_cluster(server: Server) -> None:
    with own_hub(server, SyncSettings(("deployments.apps",))) as hub:
        member = fresh_cluster(server, profile="cluster")
        for made in (node("a"), node("b")):
            member.post("/api/v1/nodes", made).ok()
            member.patch(f"/api/v1/nodes/{made['metadata']['name']}/status", {"status": made["status"]}).ok()
        register(hub, member, "east")
        ready(hub, "east")
        hub.eventually(lambda: status_of(hub).get("allocatable", {}).get("cpu") == "8")
        assert status_of(hub)["capacity"] == {"cpu": "8", "memory": "18Gi", "pods": "220"}
        assert status_of(hub)["available"] == {"cpu": "8", "memory": "16Gi", "pods": "220"}
        for name in ("a", "b"):
            member.post("/api/v1/namespaces/default/pods", pod(f"on-{name}", name, cpu="4")).ok()
        hub.eventually(lambda: status_of(hub)["available"]["cpu"] == "0")
        assert status_of(hub)["allocatable"]["cpu"] == "8"
        # Nothing of it is in the way of what other loops say there.
        assert ready(hub, "east")["status"]["syncedResources"]
        member.close()
