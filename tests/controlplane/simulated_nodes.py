"""Clusters with simulated nodes: pods are scheduled and run without help from the test."""

from __future__ import annotations

from typing import Any

from tests.serving import Cluster, Server, fresh_cluster

Object = dict[str, Any]

NODES = "/api/v1/nodes"
EVENTS = "/api/v1/namespaces/default/events"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"


def simulated_cluster(server: Server, *nodes: str) -> Cluster:
    cluster = fresh_cluster(server, profile="cluster")
    for name in nodes:
        add_node(cluster, name)
    return cluster


def add_node(cluster: Cluster, name: str, *, taints: list[Object] | None = None, **labels: str) -> None:
    capacity = {"cpu": "100", "memory": "400Gi", "pods": "1000"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"shoal.dev/simulated": "true", **labels}},
        "spec": {"taints": taints or []},
        "status": {"capacity": capacity, "allocatable": capacity},
    }
    cluster.post(NODES, node).ok()


def events(cluster: Cluster, kind: str, name: str = "web") -> list[tuple[str, str]]:
    """Reasons and messages about one object."""
    found = cluster.get(EVENTS).ok()["items"]
    return [
        (one["reason"], one["message"])
        for one in found
        if one["involvedObject"]["kind"] == kind and one["involvedObject"]["name"] == name
    ]


def revisions(cluster: Cluster) -> dict[str, int]:
    return {one["metadata"]["name"]: one["revision"] for one in cluster.get(REVISIONS).ok()["items"]}
