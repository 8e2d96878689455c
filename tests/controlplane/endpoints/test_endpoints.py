"""Endpoints and EndpointSlices in a running server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.workloads import LONG_AGO, PODS, Object
from tests.serving import Cluster, Server, fresh_cluster

SERVICES = "/api/v1/namespaces/default/services"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    cluster.post("/api/v1/nodes", {"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z"}}}).ok()
    yield cluster
    cluster.close()


def service(name: str = "web", **spec: object) -> Object:
    given = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}], **spec}
    return {"metadata": {"name": name, "labels": {"team": "a"}}, "spec": given}


def run(cluster: Cluster, name: str, ip: str, **labels: str) -> None:
    container = {"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}]}
    made = {
        "metadata": {"name": name, "labels": labels or {"app": "web"}},
        "spec": {"nodeName": "n", "containers": [container]},
    }
    cluster.post(PODS, made).ok()
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}]
    status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": conditions}
    cluster.patch(f"{PODS}/{name}/status", {"status": status}).ok()


def slices(cluster: Cluster, name: str = "web") -> list[Object]:
    found: list[Object] = cluster.get(f"{SLICES}?labelSelector=kubernetes.io/service-name={name}").ok()["items"]
    return found


def ready(cluster: Cluster) -> tuple[list[str], list[str]]:
    """By the Endpoints and by the EndpointSlices."""
    found = cluster.get(f"{ENDPOINTS}/web")
    subsets = found.ok().get("subsets") or [] if found.status == 200 else []
    old = [one["ip"] for subset in subsets for one in subset.get("addresses") or ()]
    new = [one["addresses"][0] for each in slices(cluster) for one in each["endpoints"] if one["conditions"]["ready"]]
    return sorted(old), sorted(new)


def test_pods_come_and_go(cluster: Cluster) -> None:
    cluster.post(SERVICES, service()).ok()
    cluster.eventually(lambda: cluster.get(f"{ENDPOINTS}/web").status == 200 and len(slices(cluster)) == 1)
    assert slices(cluster)[0]["endpoints"] == []
    run(cluster, "a", "10.1.0.1")
    run(cluster, "b", "10.1.0.2")
    run(cluster, "other", "10.1.0.3", app="other")
    cluster.eventually(lambda: ready(cluster) == (["10.1.0.1", "10.1.0.2"], ["10.1.0.1", "10.1.0.2"]))
    (found,) = slices(cluster)
    assert found["ports"] == [{"name": "", "port": 8080, "protocol": "TCP"}]
    assert {one["zone"] for one in found["endpoints"]} == {"z"}
    cluster.patch(f"{PODS}/b", {"metadata": {"labels": {"app": "gone"}}}).ok()
    cluster.eventually(lambda: ready(cluster) == (["10.1.0.1"], ["10.1.0.1"]))
    cluster.delete(f"{PODS}/a", {"gracePeriodSeconds": 30}).ok()
    cluster.eventually(lambda: ready(cluster) == ([], []))
    assert slices(cluster)[0]["metadata"]["name"] == found["metadata"]["name"], "the slice is used again"


def test_what_somebody_broke_is_repaired(cluster: Cluster) -> None:
    cluster.post(SERVICES, service()).ok()
    run(cluster, "a", "10.1.0.1")
    cluster.eventually(lambda: ready(cluster) == (["10.1.0.1"], ["10.1.0.1"]))
    cluster.delete(f"{SLICES}/{slices(cluster)[0]['metadata']['name']}").ok()
    cluster.patch(f"{ENDPOINTS}/web", {"subsets": []}).ok()
    cluster.eventually(lambda: ready(cluster) == (["10.1.0.1"], ["10.1.0.1"]))
    cluster.delete(f"{ENDPOINTS}/web").ok()
    cluster.eventually(lambda: ready(cluster)[0] == ["10.1.0.1"])


def test_endpoints_go_with_their_service(cluster: Cluster) -> None:
    cluster.post(SERVICES, service()).ok()
    cluster.post(SERVICES, service("plain", selector=None, clusterIP="None")).ok()
    cluster.post(ENDPOINTS, {"metadata": {"name": "plain"}}).ok()
    cluster.post(ENDPOINTS, {"metadata": {"name": "alone"}}).ok()
    cluster.eventually(lambda: cluster.get(f"{ENDPOINTS}/web").status == 200 and slices(cluster))
    for name in ("web", "plain"):
        cluster.delete(f"{SERVICES}/{name}").ok()
    left = (f"{ENDPOINTS}/web", f"{ENDPOINTS}/plain")
    cluster.eventually(lambda: {cluster.get(path).status for path in left} == {404} and not slices(cluster))
    cluster.get(f"{ENDPOINTS}/alone").ok()
    cluster.get(f"{ENDPOINTS}/kubernetes").ok()


def test_a_service_that_selects_nothing_any_more_keeps_what_it_has(cluster: Cluster) -> None:
    cluster.post(SERVICES, service()).ok()
    run(cluster, "a", "10.1.0.1")
    cluster.eventually(lambda: ready(cluster) == (["10.1.0.1"], ["10.1.0.1"]))
    cluster.patch(f"{SERVICES}/web", {"spec": {"selector": None}}).ok()
    cluster.eventually(lambda: len(slices(cluster)) == 2)
    managers = {one["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] for one in slices(cluster)}
    assert managers == {"endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"}, "as upstream"
    assert ready(cluster)[0] == ["10.1.0.1"]


def test_a_pod_waits_for_its_node_to_be_known(cluster: Cluster) -> None:
    cluster.post(SERVICES, service()).ok()
    run(cluster, "a", "10.1.0.1")
    cluster.eventually(lambda: ready(cluster)[1] == ["10.1.0.1"])
    container = {"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}]}
    tolerations = [{"operator": "Exists"}]
    spec = {"nodeName": "late", "containers": [container], "tolerations": tolerations}
    cluster.post(PODS, {"metadata": {"name": "b", "labels": {"app": "web"}}, "spec": spec}).ok()
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}]
    status = {"phase": "Running", "podIP": "10.1.0.2", "podIPs": [{"ip": "10.1.0.2"}], "conditions": conditions}
    cluster.patch(f"{PODS}/b/status", {"status": status}).ok()
    cluster.eventually(lambda: len(ready(cluster)[0]) == 2)
    assert ready(cluster)[1] == ["10.1.0.1"]
    cluster.post("/api/v1/nodes", {"metadata": {"name": "late"}}).ok()
    cluster.eventually(lambda: ready(cluster)[1] == ["10.1.0.1", "10.1.0.2"])


def test_a_service_that_went_while_nobody_looked_takes_its_endpoints_along(tmp_path: Path) -> None:
    first = Server(tmp_path / "data")
    cluster = fresh_cluster(first, profile="cluster")
    for name in ("web", "stays"):
        cluster.post(SERVICES, service(name)).ok()
    cluster.post(ENDPOINTS, {"metadata": {"name": "alone"}}).ok()
    cluster.eventually(
        lambda: slices(cluster) and slices(cluster, "stays") and cluster.get(f"{ENDPOINTS}/web").status == 200
    )
    first.call(first.shoal._controllers.stop())
    cluster.delete(f"{SERVICES}/web").ok()
    cluster.close()
    first.stop()
    second = Server(tmp_path / "data")
    again = Cluster(second, cluster.name)
    try:
        again.eventually(lambda: again.get(f"{ENDPOINTS}/web").status == 404 and not slices(again))
        for name in ("stays", "alone", "kubernetes"):
            again.get(f"{ENDPOINTS}/{name}").ok()
    finally:
        again.close()
        second.stop()
