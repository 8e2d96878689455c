"""Defaults, validation and aggregation of the four RBAC kinds."""

from __future__ import annotations

import time
from typing import Any

import pytest

from shoal.kinds.rbac.rbac import NAME_RULE, aggregate_rules, default_rbac_object, validate_rbac_object
from tests.apiserver.authz.role_table import GROUP, ref, rule, to, url_rule

SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of"


def said(kind: str, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [cause.message for cause in validate_rbac_object(kind, obj, old)]


def binding(**changes: Any) -> dict[str, Any]:
    return {"roleRef": ref("ClusterRole", "view"), "subjects": [to("User", "alice")], **changes}


def test_binding_defaults() -> None:
    obj: dict[str, Any] = {
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [
            {"kind": "User", "name": "u"},
            {"kind": "Group", "name": "g", "apiGroup": ""},
            {"kind": "ServiceAccount", "name": "s"},
            {"kind": "User", "name": "v", "apiGroup": "other"},
        ],
    }
    default_rbac_object("RoleBinding", obj)
    assert obj["roleRef"]["apiGroup"] == GROUP
    assert [subject.get("apiGroup") for subject in obj["subjects"]] == [GROUP, GROUP, None, "other"]


def test_role_defaults() -> None:
    obj: dict[str, Any] = {}
    default_rbac_object("Role", obj)
    assert obj == {"rules": None}


@pytest.mark.parametrize(
    ("kind", "rules", "expected"),
    [
        ("Role", [rule("", "pods", "get")], []),
        ("Role", None, []),
        ("ClusterRole", [url_rule("/healthz", "get")], []),
        (
            "Role",
            [{}],
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
        ),
        (
            "Role",
            [url_rule("/a", "get")],
            ['rules[0].nonResourceURLs: Invalid value: ["/a"]: namespaced rules cannot apply to non-resource URLs'],
        ),
        (
            "ClusterRole",
            [rule("", "pods", "get"), {**rule("", "pods", "get"), "nonResourceURLs": ["/a"]}],
            [
                (
                    'rules[1].nonResourceURLs: Invalid value: ["/a"]: '
                    "rules cannot apply to both regular resources and non-resource URLs"
                )
            ],
        ),
        (
            "ClusterRole",
            [{"nonResourceURLs": ["/a"], "resourceNames": ["x"], "verbs": []}],
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                (
                    'rules[0].nonResourceURLs: Invalid value: ["/a"]: '
                    "rules cannot apply to both regular resources and non-resource URLs"
                ),
            ],
        ),
    ],
)
def test_roles(kind: str, rules: Any, expected: list[str]) -> None:
    assert said(kind, {"rules": rules}) == expected


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}, []),
        (
            {},
            [
                (
                    "aggregationRule.clusterRoleSelectors: Required value: "
                    "at least one clusterRoleSelector required if aggregationRule is non-nil"
                )
            ],
        ),
        (
            {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]}]},
            [
                (
                    "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: "
                    '"Is": not a valid selector operator'
                ),
                "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
            ],
        ),
        (
            {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]},
            [
                (
                    "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].values: Required value: "
                    "must be specified when `operator` is 'In' or 'NotIn'"
                ),
                "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
            ],
        ),
    ],
)
def test_aggregation_rules(aggregation: dict[str, Any], expected: list[str]) -> None:
    assert said("ClusterRole", {"aggregationRule": aggregation}) == expected


