"""The RBAC authorizer: bindings, subjects, clusters, reasons, messages and caching."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authz import Attributes, AuthorizationDecision, Authorizer, forbidden, rbac
from shoal.apiserver.authz.rules import matches_resource
from tests.apiserver.authz.role_table import RoleTable, grant, path, person, ref, resource, rule, to, url_rule

READ_PODS = rule("", "pods", "get,list,watch")


@pytest.fixture
def table() -> RoleTable:
    return RoleTable()


@pytest.fixture
def authorizer(table: RoleTable) -> Authorizer:
    return Authorizer(table)


def test_without_bindings_nothing_is_allowed(authorizer: Authorizer) -> None:
    assert authorizer.authorize(person(), resource("get", "pods", "default", "a")) == AuthorizationDecision(False, "")


def test_cluster_role_binding_holds_everywhere(table: RoleTable, authorizer: Authorizer) -> None:
    grant(table, [READ_PODS])
    said = 'RBAC: allowed by ClusterRoleBinding "grants" of ClusterRole "granted" to User "alice"'
    for asked in (
        resource("list", "pods"),
        resource("get", "pods", "default", "a"),
        resource("get", "pods", "other", "a"),
    ):
        assert authorizer.authorize(person(), asked) == AuthorizationDecision(True, said)
    assert not authorizer.authorize(person("bob"), resource("list", "pods")).allowed


def test_role_binding_holds_in_its_namespace(table: RoleTable, authorizer: Authorizer) -> None:
    grant(table, [READ_PODS], "default")
    said = 'RBAC: allowed by RoleBinding "grants/default" of Role "granted" to User "alice"'
    assert authorizer.authorize(person(), resource("list", "pods", "default")) == AuthorizationDecision(True, said)
    assert not authorizer.authorize(person(), resource("list", "pods", "other")).allowed
    assert not authorizer.authorize(person(), resource("list", "pods")).allowed


def test_role_binding_to_a_cluster_role(table: RoleTable, authorizer: Authorizer) -> None:
    table.put("ClusterRole", "view", rules=[READ_PODS])
    subjects = [to("User", "nobody"), to("Group", "devs"), to("User", "alice")]
    table.put("RoleBinding", "b", namespace="ns", roleRef=ref("ClusterRole", "view"), subjects=subjects)
    said = 'RBAC: allowed by RoleBinding "b/ns" of ClusterRole "view" to Group "devs"'
    assert authorizer.authorize(person("alice", "devs"), resource("get", "pods", "ns")) == AuthorizationDecision(
        True, said
    )


@pytest.mark.parametrize(
    ("subject", "namespace", "user", "expected"),
    [
        (to("ServiceAccount", "bot", "ci"), "", "system:serviceaccount:ci:bot", True),
        (to("ServiceAccount", "bot", "ci"), "ns", "system:serviceaccount:ci:bot", True),
        (to("ServiceAccount", "bot"), "ns", "system:serviceaccount:ns:bot", True),
        (to("ServiceAccount", "bot"), "", "system:serviceaccount::bot", False),
        (to("ServiceAccount", "bot", "ci"), "ns", "system:serviceaccount:ns:bot", False),
        (to("User", "system:serviceaccount:ci:bot"), "", "system:serviceaccount:ci:bot", True),
        (to("Group", "system:authenticated"), "", "anyone", True),
        (to("Group", "anyone"), "", "anyone", False),
        (to("User", "system:authenticated"), "", "anyone", False),
        ({"kind": "Robot", "name": "anyone"}, "", "anyone", False),
    ],
)
def test_subjects(
    table: RoleTable,
    authorizer: Authorizer,
    subject: dict[str, str],
    namespace: str,
    user: str,
    expected: bool,
) -> None:
    table.put("ClusterRole", "view", rules=[READ_PODS])
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    table.put(kind, "b", namespace=namespace, roleRef=ref("ClusterRole", "view"), subjects=[subject])
    assert authorizer.authorize(person(user), resource("get", "pods", "ns", "a")).allowed is expected


def test_service_account_is_named_with_its_namespace(table: RoleTable, authorizer: Authorizer) -> None:
    table.put("Role", "r", namespace="ns", rules=[READ_PODS])
    subjects = [to("ServiceAccount", "bot")]
    table.put("RoleBinding", "b", namespace="ns", roleRef=ref("Role", "r"), subjects=subjects)
    decision = authorizer.authorize(person("system:serviceaccount:ns:bot"), resource("get", "pods", "ns"))
    assert decision.reason == 'RBAC: allowed by RoleBinding "b/ns" of Role "r" to ServiceAccount "bot/ns"'


def test_resource_names(table: RoleTable, authorizer: Authorizer) -> None:
    grant(table, [rule("", "configmaps", "get,list,watch", "leader,other"), rule("", "configmaps", "update", "leader")])

    def allowed(verb: str, name: str) -> bool:
        return authorizer.authorize(person(), resource(verb, "configmaps", "ns", name)).allowed

    assert allowed("get", "leader")
    assert allowed("get", "other")
    assert not allowed("get", "third")
    assert allowed("update", "leader")
    assert not allowed("update", "other")
    assert not allowed("list", "")
    assert allowed("list", "leader"), "a list by field selector metadata.name carries the name"
    assert allowed("watch", "leader")


def test_the_first_rule_that_allows_gives_the_reason(table: RoleTable, authorizer: Authorizer) -> None:
    table.put("ClusterRole", "one", rules=[rule("", "pods", "get", "a")])
    table.put("ClusterRole", "two", rules=[rule("", "pods", "get")])
    for name, role in (("first", "one"), ("again", "one"), ("second", "two")):
        table.put("ClusterRoleBinding", name, roleRef=ref("ClusterRole", role), subjects=[to("User", "alice")])
    assert '"first"' in authorizer.authorize(person(), resource("get", "pods", "ns", "a")).reason
    assert '"second"' in authorizer.authorize(person(), resource("get", "pods", "ns", "b")).reason


def test_paths(table: RoleTable, authorizer: Authorizer) -> None:
    grant(table, [url_rule("/healthz,/metrics/*", "get"), rule("*", "*", "*")])
    assert authorizer.authorize(person(), path("get", "/healthz")).allowed
    assert authorizer.authorize(person(), path("get", "/metrics/x")).allowed
    assert not authorizer.authorize(person(), path("get", "/secret")).allowed
    assert not authorizer.authorize(person(), path("put", "/healthz")).allowed


def test_the_path_of_a_resource_request_means_nothing(table: RoleTable, authorizer: Authorizer) -> None:
    grant(table, [url_rule("*", "*")])
    asked = resource("get", "pods", "ns", "a")._replace(path="/api/v1/namespaces/ns/pods/a")
    assert not authorizer.authorize(person(), asked).allowed


def test_missing_roles_are_named_in_the_denial_and_hide_nothing(table: RoleTable, authorizer: Authorizer) -> None:
    subjects = [to("User", "alice")]
    table.put("ClusterRoleBinding", "a", roleRef=ref("ClusterRole", "gone"), subjects=subjects)
    denied = authorizer.authorize(person(), resource("get", "pods", "ns"))
    assert denied == AuthorizationDecision(False, 'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found')
    table.put("RoleBinding", "b", namespace="ns", roleRef=ref("Role", "lost"), subjects=subjects)
    assert authorizer.authorize(person(), resource("get", "pods", "ns")).reason == (
        'RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, '
        'role.rbac.authorization.k8s.io "lost" not found]'
    )
    table.put("RoleBinding", "c", namespace="ns", roleRef=ref("Robot", "x"), subjects=subjects)
    assert (
        'unsupported role reference kind: "Robot"'
        in authorizer.authorize(person(), resource("get", "pods", "ns")).reason
    )
    table.put("Role", "ok", namespace="ns", rules=[READ_PODS])
    table.put("RoleBinding", "d", namespace="ns", roleRef=ref("Role", "ok"), subjects=subjects)
    assert authorizer.authorize(person(), resource("get", "pods", "ns")).allowed


def test_masters_are_always_allowed(table: RoleTable, authorizer: Authorizer) -> None:
    root, own = person("admin", "system:masters"), person("admin", "system:masters", cluster="blue")
    assert authorizer.authorize(root, resource("delete", "nodes")) == AuthorizationDecision(True, "")
    assert authorizer.authorize(root, resource("delete", "nodes", cluster="blue")).allowed
    assert authorizer.authorize(root, resource("list", "pods", cluster="*")).allowed
    assert authorizer.authorize(own, path("get", "/anything", cluster="blue")).allowed
    assert table.reads == 0


def test_a_user_of_another_cluster_is_a_stranger(table: RoleTable, authorizer: Authorizer) -> None:
    everything = [rule("*", "*", "*"), url_rule("*", "*")]
    for cluster in ("root", "blue", "green"):
        table.put("ClusterRole", "all", cluster=cluster, rules=everything)
        subjects = [to("User", "alice"), to("Group", "system:masters"), to("Group", "system:authenticated")]
        table.put("ClusterRoleBinding", "b", cluster=cluster, roleRef=ref("ClusterRole", "all"), subjects=subjects)
    stranger = AuthorizationDecision(False, "the user belongs to another cluster")
    assert authorizer.authorize(person(), resource("get", "pods", cluster="blue")) == stranger
    assert authorizer.authorize(person(cluster="blue"), resource("get", "pods")) == stranger
    for cluster in ("root", "green", "*"):
        master = person("alice", "system:masters", cluster="blue")
        assert authorizer.authorize(master, resource("get", "pods", cluster=cluster)) == stranger
        assert authorizer.rules_for(master, cluster, "").policy_rules == []
    assert authorizer.authorize(person(cluster="blue"), resource("get", "pods", cluster="blue")).allowed


def test_clusters_do_not_share_decisions(table: RoleTable, authorizer: Authorizer) -> None:
    grant(table, [READ_PODS])
    assert authorizer.authorize(person(), resource("get", "pods")).allowed
    assert not authorizer.authorize(person(cluster="blue"), resource("get", "pods", cluster="blue")).allowed


def test_answers_are_remembered_until_the_generation_changes(table: RoleTable, authorizer: Authorizer) -> None:
    grant(table, [READ_PODS])
    for name in ("a", "b", "c"):
        assert authorizer.authorize(person(), resource("get", "pods", "ns", name)).allowed
    assert table.reads == 2, "one reading of the bindings for every name"
    table.put("ClusterRole", "granted", rules=[])
    assert not authorizer.authorize(person(), resource("get", "pods", "ns", "a")).allowed
    table.put("ClusterRole", "granted", rules=[READ_PODS])
    assert authorizer.authorize(person(), resource("get", "pods", "ns", "a")).allowed
    table.drop("ClusterRoleBinding", "grants")
    assert not authorizer.authorize(person(), resource("get", "pods", "ns", "a")).allowed
    reads = table.reads
    table.put("ClusterRole", "x", cluster="blue", rules=[])
    authorizer.authorize(person(), resource("get", "pods", "ns", "a"))
    assert table.reads == reads, "another cluster's change does not matter"


def test_memory_is_bounded(table: RoleTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rbac, "MAX_DECISIONS", 8)
    authorizer = Authorizer(table)
    grant(table, [url_rule("/a*", "get")])
    for i in range(100):
        assert authorizer.authorize(person(), path("get", f"/a{i}")).allowed
        assert not authorizer.authorize(person(f"user{i}"), path("get", "/a")).allowed
    assert sum(map(len, authorizer._decision_cache.values())) <= 8


@given(
    st.lists(
        st.builds(
            rule,
            st.sampled_from(["", "apps", "*", ",apps"]),
            st.sampled_from(["pods", "pods/log", "*/log", "*", "secrets,pods"]),
            st.sampled_from(["get", "list", "*", "get,list"]),
            st.sampled_from(["", "a", "a,b"]),
        ),
        max_size=5,
    ),
    st.lists(
        st.builds(
            resource,
            st.sampled_from(["get", "list"]),
            st.sampled_from(["pods", "pods/log", "secrets", "pods.apps"]),
            st.just("ns"),
            st.sampled_from(["", "a", "b", "c"]),
        ),
        max_size=12,
    ),
)
def test_remembered_answers_are_those_of_the_rules(rules: list[dict[str, list[str]]], asked: list[Attributes]) -> None:
    table = RoleTable()
    authorizer = Authorizer(table)
    grant(table, rules)
    for want in asked:
        expected = any(
            matches_resource(r, want.verb, want.group, want.resource, want.subresource)
            and want.name in r.get("resourceNames", [want.name])
            for r in rules
        )
        assert authorizer.authorize(person(), want).allowed is expected


@pytest.mark.parametrize(
    ("asked", "reason", "message"),
    [
        (
            resource("list", "configmaps", "y"),
            "",
            'configmaps is forbidden: User "x" cannot list resource "configmaps" in API group "" in the namespace "y"',
        ),
        (
            resource("get", "deployments.apps/scale", "y", "web"),
            'RBAC: clusterrole.rbac.authorization.k8s.io "a" not found',
            (
                'deployments.apps "web" is forbidden: User "x" cannot get resource "deployments/scale" in API group '
                '"apps" in the namespace "y": RBAC: clusterrole.rbac.authorization.k8s.io "a" not found'
            ),
        ),
        (
            resource("delete", "nodes", "", "n1"),
            "",
            'nodes "n1" is forbidden: User "x" cannot delete resource "nodes" in API group "" at the cluster scope',
        ),
        (path("get", "/foo"), "", 'forbidden: User "x" cannot get path "/foo"'),
        (path("get", "/foo"), "why", 'forbidden: User "x" cannot get path "/foo": why'),
        (path("get", "/<b>&"), "", 'forbidden: User "x" cannot get path "/&lt;b&gt;&amp;"'),
    ],
)
def test_forbidden_messages(asked: Attributes, reason: str, message: str) -> None:
    error = forbidden(User("x", ()), asked, reason)
    assert error.message == message
    assert (error.status_code, error.group, error.kind, error.name) == (403, asked.group, asked.resource, asked.name)
