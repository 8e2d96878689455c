"""Classification of requests by the default FlowSchemas and by others."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.flowcontrol.flowschema import parse_flow_schemas
from shoal.apiserver.request.info import parse_path, verb_of
from shoal.kinds.flowcontrol.bootstrap import bootstrap_flow_schemas, bootstrap_priority_levels

AUTHENTICATED = "system:authenticated"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/leader"
PODS = "/api/v1/namespaces/default/pods"
NODE_PATH = "/api/v1/nodes/n1"
SCHEDULER = "system:kube-scheduler"
NODE, NODES = "system:node:n1", ("system:nodes",)
SYSTEM_ACCOUNT = "system:serviceaccount:kube-system:gc"
ACCOUNT, ACCOUNTS = "system:serviceaccount:kube-systems:gc", ("system:serviceaccounts",)


def with_uids(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**obj, "metadata": {**obj["metadata"], "uid": obj["metadata"]["name"]}} for obj in objects]


SCHEMAS = parse_flow_schemas(with_uids(bootstrap_flow_schemas()), with_uids(bootstrap_priority_levels()))


@pytest.mark.parametrize(
    ("user", "groups", "method", "path", "schema", "level", "apart"),
    [
        ("admin", ("system:masters",), "GET", PODS, "exempt", "exempt", ""),
        ("system:anonymous", ("system:unauthenticated",), "GET", "/readyz", "probes", "exempt", ""),
        ("anna", (AUTHENTICATED,), "GET", "/version", "global-default", "global-default", "anna"),
        ("anna", (AUTHENTICATED,), "POST", PODS, "global-default", "global-default", "anna"),
        (SCHEDULER, (), "PUT", LEASE, "system-leader-election", "leader-election", SCHEDULER),
        (SCHEDULER, (), "GET", PODS, "kube-scheduler", "workload-high", "default"),
        (NODE, NODES, "PUT", LEASE, "system-node-high", "node-high", NODE),
        (NODE, NODES, "PATCH", f"{NODE_PATH}/status", "system-node-high", "node-high", NODE),
        (NODE, NODES, "GET", PODS, "system-nodes", "system", NODE),
        (SYSTEM_ACCOUNT, ACCOUNTS, "GET", PODS, "kube-system-service-accounts", "workload-high", "default"),
        (ACCOUNT, ACCOUNTS, "GET", PODS, "service-accounts", "workload-low", ACCOUNT),
        ("nobody", (), "GET", PODS, None, None, ""),
    ],
)  # fmt: skip
def test_first_schemas(
    user: str, groups: tuple[str, ...], method: str, path: str, schema: str | None, level: str | None, apart: str
) -> None:
    target, who = parse_path(path), User(user, groups)
    found = next((each for each in SCHEMAS if each.matches(who, verb_of(method, target, False), target)), None)
    assert (found and found.name) == schema
    if found is not None:
        assert found.level.name == level
        assert found.distinguisher(who, target) == apart


def test_schemas_are_tried_by_precedence_then_by_name() -> None:
    assert [each.name for each in SCHEMAS] == [
        "exempt", "probes", "system-leader-election", "system-node-high", "system-nodes", "kube-controller-manager",
        "kube-scheduler", "kube-system-service-accounts", "service-accounts", "global-default", "catch-all",
    ]  # fmt: skip


def test_a_schema_whose_level_is_not_there_is_passed_over() -> None:
    levels = [each for each in with_uids(bootstrap_priority_levels()) if each["metadata"]["name"] != "workload-low"]
    found = parse_flow_schemas(with_uids(bootstrap_flow_schemas()), levels)
    assert "service-accounts" not in [each.name for each in found]


@pytest.mark.parametrize(
    ("rule", "path", "matches"),
    [
        ({"resources": ["pods"]}, f"{PODS}/a", True),
        ({"resources": ["pods"]}, f"{PODS}/a/status", False),
        ({"resources": ["pods/status"]}, f"{PODS}/a/status", True),
        ({"namespaces": ["other"]}, PODS, False),
        ({"namespaces": ["default"]}, PODS, True),
        ({}, "/api/v1/pods", False),
        ({"clusterScope": True}, "/api/v1/pods", True),
        ({"apiGroups": ["apps"]}, PODS, False),
        ({"verbs": ["watch"]}, PODS, False),
    ],
)
def test_resource_rules(rule: dict[str, Any], path: str, matches: bool) -> None:
    whole = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], **rule}
    subjects = [{"kind": "User", "user": {"name": "anna"}}]
    schema: dict[str, Any] = {
        "metadata": {"name": "s", "uid": "1"},
        "spec": {
            "matchingPrecedence": 1,
            "priorityLevelConfiguration": {"name": "exempt"},
            "rules": [{"subjects": subjects, "resourceRules": [whole]}],
        },
    }
    (found,) = parse_flow_schemas([schema], with_uids(bootstrap_priority_levels()))
    target = parse_path(path)
    assert found.matches(User("anna", ()), verb_of("GET", target, False), target) is matches
    assert not found.matches(User("bob", ()), verb_of("GET", target, False), target)
