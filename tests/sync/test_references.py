"""Dependencies of pods, the reference index, downstream transforms and the deletion guard: as tables."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.clock import FakeClock
from shoal.kinds.core.pod.references import PodReference, pod_references
from shoal.kinds.workload import workloadcluster
from shoal.sync.syncer.namespaces import locator, name_with_suffix, parse_locator
from shoal.sync.syncer.object_sync import FREE_DELETIONS, WINDOW_SECONDS, DeletionGuard
from shoal.sync.syncer.references import DependencyRef, ReferenceIndex, references_of
from shoal.sync.syncer.transform import reject_reason, to_downstream

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
    *(PodReference("configmaps", name) for name in ("env", "key", "init", "files", "p")),
    *(
        PodReference("secrets", name)
        for name in ("env-secret", "key-secret", "registry", "certificate", "p-secret", "csi")
    ),
    PodReference("serviceaccounts", "runner"),
    PodReference("persistentvolumeclaims", "data"),
}


@pytest.mark.parametrize(
    "spec",
    [POD, {"template": {"spec": POD}}, {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": POD}}}}],
)
def test_what_a_pod_needs(spec: Object) -> None:
    assert pod_references({"metadata": {"name": "web"}, "spec": spec}) == NEEDS


@pytest.mark.parametrize("obj", [{}, {"spec": None}, {"spec": {"size": 1}}, {"spec": {"template": {"spec": {}}}}])
def test_what_has_no_pods_needs_nothing(obj: Object) -> None:
    assert pod_references({"metadata": {"name": "web"}, **obj}) == set()


def test_an_account_brings_its_pull_secrets() -> None:
    account = {"metadata": {"name": "a", "namespace": "n"}, "imagePullSecrets": [{"name": "registry"}]}
    assert references_of(account, "serviceaccounts", "") == {DependencyRef("secrets", "n", "registry")}


def test_who_names_what() -> None:
    references: ReferenceIndex[str] = ReferenceIndex()
    a, b = DependencyRef("configmaps", "n", "a"), DependencyRef("configmaps", "n", "b")
    assert references.set_references("east", "web", "deployments.apps", frozenset({a})) == {a}
    assert references.set_references("east", "job", "jobs.batch", frozenset({a, b})) == {a, b}
    assert references.set_references("west", "web", "deployments.apps", frozenset({a})) == {a}
    assert references.referrer_kinds("east", a) == {"deployments.apps", "jobs.batch"}
    assert references.clusters_of(a) == {"east", "west"}
    assert sorted(references.references_in("east")) == [a, b]
    assert references.set_references("east", "web", "deployments.apps", frozenset()) == {a}
    assert references.referrer_kinds("east", a) == {"jobs.batch"}
    assert references.clusters_of_referrer("web") == {"west"}
    assert references.set_references("east", "job", "jobs.batch", frozenset({b})) == {a}
    assert references.clusters_of(a) == {"west"}


def test_what_servers_fill_in_does_not_travel() -> None:
    service = {
        "metadata": {"name": "web", "labels": {"a": "b", workloadcluster.dependency_label("east"): ""}},
        "spec": {
            "clusterIP": "10.0.0.1",
            "clusterIPs": ["10.0.0.1"],
            "ipFamilies": ["IPv4"],
            "ports": [{"port": 80, "nodePort": 30000}],
            "selector": {"app": "web"},
        },
    }
    made = to_downstream("v1", "Service", service)
    assert made["spec"] == {"ports": [{"port": 80}], "selector": {"app": "web"}}
    assert made["metadata"] == {"name": "web", "labels": {"a": "b"}, "annotations": {}}
    headless = to_downstream("v1", "Service", {"metadata": {"name": "web"}, "spec": {"clusterIP": "None"}})
    assert headless["spec"] == {"clusterIP": "None"}
    claim = {"metadata": {"name": "data"}, "spec": {"volumeName": "pv-1", "accessModes": ["ReadWriteOnce"]}}
    assert to_downstream("v1", "PersistentVolumeClaim", claim)["spec"] == claim["spec"], "as its author named it"
    bound = {"metadata": {"name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
    made = to_downstream("v1", "PersistentVolumeClaim", {**bound, "spec": claim["spec"]})
    assert (made["spec"], made["metadata"]["annotations"]) == ({"accessModes": ["ReadWriteOnce"]}, {})
    reserved = {"namespace": "default", "name": "data"}
    volume = {"metadata": {"name": "v"}, "spec": {"claimRef": {**reserved, "uid": "u", "resourceVersion": "7"}}}
    assert to_downstream("v1", "PersistentVolume", volume)["spec"] == {"claimRef": reserved}
    found = {"metadata": {"name": "v", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}}
    assert to_downstream("v1", "PersistentVolume", {**found, "spec": volume["spec"]})["spec"] == {}
    account = {"metadata": {"name": "a"}, "secrets": [{"name": "token"}], "imagePullSecrets": [{"name": "r"}]}
    assert "secrets" not in to_downstream("v1", "ServiceAccount", account)
    mounted = {"name": "web", "volumeMounts": [{"name": "kube-api-access-x", "mountPath": "/t"}]}
    pod = {"nodeName": "n", "containers": [mounted], "volumes": [{"name": "kube-api-access-x"}]}
    made = to_downstream("v1", "Pod", {"metadata": {"name": "p"}, "spec": pod})
    assert made["spec"] == {"containers": [{"name": "web"}], "volumes": []}
    labels = {"batch.kubernetes.io/controller-uid": "u", "app": "x"}
    job = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {}}}
    made = to_downstream("batch/v1", "Job", {"metadata": {"name": "j", "labels": {}}, "spec": job})
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
    assert bool(reject_reason(obj, plural)) == refused


@pytest.mark.parametrize(
    ("plural", "group", "may"),
    [
        ("deployments", "apps", True),
        ("widgets", "example.com", True),
        ("clusterroles", "rbac.authorization.k8s.io", True),
        ("persistentvolumes", "", True),
        ("namespaces", "", False),
        ("nodes", "", False),
        ("customresourcedefinitions", "apiextensions.k8s.io", False),
        ("clusters", "workload.kcp.dev", False),
        ("managedclusters", "infrastructure.cluster.x-k8s.io", False),
        ("placements", "placement.shoal.dev", False),
    ],
)
def test_kinds_that_travel(plural: str, group: str, may: bool) -> None:
    assert workloadcluster.is_syncable(plural, group) == may


def test_names_of_namespaces() -> None:
    name = name_with_suffix("hub-1", "n" * 63)
    assert len(name) <= 63
    assert name != name_with_suffix("hub-2", "n" * 63)
    assert name_with_suffix("hub-1", "team").startswith("team-")

    def named(said: str) -> Object:
        return {"metadata": {"name": "x", "annotations": {workloadcluster.NAMESPACE_LOCATOR_ANNOTATION: said}}}

    assert parse_locator(named(locator("hub-1", "team"))) == ("hub-1", "team")
    assert parse_locator(named("not json")) == ("?", "")
    assert parse_locator(named("[]")) == ("?", "")
    assert parse_locator({"metadata": {"name": "x"}}) == ("", "")


def test_much_at_once_is_held() -> None:
    clock = FakeClock()
    guard = DeletionGuard(clock)
    assert guard.allow(leaving=FREE_DELETIONS, managed=FREE_DELETIONS)
    assert guard.allow(leaving=50, managed=100)
    for _ in range(FREE_DELETIONS):
        guard.record_deletion()
    clock.step(WINDOW_SECONDS + 1)
    assert guard.allow(leaving=1, managed=10)
    for _ in range(FREE_DELETIONS):
        guard.record_deletion()
    assert not guard.allow(leaving=1, managed=10)
    # Once stopped, time alone does not let it go on.
    clock.step(WINDOW_SECONDS + 1)
    assert not guard.allow(leaving=1, managed=10)
    guard.is_confirmed = True
    assert guard.allow(leaving=100, managed=100)
    guard.is_confirmed = False
    assert guard.allow(leaving=1, managed=100)
    assert not guard.allow(leaving=51, managed=100)
