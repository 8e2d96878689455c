"""A watch of one node's pods, as a kubelet opens it, gets only events of pods on that node."""

from __future__ import annotations

from typing import Any

from tests.serving import Server, fresh_cluster

PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, node: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_a_binding_moves_a_pod_from_those_without_a_node(still_server: Server) -> None:
    cluster = fresh_cluster(still_server, "cluster")
    since = cluster.get(PODS).ok()["metadata"]["resourceVersion"]
    query = f"?resourceVersion={since}&fieldSelector=spec.nodeName%3D"
    with (
        cluster.watch(f"{PODS}{query}n1") as first,
        cluster.watch(f"{PODS}{query}n2") as second,
        cluster.watch(f"/api/v1/pods{query}") as waiting,
    ):
        cluster.post(PODS, pod("on-n1", "n1")).ok()
        cluster.post(PODS, pod("bound")).ok()
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "bound"}, "target": {"name": "n2"}}
        cluster.post(f"{PODS}/bound/binding", binding).ok()
        cluster.post(PODS, pod("last", "n1")).ok()
        cluster.post(PODS, pod("free")).ok()
        told = [
            [(event["type"], event["object"]["metadata"]["name"]) for event in watch.take(count)]
            for watch, count in ((first, 2), (second, 1), (waiting, 3))
        ]
    assert told == [
        [("ADDED", "on-n1"), ("ADDED", "last")],
        [("ADDED", "bound")],
        [("ADDED", "bound"), ("DELETED", "bound"), ("ADDED", "free")],
    ]
    found = cluster.get("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1").ok()["items"]
    assert [each["metadata"]["name"] for each in found] == ["last", "on-n1"]
    cluster.close()