@pytest.mark.parametrize(
    ("kind", "changes", "expected"),
    [
        ("RoleBinding", {}, []),
        ("ClusterRoleBinding", {}, []),
        ("RoleBinding", {"subjects": None}, []),
        ("RoleBinding", {"roleRef": ref("Role", "r")}, []),
        (
            "ClusterRoleBinding",
            {"roleRef": ref("Role", "r")},
            ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'],
        ),
        (
            "RoleBinding",
            {"roleRef": {}},
            [
                'roleRef.apiGroup: Unsupported value: "": supported values: "rbac.authorization.k8s.io"',
                'roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole"',
                "roleRef.name: Required value",
            ],
        ),
        (
            "RoleBinding",
            {"roleRef": ref("Role", "a/b%")},
            [
                "roleRef.name: Invalid value: \"a/b%\": may not contain '/'",
                "roleRef.name: Invalid value: \"a/b%\": may not contain '%'",
            ],
        ),
        ("RoleBinding", {"subjects": [to("ServiceAccount", "s")]}, []),
        (
            "ClusterRoleBinding",
            {"subjects": [to("ServiceAccount", "s")]},
            ["subjects[0].namespace: Required value"],
        ),
        (
            "RoleBinding",
            {"subjects": [{"kind": "ServiceAccount", "name": "s", "apiGroup": "x"}]},
            ['subjects[0].apiGroup: Unsupported value: "x": supported values: ""'],
        ),
        (
            "RoleBinding",
            {"subjects": [to("User", "u"), {"kind": "Group", "name": "", "apiGroup": "x"}]},
            [
                "subjects[1].name: Required value",
                'subjects[1].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"',
            ],
        ),
        (
            "RoleBinding",
            {"subjects": [{"kind": "Robot", "name": "r"}]},
            ['subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"'],
        ),
    ],
)
def test_bindings(kind: str, changes: dict[str, Any], expected: list[str]) -> None:
    assert said(kind, binding(**changes)) == expected


def test_service_account_names_are_subdomains() -> None:
    (found,) = said("RoleBinding", binding(subjects=[to("ServiceAccount", "Not_One", "ns")]))
    assert found.startswith(f'subjects[0].name: Invalid value: "Not_One": {SUBDOMAIN}')


@pytest.mark.parametrize("kind", ["RoleBinding", "ClusterRoleBinding"])
def test_role_ref_cannot_change(kind: str) -> None:
    old = binding(roleRef=ref("ClusterRole", "edit"))
    assert said(kind, binding(), binding()) == []
    assert said(kind, binding(), old) == [
        (
            'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"view"}: '
            "cannot change roleRef"
        )
    ]


def test_names_only_have_to_fit_in_a_path() -> None:
    assert NAME_RULE("system:controller:Some_Thing") == []
    assert NAME_RULE("..") == ["may not be '..'"]


def test_aggregate() -> None:
    def cluster_role(name: str, label: str, *rules: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": {label: "true"}}, "rules": list(rules)}

    pods, secrets, nodes = (rule("", what, "get") for what in ("pods", "secrets", "nodes"))
    view = {
        **cluster_role("view", "to-view", nodes),
        "aggregationRule": {
            "clusterRoleSelectors": [{"matchLabels": {"to-view": "true"}}, {"matchLabels": {"more": "true"}}]
        },
    }
    everyone = [
        cluster_role("z", "to-view", pods, pods),
        cluster_role("a", "to-view", secrets),
        cluster_role("m", "more", pods, nodes),
        cluster_role("other", "to-edit", rule("", "x", "get")),
        {"metadata": {"name": "bare"}},
        view,
    ]
    assert aggregate_rules(view, everyone) == [secrets, pods, nodes]
    assert aggregate_rules({"metadata": {"name": "plain"}}, everyone) == []


def test_many_rules_are_aggregated_in_linear_time() -> None:
    """Each rule was compared with all before it: 200 million comparisons."""
    rules = [{"apiGroups": [""], "resources": [f"r{number}"], "verbs": ["get"]} for number in range(20_000)]
    roles = [{"metadata": {"name": name, "labels": {"a": "b"}}, "rules": [*rules]} for name in "pq"]
    selectors = [{"matchLabels": {"a": "b"}}] * 1_000
    whole = {"metadata": {"name": "w"}, "aggregationRule": {"clusterRoleSelectors": selectors}}
    before = time.process_time()
    assert aggregate_rules(whole, roles) == rules
    assert time.process_time() - before < 5
