"""Kubernetes versions of logical clusters through the server: what is reported and served, upgraded at run time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving import DEFINITIONS, WIDGETS, Cluster, Server, config_map, widget, widget_definition

LOGICAL = "/apis/core.shoal.dev/v1alpha1/logicalclusters"
MAPS = "/api/v1/namespaces/default/configmaps"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
INFRASTRUCTURE = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/default"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_numbers = itertools.count()


@pytest.fixture
def root(server: Server) -> Iterator[Cluster]:
    root = Cluster(server, "root")
    yield root
    root.close()


def declared(version: str, profile: str = "cluster") -> dict[str, Any]:
    return {
        "apiVersion": "core.shoal.dev/v1alpha1",
        "kind": "LogicalCluster",
        "metadata": {"name": f"version-{next(_numbers)}"},
        "spec": {"profile": profile, "version": version},
    }


@pytest.fixture
def old(server: Server, root: Cluster) -> Iterator[Cluster]:
    """A cluster of 1.30."""
    made = root.post(LOGICAL, declared("v1.30.2")).ok()
    cluster = Cluster(server, made["metadata"]["name"])
    yield cluster
    cluster.close()


def upgrade(root: Cluster, cluster: Cluster, version: str) -> Any:
    return root.patch(f"{LOGICAL}/{cluster.name}", {"spec": {"version": version}})


def groups(cluster: Cluster) -> dict[str, list[str]]:
    found = cluster.get("/apis", Accept=AGGREGATED).ok()["items"]
    return {
        group["metadata"]["name"]: [r["resource"] for version in group["versions"] for r in version["resources"]]
        for group in found
    }


def test_an_older_cluster_says_and_serves_what_it_is(old: Cluster) -> None:
    said = old.get("/version").ok()
    assert (said["major"], said["minor"], said["gitVersion"].partition("+")[0]) == ("1", "30", "v1.30.2")
    assert "resource.k8s.io" not in groups(old)
    assert "servicecidrs" not in groups(old)["networking.k8s.io"]
    assert "validatingadmissionpolicies" in groups(old)["admissionregistration.k8s.io"]
    assert "apis/resource.k8s.io/v1" not in old.get("/openapi/v3").ok()["paths"]
    assert old.get(CLAIMS).status == 404
    assert old.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").status == 404
    assert old.get("/api/v1/namespaces/default/pods/a/resize").status == 404
    assert "Warning" not in old.get("/api/v1/endpoints").headers


def test_an_upgrade_needs_no_restart(old: Cluster, root: Cluster) -> None:
    with old.watch(f"{MAPS}?fieldSelector=metadata.name%3Dafter") as watch:
        upgrade(root, old, "v1.34.1").ok()
        assert old.get("/version").ok()["minor"] == "34"
        assert old.get(CLAIMS).ok()["items"] == []
        assert "resourceclaims" in groups(old)["resource.k8s.io"]
        assert "apis/resource.k8s.io/v1" in old.get("/openapi/v3").ok()["paths"]
        assert old.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").status == 200
        assert "mutatingadmissionpolicies" not in groups(old)["admissionregistration.k8s.io"]
        old.post(MAPS, config_map("after")).ok()
        assert watch.next()["object"]["metadata"]["name"] == "after"
    upgrade(root, old, "").ok()
    assert old.get("/version").ok()["minor"] == "36"
    assert "mutatingadmissionpolicies" in groups(old)["admissionregistration.k8s.io"]


def test_definitions_of_its_own_live_through_an_upgrade(old: Cluster, root: Cluster) -> None:
    old.post(DEFINITIONS, widget_definition()).ok()
    old.eventually(lambda: old.get(WIDGETS).status == 200)
    old.post(WIDGETS, widget("a")).ok()
    assert old.get(CLAIMS).status == 404
    upgrade(root, old, "v1.35.0").ok()
    assert old.get(CLAIMS).status == 200
    assert old.get(f"{WIDGETS}/a").ok()["spec"]["size"] == 1


def test_no_way_back(old: Cluster, root: Cluster) -> None:
    answer = upgrade(root, old, "v1.29.9")
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["message"].endswith("spec.version: Forbidden: a cluster cannot be downgraded from v1.30.2 to v1.29.9")
    upgrade(root, old, "v1.30.0").ok()
    assert old.get("/version").ok()["gitVersion"].startswith("v1.30.0")


@pytest.mark.parametrize("version", ["v1.26.15", "v1.37.0", "v2.0.0"])
def test_other_versions_are_refused_with_those_there_are(root: Cluster, version: str) -> None:
    answer = root.post(LOGICAL, declared(version))
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    (cause,) = answer["details"]["causes"]
    supported = ", ".join(f'"v1.{minor}"' for minor in range(27, 37))
    assert cause["message"] == f'Unsupported value: "{version}": supported values: {supported}'


@pytest.mark.parametrize("kind", ["ManagedCluster", "EmbeddedCluster"])
def test_kinds_that_ask_for_a_cluster_are_checked_too(root: Cluster, kind: str) -> None:
    body = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": f"old-{next(_numbers)}"},
        "spec": {"version": "v1.19.0"},
    }
    answer = root.post(f"{INFRASTRUCTURE}/{kind.lower()}s", body)
    assert answer.status == 422
    assert 'Unsupported value: "v1.19.0": supported values: "v1.27"' in answer["message"]


def test_everything_is_seen_through_the_wildcard(old: Cluster, server: Server) -> None:
    """Loops watch a kind once for all clusters, whichever of them serve it."""
    everywhere = Cluster(server, "*")
    assert everywhere.get(CLAIMS).status == 200
    everywhere.close()
