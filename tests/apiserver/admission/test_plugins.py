"""Built-in admission: the plugins of a resource, in their order."""

from __future__ import annotations

import pytest

from shoal.apiserver.admission.chain import ALLOCATORS, CREATE, DELETE, PLUGINS, UPDATE

EVERY_CREATE = [
    "ClusterTermination",
    "WorkerRestriction",
    "SyncerRestriction",
    "NodeRestriction",
    "NamespaceLifecycle",
    "CustomResourceTermination",
]
EVERY_UPDATE = ["WorkerRestriction", "SyncerRestriction", "NodeRestriction"]


def names(operation: str, group: str, plural: str) -> list[str]:
    return [row.name for row in PLUGINS if operation in row.operations and row.matches(group, plural)]


@pytest.mark.parametrize(
    ("group", "plural", "own"),
    [
        ("", "configmaps", []),
        ("", "pods", ["MirroredPods", "ServiceAccount", "PodClasses", "LimitRanger"]),
        ("", "persistentvolumeclaims", ["Volumes", "LimitRanger"]),
        ("", "persistentvolumes", ["Volumes"]),
        ("", "services", []),
        ("rbac.authorization.k8s.io", "roles", ["RBACEscalation"]),
        ("apiextensions.k8s.io", "customresourcedefinitions", ["CustomResourceDefinition"]),
        ("core.shoal.dev", "logicalclusters", ["LogicalCluster"]),
        ("certificates.k8s.io", "certificatesigningrequests", ["CertificateSigningRequest"]),
        ("scheduling.k8s.io", "priorityclasses", ["PriorityClass"]),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies", ["PolicyParameters", "PolicyTypeCheck"]),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", ["PolicyParameters"]),
        ("resource.k8s.io", "resourceclaims", ["DeviceClaims"]),
        ("autoscaling", "horizontalpodautoscalers", ["NoAutoscaler"]),
    ],
)
def test_the_plugins_of_a_create(group: str, plural: str, own: list[str]) -> None:
    """The quota is last: it counts the object as the others leave it."""
    assert names(CREATE, group, plural) == [*EVERY_CREATE, *own, "ResourceQuota"]


@pytest.mark.parametrize(
    ("group", "plural", "own"),
    [
        ("", "configmaps", []),
        ("", "pods", ["MirroredPods", "PodClasses", "LimitRanger"]),
        ("", "services", ["ServiceReallocation"]),
        ("autoscaling", "horizontalpodautoscalers", []),
    ],
)
def test_the_plugins_of_an_update(group: str, plural: str, own: list[str]) -> None:
    assert names(UPDATE, group, plural) == [*EVERY_UPDATE, *own, "ResourceQuota"]


@pytest.mark.parametrize(
    ("group", "plural", "own"),
    [
        ("", "configmaps", []),
        ("", "secrets", ["WorkerRestriction"]),
        ("", "pods", ["NodeRestriction", "MirroredPods"]),
        ("", "namespaces", ["NamespaceLifecycle"]),
        ("core.shoal.dev", "logicalclusters", ["LogicalCluster"]),
    ],
)
def test_the_plugins_of_a_deletion(group: str, plural: str, own: list[str]) -> None:
    assert names(DELETE, group, plural) == own


def test_what_is_allocated_for_a_new_object() -> None:
    allocated = {row.name for row in ALLOCATORS if row.matches("", "pods")}
    assert allocated == {"PodOverhead"}
    assert [row.name for row in ALLOCATORS] == ["PodOverhead", "ServiceAllocation"]
