"""ResourceQuota admission: writes that would exceed a quota are rejected, also under concurrency."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.serving import (
    DEFINITIONS,
    WIDGETS,
    Answer,
    Cluster,
    Server,
    config_map,
    fresh_cluster,
    widget,
    widget_definition,
)

Object = dict[str, Any]
NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
CONFIG_MAPS = f"{NAMESPACE}/configmaps"
SECRETS = f"{NAMESPACE}/secrets"


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    yield cluster
    cluster.close()


def limit(cluster: Cluster, hard: dict[str, str], namespace: str = "default", **spec: object) -> None:
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}
    cluster.post(f"/api/v1/namespaces/{namespace}/resourcequotas", body).ok()


def pod(name: str, requests: Object | None = None, limits: Object | None = None, **spec: object) -> Object:
    container = {"name": "c", "image": "x", "resources": {"requests": requests or {}, "limits": limits or {}}}
    body = {"containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def secret(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}


def refused(answer: Answer, message: str) -> None:
    assert (answer.status, answer["reason"], answer["message"]) == (403, "Forbidden", message)


def test_one_more_than_allowed(cluster: Cluster) -> None:
    limit(cluster, {"pods": "2"})
    for name in ("a", "b"):
        cluster.post(PODS, pod(name)).ok()
    answer = cluster.post(PODS, pod("c"))
    refused(answer, 'pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2')
    assert answer["details"] == {"name": "c", "kind": "pods"}
    assert cluster.get(f"{PODS}/c").status == 404
    cluster.delete(f"{PODS}/a?gracePeriodSeconds=0").ok()
    cluster.post(PODS, pod("c")).ok()


def test_nothing_slips_through_when_many_ask_at_once(cluster: Cluster) -> None:
    limit(cluster, {"secrets": "5"})
    before = len(cluster.get(SECRETS).ok()["items"])
    callers = [Cluster(cluster.server, cluster.name) for _ in range(8)]

    def ask(number: int) -> list[int]:
        return [callers[number].post(SECRETS, secret(f"s{number}-{at}")).status for at in range(4)]

    with ThreadPoolExecutor(8) as pool:
        codes = [code for found in pool.map(ask, range(8)) for code in found]
    for caller in callers:
        caller.close()
    assert codes.count(201) == 5 - before
    assert codes.count(403) == 32 - (5 - before)
    assert len(cluster.get(SECRETS).ok()["items"]) == 5


def test_compute(cluster: Cluster) -> None:
    limit(cluster, {"requests.cpu": "1", "limits.memory": "1Gi"})
    refused(
        cluster.post(PODS, pod("a")),
        'pods "a" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c',
    )
    cluster.post(PODS, pod("a", {"cpu": "600m"}, {"memory": "512Mi"})).ok()
    refused(
        cluster.post(PODS, pod("b", {"cpu": "500m"}, {"memory": "768Mi"})),
        'pods "b" is forbidden: exceeded quota: q, requested: limits.memory=768Mi,requests.cpu=500m, '
        "used: limits.memory=512Mi,requests.cpu=600m, limited: limits.memory=1Gi,requests.cpu=1",
    )
    cluster.post(PODS, pod("b", {"cpu": "400m"}, {"memory": "512Mi"})).ok()


def test_scopes(cluster: Cluster) -> None:
    limit(cluster, {"pods": "0"}, scopes=["BestEffort"])
    refused(
        cluster.post(PODS, pod("a")),
        'pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0',
    )
    cluster.post(PODS, pod("a", {"cpu": "1m"})).ok()


def test_counts_of_any_kind(cluster: Cluster) -> None:
    cluster.post(DEFINITIONS, widget_definition()).ok()
    limit(cluster, {"count/widgets.example.com": "1", "count/deployments.apps": "0"})
    cluster.post(WIDGETS, widget("a")).ok()
    said = "exceeded quota: q, requested: count/widgets.example.com=1, used: count/widgets.example.com=1, "
    message = f'widgets.example.com "b" is forbidden: {said}limited: count/widgets.example.com=1'
    refused(cluster.post(WIDGETS, widget("b")), message)
    refused(cluster.patch(f"{WIDGETS}/b?fieldManager=me", widget("b"), "apply"), message)
    cluster.patch(f"{WIDGETS}/a", {"spec": {"size": 7}}).ok()
    refused(cluster.post(f"{WIDGETS}?dryRun=All", widget("b")), message)


def test_a_service_that_becomes_more(cluster: Cluster) -> None:
    limit(cluster, {"services.nodeports": "1"})
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}}
    cluster.post(f"{NAMESPACE}/services", body).ok()
    refused(
        cluster.patch(f"{NAMESPACE}/services/s", {"spec": {"type": "NodePort"}}),
        'services "s" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, '
        "limited: services.nodeports=1",
    )
    cluster.patch(f"{NAMESPACE}/services/s", {"metadata": {"labels": {"x": "y"}}}).ok()


def test_storage(cluster: Cluster) -> None:
    limit(cluster, {"requests.storage": "10Gi", "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "0"})
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "11Gi"}}},
    }
    path = f"{NAMESPACE}/persistentvolumeclaims"
    refused(
        cluster.post(path, claim),
        'persistentvolumeclaims "c" is forbidden: exceeded quota: q, requested: requests.storage=11Gi, '
        "used: requests.storage=0, limited: requests.storage=10Gi",
    )
    claim["spec"] |= {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}}  # type: ignore[operator]
    name = "gold.storageclass.storage.k8s.io/persistentvolumeclaims"
    refused(
        cluster.post(path, claim),
        f'persistentvolumeclaims "c" is forbidden: exceeded quota: q, requested: {name}=1, used: {name}=0, '
        f"limited: {name}=0",
    )


def test_a_quota_is_of_its_namespace(cluster: Cluster) -> None:
    limit(cluster, {"configmaps": "0"}, namespace="kube-public")
    cluster.post(CONFIG_MAPS, config_map("a")).ok()
    assert cluster.post("/api/v1/namespaces/kube-public/configmaps", config_map("a")).status == 403


def test_a_pod_without_an_account_is_given_the_default_one(cluster: Cluster) -> None:
    made = cluster.post(PODS, pod("a")).ok()
    assert (made["spec"]["serviceAccountName"], made["spec"]["serviceAccount"]) == ("default", "default")
    named = cluster.post(PODS, pod("b", serviceAccountName="robot")).ok()
    assert named["spec"]["serviceAccountName"] == "robot"
