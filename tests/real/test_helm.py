"""Helm 3 and 4 (peers/helm) with a chart of their own (charts/shop): a release from install to uninstall.

A cluster of profile hub has no workloads, so there the chart is installed without them.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.building import built
from tests.serving import DEFINITIONS, HANG, Cluster, Server, fresh_cluster

CHART = Path(__file__).parent / "charts" / "shop"
SHOP = "/api/v1/namespaces/shop"
RELEASE = {
    f"{SHOP}/configmaps/one",
    f"{SHOP}/secrets/one",
    f"{SHOP}/serviceaccounts/one",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles/one",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings/one",
    "/apis/shop.example.com/v1/namespaces/shop/coupons/one",
}
DEPLOYMENT = "/apis/apps/v1/namespaces/shop/deployments/one"
WORKLOADS = {DEPLOYMENT, f"{SHOP}/services/one"}


class Helm:
    """One Helm, logged into one logical cluster."""

    def __init__(self, name: str, cluster: Cluster, profile: str, home: Path) -> None:
        path = built(name)
        if path is None:
            pytest.skip(f"{name} (not built)")
        self.name = name
        self.cluster = cluster
        self.has_workloads = profile == "cluster"
        config = cluster.kubeconfig(home / "kubeconfig")
        self._command = [str(path), f"--kubeconfig={config}", "--namespace=shop"]
        self._environment = {"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(home)}

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *args],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG,
        )

    def __call__(self, *args: str) -> str:
        done = self.run(*args)
        assert done.returncode == 0, f"{self.name} {' '.join(args)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def json(self, *args: str) -> Any:
        return json.loads(self(*args, "-o", "json"))

    @property
    def values(self) -> tuple[str, ...]:
        return () if self.has_workloads else ("--set", "workloads=false")

    @property
    def objects(self) -> set[str]:
        return RELEASE | WORKLOADS if self.has_workloads else RELEASE


@pytest.fixture(params=["hub", "cluster"])
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["helm3", "helm4"])
def helm(request: pytest.FixtureRequest, server: Server, profile: str, tmp_path: Path) -> Iterator[Helm]:
    cluster = fresh_cluster(server, profile)
    yield Helm(request.param, cluster, profile, tmp_path)
    cluster.close()


def test_release(helm: Helm) -> None:
    cluster = helm.cluster
    # Nothing makes a Deployment ready here, so there is nothing to wait for where there is one.
    wait = () if helm.has_workloads else ("--wait",)
    installed = helm.json("install", "one", str(CHART), "--create-namespace", *wait, *helm.values)
    assert (installed["version"], installed["info"]["status"]) == (1, "deployed")
    assert installed["info"]["notes"].startswith("hello from one")
    assert ("with workloads" in installed["info"]["notes"]) == helm.has_workloads, "what the server serves"
    assert cluster.get(f"{DEFINITIONS}/coupons.shop.example.com").ok()["spec"]["group"] == "shop.example.com"
    uid = cluster.get("/api/v1/namespaces/default").ok()["metadata"]["uid"]
    assert data(helm) == {"greeting": "hello", "revision": "1", "found": uid}, "lookup finds what is there"
    assert {path: cluster.get(path).status for path in helm.objects} == dict.fromkeys(helm.objects, 200)

    helm("upgrade", "one", str(CHART), "--set", "greeting=good day,replicas=3", *helm.values)
    assert data(helm) == {"greeting": "good day", "revision": "2", "found": uid}
    assert not helm.has_workloads or cluster.get(DEPLOYMENT).ok()["spec"]["replicas"] == 3
    assert "good day" in helm("get", "manifest", "one")
    assert helm.json("get", "values", "one")["greeting"] == "good day"

    helm("rollback", "one", "1")
    assert data(helm)["greeting"] == "hello"
    assert not helm.has_workloads or cluster.get(DEPLOYMENT).ok()["spec"]["replicas"] == 1
    history = [(row["revision"], row["status"], row["description"]) for row in helm.json("history", "one")]
    assert [(number, status) for number, status, _ in history] == [
        (1, "superseded"),
        (2, "superseded"),
        (3, "deployed"),
    ]
    assert history[2][2] == "Rollback to 1"
    (row,) = helm.json("list")
    assert (row["name"], row["revision"], row["chart"]) == ("one", "3", "shop-1.0.0")

    helm("uninstall", "one", "--wait")
    assert {path: cluster.get(path).status for path in helm.objects} == dict.fromkeys(helm.objects, 404)
    assert helm.json("list") == []
    kept = cluster.get(f"{SHOP}/secrets?labelSelector=owner=helm").ok()["items"]
    assert kept == [], "the records of the release go with it"
    assert cluster.get(f"{DEFINITIONS}/coupons.shop.example.com").status == 200, "Helm never deletes definitions"


def test_upgrade_mends_drift_and_prunes(helm: Helm) -> None:
    """What somebody changed goes back; what the chart no longer has goes away."""
    cluster = helm.cluster
    helm("upgrade", "--install", "one", str(CHART), "--create-namespace", *helm.values)
    found = data(helm)["found"]
    cluster.patch(f"{SHOP}/configmaps/one", {"data": {"greeting": "drifted", "more": "kept"}}).ok()
    conflicts = ("--force-conflicts",) if helm.name == "helm4" else ()
    helm("upgrade", "one", str(CHART), "--set", "workloads=false", *conflicts)
    assert data(helm) == {"greeting": "hello", "revision": "2", "found": found, "more": "kept"}
    assert all(cluster.get(path).status == 404 for path in WORKLOADS)


def test_ownership_and_dry_run(helm: Helm) -> None:
    """What is there already is not Helm's, unless told so; a dry run at the server changes nothing."""
    cluster = helm.cluster
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "shop"}}).ok()
    cluster.post(f"{SHOP}/serviceaccounts", {"metadata": {"name": "one"}}).ok()
    failed = helm.run("install", "one", str(CHART), *helm.values)
    assert failed.returncode == 1
    assert 'ServiceAccount "one" in namespace "shop" exists and cannot be imported' in failed.stderr
    assert cluster.get(f"{SHOP}/configmaps/one").status == 404
    helm("install", "one", str(CHART), "--take-ownership", *helm.values)
    labels = cluster.get(f"{SHOP}/serviceaccounts/one").ok()["metadata"]["labels"]
    assert labels["app.kubernetes.io/managed-by"] == "Helm"
    before = data(helm)
    rendered = helm("upgrade", "one", str(CHART), "--dry-run=server", "--set", "greeting=good day", *helm.values)
    assert 'greeting: "good day"' in rendered
    assert data(helm) == before
    assert [row["revision"] for row in helm.json("history", "one")] == [1]


def data(helm: Helm) -> Any:
    return helm.cluster.get(f"{SHOP}/configmaps/one").ok()["data"]
