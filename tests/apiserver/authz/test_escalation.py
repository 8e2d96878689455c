"""RBAC escalation check: roles and bindings cannot grant more than their writer holds."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authz import Attributes, Authorizer
from shoal.apiserver.authz.escalation import check_escalation
from shoal.objects.errors import Forbidden, NotFound
from tests.apiserver.authz.role_table import GROUP, RoleTable, grant, person, ref, rule, url_rule

READ_PODS = rule("", "pods", "get,list")
SELECTORS = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
EVERYTHING = [rule("*", "*", "*"), url_rule("*", "*")]


def writing(what: str, namespace: str = "", name: str = "", verb: str = "create") -> Attributes:
    return Attributes("root", verb, GROUP, "v1", what, namespace=namespace, name=name)


def role(rules: list[dict[str, Any]], **body: Any) -> dict[str, Any]:
    return {"metadata": {"name": "new"}, "rules": rules, **body}


def binding(kind: str, name: str) -> dict[str, Any]:
    return {"metadata": {"name": "new"}, "roleRef": ref(kind, name), "subjects": []}


@pytest.fixture
def table() -> RoleTable:
    table = RoleTable()
    table.put("ClusterRole", "reader", rules=[READ_PODS])
    table.put("Role", "local", namespace="ns", rules=[READ_PODS])
    return table


CASES: list[tuple[str, list[dict[str, Any]], Attributes, dict[str, Any], bool]] = [
    ("holds the rules", [READ_PODS], writing("roles", "ns"), role([READ_PODS]), True),
    ("holds part", [rule("", "pods", "get")], writing("roles", "ns"), role([READ_PODS]), False),
    ("holds nothing", [], writing("clusterroles"), role([READ_PODS]), False),
    ("gives nothing", [], writing("clusterroles"), role([]), True),
    ("null rules", [], writing("roles", "ns"), {"metadata": {"name": "new"}, "rules": None}, True),
    ("may escalate", [rule(GROUP, "roles", "escalate")], writing("roles", "ns"), role([READ_PODS]), True),
    ("escalates another", [rule(GROUP, "roles", "escalate")], writing("clusterroles"), role([READ_PODS]), False),
    (
        "escalates by name",
        [rule(GROUP, "roles", "escalate", "new")],
        writing("roles", "ns", "new", "update"),
        role([READ_PODS]),
        True,
    ),
    (
        "a create has no name yet",
        [rule(GROUP, "roles", "escalate", "new")],
        writing("roles", "ns"),
        role([READ_PODS]),
        False,
    ),
    ("binds what is held", [READ_PODS], writing("rolebindings", "ns"), binding("ClusterRole", "reader"), True),
    ("binds a role", [READ_PODS], writing("rolebindings", "ns"), binding("Role", "local"), True),
    ("binds what is not", [], writing("rolebindings", "ns"), binding("Role", "local"), False),
    ("binds everywhere", [], writing("clusterrolebindings"), binding("ClusterRole", "reader"), False),
    ("binds what validation rejects", [], writing("rolebindings", "ns"), binding("Robot", "local"), True),
    (
        "may bind",
        [rule(GROUP, "clusterroles", "bind", "reader")],
        writing("clusterrolebindings"),
        binding("ClusterRole", "reader"),
        True,
    ),
    (
        "may bind another",
        [rule(GROUP, "clusterroles", "bind", "editor")],
        writing("clusterrolebindings"),
        binding("ClusterRole", "reader"),
        False,
    ),
    (
        "may bind a gone role",
        [rule(GROUP, "clusterroles", "bind")],
        writing("rolebindings", "ns"),
        binding("ClusterRole", "gone"),
        True,
    ),
    ("aggregates without authority", [READ_PODS], writing("clusterroles"), role([], aggregationRule=SELECTORS), False),
    ("aggregates with authority", EVERYTHING, writing("clusterroles"), role([], aggregationRule=SELECTORS), True),
    ("paths", [url_rule("/metrics*", "get")], writing("clusterroles"), role([url_rule("/metrics/x", "get")]), True),
    ("another group", [], Attributes("root", "create", "apps", "v1", "roles"), role([READ_PODS]), True),
    ("another resource", [], writing("things"), role([READ_PODS]), True),
]


@pytest.mark.parametrize(("held", "request_", "obj", "allowed"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_escalation(
    table: RoleTable, held: list[dict[str, Any]], request_: Attributes, obj: dict[str, Any], allowed: bool
) -> None:
    grant(table, held)
    if allowed:
        check_escalation(Authorizer(table), person(), request_, obj)
    else:
        with pytest.raises(Forbidden):
            check_escalation(Authorizer(table), person(), request_, obj)


def test_rules_held_in_a_namespace_can_be_given_there_only(table: RoleTable) -> None:
    grant(table, [READ_PODS], "ns")
    authorizer = Authorizer(table)
    check_escalation(authorizer, person(), writing("roles", "ns"), role([READ_PODS]))
    for elsewhere in (writing("roles", "other"), writing("clusterroles")):
        with pytest.raises(Forbidden):
            check_escalation(authorizer, person(), elsewhere, role([READ_PODS]))


def test_bind_in_one_namespace(table: RoleTable) -> None:
    grant(table, [rule(GROUP, "clusterroles", "bind")], "ns")
    authorizer = Authorizer(table)
    check_escalation(authorizer, person(), writing("rolebindings", "ns"), binding("ClusterRole", "reader"))
    with pytest.raises(Forbidden):
        check_escalation(authorizer, person(), writing("clusterrolebindings"), binding("ClusterRole", "reader"))


def test_message(table: RoleTable) -> None:
    grant(table, [rule("", "pods", "list")])
    with pytest.raises(Forbidden) as caught:
        check_escalation(Authorizer(table), person("alice", "devs"), writing("roles", "ns"), role([READ_PODS]))
    assert caught.value.message == (
        'roles.rbac.authorization.k8s.io "new" is forbidden: user "alice" (groups=["devs" "system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'
    )
    assert (caught.value.group, caught.value.kind, caught.value.name) == (GROUP, "roles", "new")


def test_message_with_roles_that_cannot_be_found(table: RoleTable) -> None:
    subjects = [{"kind": "User", "name": "alice"}]
    table.put("ClusterRoleBinding", "b", roleRef=ref("ClusterRole", "gone"), subjects=subjects)
    with pytest.raises(Forbidden) as caught:
        check_escalation(Authorizer(table), person(), writing("roles", "ns"), role([rule("", "pods", "get")]))
    assert caught.value.message.endswith(
        '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}; '
        'resolution errors: [clusterrole.rbac.authorization.k8s.io "gone" not found]'
    )


def test_aggregation_message_also_when_it_was_there_before(table: RoleTable) -> None:
    grant(table, [READ_PODS])
    request = writing("clusterroles", "", "new", "update")
    with pytest.raises(Forbidden) as caught:
        check_escalation(Authorizer(table), person(), request, role([]), role([], aggregationRule=SELECTORS))
    assert caught.value.message == (
        'clusterroles.rbac.authorization.k8s.io "new" is forbidden: '
        "must have cluster-admin privileges to use the aggregationRule"
    )


def test_binding_to_a_missing_role_is_not_found(table: RoleTable) -> None:
    with pytest.raises(NotFound) as caught:
        check_escalation(Authorizer(table), person(), writing("rolebindings", "ns"), binding("Role", "gone"))
    assert caught.value.message == 'role.rbac.authorization.k8s.io "gone" not found'


def test_the_garbage_collector_needs_no_rules(table: RoleTable) -> None:
    old = {"metadata": {"name": "new", "finalizers": ["a"], "ownerReferences": []}, "rules": [READ_PODS]}
    new = {"metadata": {"name": "new", "managedFields": [{}], "resourceVersion": "7"}, "rules": [READ_PODS]}
    request = writing("roles", "ns", "new", "update")
    check_escalation(Authorizer(table), person(), request, new, old)
    labelled = {**new, "metadata": {**new["metadata"], "labels": {"a": "b"}}}  # type: ignore[dict-item]
    with pytest.raises(Forbidden):
        check_escalation(Authorizer(table), person(), request, labelled, old)


def test_masters_of_this_cluster_or_root_only(table: RoleTable) -> None:
    def create(user: User, cluster: str) -> None:
        request = writing("clusterroles")._replace(cluster=cluster)
        check_escalation(Authorizer(table), user, request, role(EVERYTHING))

    create(person("root-admin", "system:masters"), "root")
    create(person("root-admin", "system:masters"), "blue")
    create(person("blue-admin", "system:masters", cluster="blue"), "blue")
    for cluster in ("root", "green"):
        with pytest.raises(Forbidden):
            create(person("blue-admin", "system:masters", cluster="blue"), cluster)
