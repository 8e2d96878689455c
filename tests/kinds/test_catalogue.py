"""The catalogue of built-in resources and its profiles."""

from __future__ import annotations

import pytest

from shoal.kinds.catalogue import Subresource, builtin_resources, default_rbac, find_builtin, profile_builtins


def test_a_resource_as_discovery_tells_it() -> None:
    pods = find_builtin("", "v1", "pods")
    assert (pods.kind, pods.singular, pods.namespaced, pods.api_version) == ("Pod", "pod", True, "v1")
    assert (pods.short_names, pods.categories) == (("po",), ("all",))
    assert pods.verbs == ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    assert pods.storage_version_hash == "xPOwRZ+Yhw8="
    assert "spec.nodeName" in pods.selectable_fields
    assert Subresource("eviction", "policy", "v1", "Eviction", ("create",)) in pods.subresources
    assert Subresource("status", "", "v1", "Pod", ("get", "patch", "update")) in pods.subresources


def test_an_unknown_resource() -> None:
    with pytest.raises(KeyError):
        find_builtin("", "v1", "widgets")


def test_groups_come_in_discovery_order() -> None:
    groups = list(dict.fromkeys(b.group for b in builtin_resources()))
    assert groups[:4] == ["", "apiregistration.k8s.io", "apps", "events.k8s.io"]
    versions = [b.version for b in builtin_resources() if b.group == "autoscaling"]
    assert versions == ["v2", "v1"]
    assert len({(b.group, b.version, b.plural) for b in builtin_resources()}) == len(builtin_resources()) > 90


def test_the_hub_profile() -> None:
    assert [f"{b.api_version}/{b.plural}" for b in profile_builtins("hub")] == [
        "v1/configmaps",
        "v1/events",
        "v1/namespaces",
        "v1/secrets",
        "v1/serviceaccounts",
        "events.k8s.io/v1/events",
        "authentication.k8s.io/v1/selfsubjectreviews",
        "authentication.k8s.io/v1/tokenreviews",
        "authorization.k8s.io/v1/localsubjectaccessreviews",
        "authorization.k8s.io/v1/selfsubjectaccessreviews",
        "authorization.k8s.io/v1/selfsubjectrulesreviews",
        "authorization.k8s.io/v1/subjectaccessreviews",
        "certificates.k8s.io/v1/certificatesigningrequests",
        "rbac.authorization.k8s.io/v1/clusterrolebindings",
        "rbac.authorization.k8s.io/v1/clusterroles",
        "rbac.authorization.k8s.io/v1/rolebindings",
        "rbac.authorization.k8s.io/v1/roles",
        "apiextensions.k8s.io/v1/customresourcedefinitions",
        "coordination.k8s.io/v1/leases",
    ]
    accounts = find_builtin("", "v1", "serviceaccounts")
    token = Subresource("token", "authentication.k8s.io", "v1", "TokenRequest", ("create",))
    assert accounts.subresources == (token,)


def test_the_cluster_profile_is_what_is_stable() -> None:
    served = profile_builtins("cluster")
    assert {b.version for b in served} == {"v1", "v2"}
    assert set(profile_builtins("hub")) < set(served)
    assert find_builtin("apps", "v1", "deployments") in served
    assert find_builtin("coordination.k8s.io", "v1beta1", "leasecandidates") not in served


def test_an_unknown_profile() -> None:
    with pytest.raises(KeyError, match="unknown profile 'edge'"):
        profile_builtins("edge")


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (("", "v1", "configmaps"), "dns-subdomain"),
        (("", "v1", "namespaces"), "dns-label"),
        (("", "v1", "events"), "path-segment"),
        (("events.k8s.io", "v1", "events"), "dns-subdomain"),
        (("rbac.authorization.k8s.io", "v1", "roles"), "path-segment"),
        (("networking.k8s.io", "v1", "ipaddresses"), "ip"),
    ],
)
def test_name_rules(path: tuple[str, str, str], rule: str) -> None:
    assert find_builtin(*path).name_rule == rule


def test_field_selectors() -> None:
    assert find_builtin("", "v1", "secrets").selectable_fields == ("type",)
    assert find_builtin("", "v1", "namespaces").selectable_fields == ("status.phase",)
    assert find_builtin("", "v1", "configmaps").selectable_fields == ()
    assert "involvedObject.uid" in find_builtin("", "v1", "events").selectable_fields
    assert "regarding.uid" in find_builtin("events.k8s.io", "v1", "events").selectable_fields


def test_deprecation_warnings() -> None:
    endpoints = find_builtin("", "v1", "endpoints")
    assert (
        endpoints.deprecation_warning == "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    )
    assert find_builtin("", "v1", "pods").deprecation_warning == ""


def test_default_rbac() -> None:
    rbac = default_rbac()
    assert set(rbac) == {"clusterroles", "clusterrolebindings", "roles", "rolebindings"}
    roles = {role["metadata"]["name"]: role for role in rbac["clusterroles"]}
    admin = roles["cluster-admin"]
    assert admin["rules"] == [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]
    assert admin["metadata"]["labels"] == {"kubernetes.io/bootstrapping": "rbac-defaults"}
    assert admin["metadata"]["annotations"] == {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    assert "system:controller:generic-garbage-collector" in roles
    assert roles["edit"]["aggregationRule"]["clusterRoleSelectors"]
    assert "rules" not in roles["edit"]
    bindings = {binding["metadata"]["name"]: binding for binding in rbac["clusterrolebindings"]}
    assert bindings["cluster-admin"]["subjects"][0]["name"] == "system:masters"
    assert {role["metadata"]["namespace"] for role in rbac["roles"]} == {"kube-public", "kube-system"}
    assert all(role["apiVersion"] == "rbac.authorization.k8s.io/v1" for found in rbac.values() for role in found)


def test_every_binding_names_a_default_role() -> None:
    rbac = default_rbac()
    names = {role["metadata"]["name"] for role in rbac["clusterroles"]}
    assert {binding["roleRef"]["name"] for binding in rbac["clusterrolebindings"]} <= names
