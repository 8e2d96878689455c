"""The catalogue of built-in resources and its profiles."""

from __future__ import annotations

import pytest

from shoal.kinds.builtin import Subresource, builtin, builtins, default_rbac, profile


def test_a_resource_as_discovery_tells_it() -> None:
    pods = builtin("", "v1", "pods")
    assert (pods.kind, pods.singular, pods.namespaced, pods.api_version) == ("Pod", "pod", True, "v1")
    assert (pods.short_names, pods.categories) == (("po",), ("all",))
    assert pods.verbs == ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    assert pods.storage_version_hash == "xPOwRZ+Yhw8="
    assert "spec.nodeName" in pods.selectable
    assert Subresource("eviction", "policy", "v1", "Eviction", ("create",)) in pods.subresources
    assert Subresource("status", "", "v1", "Pod", ("get", "patch", "update")) in pods.subresources


def test_an_unknown_resource() -> None:
    with pytest.raises(KeyError):
        builtin("", "v1", "widgets")


def test_groups_come_in_discovery_order() -> None:
    groups = list(dict.fromkeys(b.group for b in builtins()))
    assert groups[:4] == ["", "apiregistration.k8s.io", "apps", "events.k8s.io"]
    versions = [b.version for b in builtins() if b.group == "autoscaling"]
    assert versions == ["v2", "v1"]
    assert len({(b.group, b.version, b.plural) for b in builtins()}) == len(builtins()) > 90


def test_the_hub_profile() -> None:
    assert [f"{b.api_version}/{b.plural}" for b in profile("hub")] == [
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
    accounts = builtin("", "v1", "serviceaccounts")
    token = Subresource("token", "authentication.k8s.io", "v1", "TokenRequest", ("create",))
    assert accounts.subresources == (token,)


def test_the_cluster_profile_is_what_is_stable() -> None:
    served = profile("cluster")
    assert {b.version for b in served} == {"v1", "v2"}
    assert set(profile("hub")) < set(served)
    assert builtin("apps", "v1", "deployments") in served
    assert builtin("coordination.k8s.io", "v1beta1", "leasecandidates") not in served


def test_an_unknown_profile() -> None:
    with pytest.raises(KeyError, match="no profile 'edge'"):
        profile("edge")


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
    assert builtin(*path).name_rule == rule


def test_field_selectors() -> None:
    assert builtin("", "v1", "secrets").selectable == ("type",)
    assert builtin("", "v1", "namespaces").selectable == ("status.phase",)
    assert builtin("", "v1", "configmaps").selectable == ()
    assert "involvedObject.uid" in builtin("", "v1", "events").selectable
    assert "regarding.uid" in builtin("events.k8s.io", "v1", "events").selectable


def test_deprecation_warnings() -> None:
    endpoints = builtin("", "v1", "endpoints")
    assert endpoints.deprecated == "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    assert builtin("", "v1", "pods").deprecated == ""


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
