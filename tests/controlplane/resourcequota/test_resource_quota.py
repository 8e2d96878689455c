"""Tests of the ResourceQuota controller: status.used follows existing objects and covers only the quota's resources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shoal.controlplane.resourcequota.controller import needs_update, next_change, quota_resources, quota_status
from shoal.kinds.core.quota_usage import measure
from tests.serving import DEFINITIONS, WIDGETS, Cluster, Server, fresh_cluster, widget, widget_definition

Object = dict[str, Any]
NAMESPACE = "/api/v1/namespaces/default"
QUOTAS = f"{NAMESPACE}/resourcequotas"
NOW = 1_700_000_000.0


def quota(hard: dict[str, str], **spec: object) -> Object:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}


def pod(name: str, cpu: str = "") -> Object:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu} if cpu else {}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


# --- what is decided ---


def test_usage_of_what_is_served() -> None:
    obj = quota({"pods": "5", "requests.cpu": "1", "secrets": "2", "count/absent.example.com": "1"})
    charges = {("", "pods"): [measure("", "pods", pod("a", "100m"))] * 3, ("", "secrets"): []}
    assert quota_status(obj, charges, NOW) == {
        "hard": obj["spec"]["hard"],
        "used": {"pods": "3", "requests.cpu": "300m", "secrets": "0"},
    }


def test_only_pods_in_scope_count() -> None:
    obj = quota({"pods": "5"}, scopes=["BestEffort"])
    charges = {("", "pods"): [measure("", "pods", pod("a")), measure("", "pods", pod("b", "1"))]}
    assert quota_status(obj, charges, NOW)["used"] == {"pods": "1"}


def test_a_status_that_is_right_is_left_alone() -> None:
    obj = quota({"pods": "5"})
    wanted = quota_status(obj, {("", "pods"): []}, NOW)
    assert needs_update(obj, wanted)
    assert not needs_update({**obj, "status": wanted}, wanted)
    assert needs_update({**obj, "status": {**wanted, "hard": {"pods": "4"}}}, wanted)


def test_every_kind_of_every_quota_is_watched() -> None:
    assert quota_resources([quota({"pods": "1"}), quota({"limits.cpu": "1", "secrets": "1"})]) == {
        ("", "pods"),
        ("", "secrets"),
    }


def test_a_pod_that_overstays_is_looked_at_again() -> None:
    going = pod("a")
    going["metadata"] |= {"deletionTimestamp": "2023-11-14T22:13:20Z", "deletionGracePeriodSeconds": 30}
    charges = {("", "pods"): [measure("", "pods", going), measure("", "pods", pod("b"))]}
    assert next_change(charges, NOW) == pytest.approx(30, abs=0.1)
    assert next_change(charges, NOW + 60) is None


# --- in a running server ---


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    yield cluster
    cluster.close()


def usage_reader(cluster: Cluster) -> Callable[[], Object]:
    return lambda: (cluster.get(f"{QUOTAS}/q").ok().get("status") or {}).get("used") or {}


def wait_usage(cluster: Cluster, **wanted: str) -> None:
    look = usage_reader(cluster)
    cluster.eventually(lambda: all(look().get(name) == value for name, value in wanted.items()))


def test_the_status_follows_creation_and_deletion(cluster: Cluster) -> None:
    hard = {"pods": "5", "requests.cpu": "1", "count/widgets.example.com": "2"}
    cluster.post(QUOTAS, quota(hard)).ok()
    wait_usage(cluster, pods="0", **{"requests.cpu": "0"})
    assert cluster.get(f"{QUOTAS}/q").ok()["status"]["hard"] == hard
    for name in ("a", "b"):
        cluster.post(f"{NAMESPACE}/pods", pod(name, "100m")).ok()
    wait_usage(cluster, pods="2", **{"requests.cpu": "200m"})
    cluster.delete(f"{NAMESPACE}/pods/a?gracePeriodSeconds=0").ok()
    wait_usage(cluster, pods="1", **{"requests.cpu": "100m"})


def test_the_status_follows_the_quota(cluster: Cluster) -> None:
    cluster.post(DEFINITIONS, widget_definition()).ok()
    cluster.post(WIDGETS, widget("a")).ok()
    cluster.post(QUOTAS, quota({"count/widgets.example.com": "2"})).ok()
    wait_usage(cluster, **{"count/widgets.example.com": "1"})
    cluster.patch(f"{QUOTAS}/q", {"spec": {"hard": {"count/widgets.example.com": None, "services": "3"}}}).ok()
    cluster.eventually(lambda: set(usage_reader(cluster)()) == {"services"})
    cluster.delete(f"{QUOTAS}/q").ok()
    cluster.post(QUOTAS, quota({"resourcequotas": "1"})).ok()
    wait_usage(cluster, resourcequotas="1")


def test_an_untrue_status_is_put_right(cluster: Cluster) -> None:
    cluster.post(QUOTAS, quota({"pods": "5"})).ok()
    wait_usage(cluster, pods="0")
    cluster.patch(f"{QUOTAS}/q/status", {"status": {"used": {"pods": "4"}}}).ok()
    wait_usage(cluster, pods="0")
