"""Tests of the ResourceQuota controller: status.used follows existing objects and covers only the quota's resources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shoal.controlplane.quota.decide import needs_writing, next_change, status, watched
from shoal.kinds.quota_usage import charge
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
    charges = {("", "pods"): [charge("", "pods", pod("a", "100m"))] * 3, ("", "secrets"): []}
    assert status(obj, charges, NOW) == {
        "hard": obj["spec"]["hard"],
        "used": {"pods": "3", "requests.cpu": "300m", "secrets": "0"},
    }


def test_only_pods_in_scope_count() -> None:
    obj = quota({"pods": "5"}, scopes=["BestEffort"])
    charges = {("", "pods"): [charge("", "pods", pod("a")), charge("", "pods", pod("b", "1"))]}
    assert status(obj, charges, NOW)["used"] == {"pods": "1"}


def test_a_status_that_is_right_is_left_alone() -> None:
    obj = quota({"pods": "5"})
    wanted = status(obj, {("", "pods"): []}, NOW)
    assert needs_writing(obj, wanted)
    assert not needs_writing({**obj, "status": wanted}, wanted)
    assert needs_writing({**obj, "status": {**wanted, "hard": {"pods": "4"}}}, wanted)


def test_every_kind_of_every_quota_is_watched() -> None:
    assert watched([quota({"pods": "1"}), quota({"limits.cpu": "1", "secrets": "1"})]) == {
        ("", "pods"),
        ("", "secrets"),
    }


def test_a_pod_that_overstays_is_looked_at_again() -> None:
    going = pod("a")
    going["metadata"] |= {"deletionTimestamp": "2023-11-14T22:13:20Z", "deletionGracePeriodSeconds": 30}
    charges = {("", "pods"): [charge("", "pods", going), charge("", "pods", pod("b"))]}
    assert next_change(charges, NOW) == pytest.approx(30, abs=0.1)
    assert next_change(charges, NOW + 60) is None


# --- in a running server ---


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    yield cluster
    cluster.close()


def used(cluster: Cluster) -> Callable[[], Object]:
    return lambda: (cluster.get(f"{QUOTAS}/q").ok().get("status") or {}).get("used") or {}


def becomes(cluster: Cluster, **wanted: str) -> None:
    look = used(cluster)
    cluster.eventually(lambda: all(look().get(name) == value for name, value in wanted.items()))


def test_the_status_follows_creation_and_deletion(cluster: Cluster) -> None:
    hard = {"pods": "5", "requests.cpu": "1", "count/widgets.example.com": "2"}
    cluster.post(QUOTAS, quota(hard)).ok()
    becomes(cluster, pods="0", **{"requests.cpu": "0"})
    assert cluster.get(f"{QUOTAS}/q").ok()["status"]["hard"] == hard
    for name in ("a", "b"):
        cluster.post(f"{NAMESPACE}/pods", pod(name, "100m")).ok()
    becomes(cluster, pods="2", **{"requests.cpu": "200m"})
    cluster.delete(f"{NAMESPACE}/pods/a?gracePeriodSeconds=0").ok()
    becomes(cluster, pods="1", **{"requests.cpu": "100m"})


def test_the_status_follows_the_quota(cluster: Cluster) -> None:
    cluster.post(DEFINITIONS, widget_definition()).ok()
    cluster.post(WIDGETS, widget("a")).ok()
    cluster.post(QUOTAS, quota({"count/widgets.example.com": "2"})).ok()
    becomes(cluster, **{"count/widgets.example.com": "1"})
    cluster.patch(f"{QUOTAS}/q", {"spec": {"hard": {"count/widgets.example.com": None, "services": "3"}}}).ok()
    cluster.eventually(lambda: set(used(cluster)()) == {"services"})
    cluster.delete(f"{QUOTAS}/q").ok()
    cluster.post(QUOTAS, quota({"resourcequotas": "1"})).ok()
    becomes(cluster, resourcequotas="1")


def test_an_untrue_status_is_put_right(cluster: Cluster) -> None:
    cluster.post(QUOTAS, quota({"pods": "5"})).ok()
    becomes(cluster, pods="0")
    cluster.patch(f"{QUOTAS}/q/status", {"status": {"used": {"pods": "4"}}}).ok()
    becomes(cluster, pods="0")
