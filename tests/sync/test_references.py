"""Dependencies of pods, the reference index, downstream transforms and the deletion guard: as tables."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.clock import FakeClock
from shoal.kinds import workload
from shoal.kinds.pod_references import Need, needs_of
from shoal.sync.syncer.guard import FEW, WINDOW_SECONDS, Guard
from shoal.sync.syncer.namespaces import located, locator, suffixed
from shoal.sync.syncer.references import Ref, References, refs_of
from shoal.sync.syncer.travelling import refusal, travelling

Object = dict[str, Any]

CONTAINERS = [
    {
        "name": "web",
        "envFrom": [{"configMapRef": {"name": "env"}}, {"secretRef": {"name": "env-secret"}}],
        "env": [
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "key", "key": "a"}}},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "key-secret", "key": "b"}}},
            {"name": "C", "value": "plain"},
            {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
    }
]
POD = {
    "serviceAccountName": "runner",
    "imagePullSecrets": [{"name": "registry"}],
    "initContainers": [{"name": "init", "envFrom": [{"configMapRef": {"name": "init"}}]}],
    "containers": CONTAINERS,
    "volumes": [
        {"name": "a", "configMap": {"name": "files"}},
        {"name": "b", "secret": {"secretName": "certificate"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "d", "projected": {"sources": [{"configMap": {"name": "p"}}, {"secret": {"name": "p-secret"}}]}},
        {"name": "e", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}},
        {"name": "f", "emptyDir": {}},
        {"name": "g", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "csi"}}},
    ],
}
NEEDS = {
    *(Need("configmaps", name) for name in ("env", "key", "init", "files", "p")),
    *(Need("secrets", name) for name in ("env-secret", "key-secret", "registry", "certificate", "p-secret", "csi")),
    Need("serviceaccounts", "runner"),
    Need("persistentvolumeclaims", "data"),
}


@pytest.mark.parametrize(
    "spec",
    [POD, {"template": {"spec": POD}}, {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": POD}}}}],
)
def test_what_a_pod_needs(spec: Object) -> None:
    assert needs_of({"metadata": {"name": "web"}, "spec": spec}) == NEEDS


@pytest.mark.parametrize("obj", [{}, {"spec": None}, {"spec": {"size": 1}}, {"spec": {"template": {"spec": {}}}}])
def test_what_has_no_pods_needs_nothing(obj: Object) -> None:
    assert needs_of({"metadata": {"name": "web"}, **obj}) == set()


def test_an_account_brings_its_pull_secrets() -> None:
    account = {"metadata": {"name": "a", "namespace": "n"}, "imagePullSecrets": [{"name": "registry"}]}
    assert refs_of(account, "serviceaccounts", "") == {Ref("secrets", "n", "registry")}


def test_who_names_what() -> None:
    references: References[str] = References()
    a, b = Ref("configmaps", "n", "a"), Ref("configmaps", "n", "b")
    assert references.put("east", "web", "deployments.apps", frozenset({a})) == {a}
    assert references.put("east", "job", "jobs.batch", frozenset({a, b})) == {a, b}
    assert references.put("west", "web", "deployments.apps", frozenset({a})) == {a}
    assert references.kinds("east", a) == {"deployments.apps", "jobs.batch"}
    assert references.clusters(a) == {"east", "west"}
    assert sorted(references.of_cluster("east")) == [a, b]
    assert references.put("east", "web", "deployments.apps", frozenset()) == {a}
    assert references.kinds("east", a) == {"jobs.batch"}
    assert references.named_from("web") == {"west"}
    assert references.put("east", "job", "jobs.batch", frozenset({b})) == {a}
    assert references.clusters(a) == {"west"}


def test_what_servers_fill_in_does_not_travel() -> None:
    service = {
        "metadata": {"name": "web", "labels": {"a": "b", workload.dependency_label("east"): ""}},
        "spec": {
            "clusterIP": "10.0.0.1",
            "clusterIPs": ["10.0.0.1"],
            "ipFamilies": ["IPv4"],
            "ports": [{"port": 80, "nodePort": 30000}],
            "selector": {"app": "web"},
        },
    }
    made = travelling("v1", "Service", service)
    assert made["spec"] == {"ports": [{"port": 80}], "selector": {"app": "web"}}
    assert made["metadata"] == {"name": "web", "labels": {"a": "b"}, "annotations": {}}
    headless = travelling("v1", "Service", {"metadata": {"name": "web"}, "spec": {"clusterIP": "None"}})
    assert headless["spec"] == {"clusterIP": "None"}
    claim = {"metadata": {"name": "data"}, "spec": {"volumeName": "pv-1", "accessModes": ["ReadWriteOnce"]}}
    assert travelling("v1", "PersistentVolumeClaim", claim)["spec"] == {"accessModes": ["ReadWriteOnce"]}
    account = {"metadata": {"name": "a"}, "secrets": [{"name": "token"}], "imagePullSecrets": [{"name": "r"}]}
    assert "secrets" not in travelling("v1", "ServiceAccount", account)
    mounted = {"name": "web", "volumeMounts": [{"name": "kube-api-access-x", "mountPath": "/t"}]}
    pod = {"nodeName": "n", "containers": [mounted], "volumes": [{"name": "kube-api-access-x"}]}
    made = travelling("v1", "Pod", {"metadata": {"name": "p"}, "spec": pod})
    assert made["spec"] == {"containers": [{"name": "web"}], "volumes": []}
    labels = {"batch.kubernetes.io/controller-uid": "u", "app": "x"}
    job = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {}}}
    made = travelling("batch/v1", "Job", {"metadata": {"name": "j", "labels": {}}, "spec": job})
    assert made["spec"] == {"template": {"metadata": {"labels": {"app": "x"}}, "spec": {}}}


@pytest.mark.parametrize(
    ("obj", "plural", "refused"),
    [
        ({"metadata": {"name": "a", "namespace": "default"}}, "secrets", False),
        ({"metadata": {"name": "a", "namespace": "kube-system"}}, "secrets", True),
        ({"metadata": {"name": "a"}, "type": "kubernetes.io/service-account-token"}, "secrets", True),
        ({"metadata": {"name": "kube-root-ca.crt", "namespace": "default"}}, "configmaps", True),
        ({"metadata": {"name": "kube-root-ca.crt", "namespace": "default"}}, "secrets", False),
    ],
)
def test_what_does_not_travel_at_all(obj: Object, plural: str, refused: bool) -> None:
    assert bool(refusal(obj, plural)) == refused


@pytest.mark.parametrize(
    ("plural", "group", "may"),
    [
        ("deployments", "apps", True),
        ("widgets", "example.com", True),
        ("clusterroles", "rbac.authorization.k8s.io", True),
        ("namespaces", "", False),
        ("nodes", "", False),
        ("customresourcedefinitions", "apiextensions.k8s.io", False),
        ("clusters", "workload.kcp.dev", False),
        ("managedclusters", "infrastructure.cluster.x-k8s.io", False),
        ("placements", "placement.shoal.dev", False),
    ],
)
def test_kinds_that_travel(plural: str, group: str, may: bool) -> None:
    assert workload.may_travel(plural, group) == may


def test_names_of_namespaces() -> None:
    name = suffixed("hub-1", "n" * 63)
    assert len(name) <= 63
    assert name != suffixed("hub-2", "n" * 63)
    assert suffixed("hub-1", "team").startswith("team-")

    def named(said: str) -> Object:
        return {"metadata": {"name": "x", "annotations": {workload.LOCATOR: said}}}

    assert located(named(locator("hub-1", "team"))) == ("hub-1", "team")
    assert located(named("not json")) == ("?", "")
    assert located(named("[]")) == ("?", "")
    assert located({"metadata": {"name": "x"}}) == ("", "")


def test_much_at_once_is_held() -> None:
    clock = FakeClock()
    guard = Guard(clock)
    assert guard.admits(leaving=FEW, managed=FEW)
    assert guard.admits(leaving=50, managed=100)
    for _ in range(FEW):
        guard.deleted()
    clock.step(WINDOW_SECONDS + 1)
    assert guard.admits(leaving=1, managed=10)
    for _ in range(FEW):
        guard.deleted()
    assert not guard.admits(leaving=1, managed=10)
    # Once stopped, time alone does not let it go on.
    clock.step(WINDOW_SECONDS + 1)
    assert not guard.admits(leaving=1, managed=10)
    guard.allowed = True
    assert guard.admits(leaving=100, managed=100)
    guard.allowed = False
    assert guard.admits(leaving=1, managed=100)
    assert not guard.admits(leaving=51, managed=100)
