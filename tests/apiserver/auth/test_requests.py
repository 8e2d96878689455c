"""Authentication and authorization over the wire: tokens, roles, escalation, impersonation, reviews."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving import Cluster, config_map

MAPS = "/api/v1/namespaces/default/configmaps"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/namespaces/default/roles"
BINDINGS = f"{RBAC}/namespaces/default/rolebindings"
ROBOT = "system:serviceaccount:default:robot"
GROUP = "rbac.authorization.k8s.io"


@pytest.fixture
def token(cluster: Cluster) -> str:
    cluster.post(ACCOUNTS, {"metadata": {"name": "robot"}}).ok()
    made = cluster.post(f"{ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": 600}}).ok()
    found: str = made["status"]["token"]
    return found


def grant(cluster: Cluster, *rules: dict[str, Any], name: str = "r") -> None:
    cluster.post(ROLES, {"metadata": {"name": name}, "rules": list(rules)}).ok()
    cluster.post(
        BINDINGS,
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
        },
    ).ok()


def rule(verbs: str, resources: str = "configmaps", group: str = "", **more: Any) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources.split(","), "verbs": verbs.split(","), **more}


# --- authentication ---


@pytest.mark.parametrize("token", ["wrong", "a.b.c", "eyJhbGciOiJub25lIn0.e30."])
def test_a_wrong_token_is_nobodys(cluster: Cluster, token: str) -> None:
    for path in (MAPS, "/healthz"):
        answer = cluster.request("GET", path, token=token)
        assert answer.status == 401
        assert (answer["reason"], answer["message"], answer["code"]) == ("Unauthorized", "Unauthorized", 401)


def test_without_a_token_one_is_anonymous(cluster: Cluster) -> None:
    answer = cluster.request("GET", f"{MAPS}/a", token="")
    assert (answer.status, answer["reason"]) == (403, "Forbidden")
    assert answer["message"] == (
        'configmaps "a" is forbidden: User "system:anonymous" cannot get resource "configmaps" in API group "" '
        'in the namespace "default"'
    )
    assert answer["details"] == {"name": "a", "kind": "configmaps"}


def test_a_requested_token(cluster: Cluster) -> None:
    cluster.post(ACCOUNTS, {"metadata": {"name": "robot"}}).ok()
    answer = cluster.post(f"{ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": 1200}})
    assert answer.status == 201
    found = answer.ok()
    assert (found["kind"], found["apiVersion"]) == ("TokenRequest", "authentication.k8s.io/v1")
    assert found["spec"]["expirationSeconds"] == 1200
    assert found["status"]["token"].count(".") == 2
    assert found["status"]["expirationTimestamp"].endswith("Z")
    answer = cluster.post(f"{ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": 5}})
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["message"].endswith(
        "spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes"
    )
    assert cluster.post(f"{ACCOUNTS}/nobody/token", {"spec": {}}).status == 404


def test_a_token_dies_with_its_account(cluster: Cluster, token: str) -> None:
    grant(cluster, rule("list"))
    assert cluster.request("GET", MAPS, token=token).status == 200
    cluster.delete(f"{ACCOUNTS}/robot").ok()
    assert cluster.request("GET", MAPS, token=token).status == 401
    cluster.post(ACCOUNTS, {"metadata": {"name": "robot"}}).ok()
    assert cluster.request("GET", MAPS, token=token).status == 401, "an account of the same name is another"


def test_a_token_bound_to_a_secret_dies_with_it(cluster: Cluster) -> None:
    cluster.post(ACCOUNTS, {"metadata": {"name": "robot"}}).ok()
    secrets = "/api/v1/namespaces/default/secrets"
    cluster.post(secrets, {"metadata": {"name": "s"}}).ok()
    reference = {"kind": "Secret", "apiVersion": "v1", "name": "s"}
    made = cluster.post(f"{ACCOUNTS}/robot/token", {"spec": {"boundObjectRef": reference}}).ok()
    bound = made["status"]["token"]
    assert cluster.request("GET", MAPS, token=bound).status == 403
    cluster.delete(f"{secrets}/s").ok()
    assert cluster.request("GET", MAPS, token=bound).status == 401


def test_who_am_i(cluster: Cluster, token: str) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    user = cluster.request("POST", path, {}, token=token).ok()["status"]["userInfo"]
    assert user["username"] == ROBOT
    assert set(user["groups"]) == {
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    }
    admin = cluster.post(path, {}).ok()["status"]["userInfo"]
    assert "system:masters" in admin["groups"]


def test_a_token_is_reviewed(cluster: Cluster, token: str) -> None:
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    found = cluster.post(path, {"spec": {"token": token}}).ok()["status"]
    assert (found["authenticated"], found["user"]["username"]) == (True, ROBOT)
    found = cluster.post(path, {"spec": {"token": "wrong"}}).ok()["status"]
    assert not found.get("authenticated")
    assert "invalid bearer token" in found["error"]


# --- authorization ---


def test_a_role_opens_what_it_names(cluster: Cluster, token: str) -> None:
    answer = cluster.request("GET", MAPS, token=token)
    assert (answer.status, answer["message"]) == (
        403,
        (
            f'configmaps is forbidden: User "{ROBOT}" cannot list resource "configmaps" in API group "" '
            'in the namespace "default"'
        ),
    )
    grant(cluster, rule("get,list"))
    assert cluster.request("GET", MAPS, token=token).status == 200
    answer = cluster.request("POST", MAPS, config_map("a"), token=token)
    assert (answer.status, answer["message"]) == (
        403,
        (
            f'configmaps is forbidden: User "{ROBOT}" cannot create resource "configmaps" in API group "" '
            'in the namespace "default"'
        ),
    )
    assert cluster.request("GET", "/api/v1/namespaces/kube-system/configmaps", token=token).status == 403
    answer = cluster.request("GET", "/api/v1/configmaps", token=token)
    assert answer["message"].endswith('in API group "" at the cluster scope')


def test_a_binding_taken_away_closes_at_once(cluster: Cluster, token: str) -> None:
    grant(cluster, rule("list"))
    assert cluster.request("GET", MAPS, token=token).status == 200
    cluster.delete(f"{BINDINGS}/r").ok()
    assert cluster.request("GET", MAPS, token=token).status == 403


def test_verbs_of_collections_and_subresources(cluster: Cluster, token: str) -> None:
    grant(cluster, rule("get,delete"), rule("create", "serviceaccounts/token"))
    assert cluster.request("DELETE", MAPS, token=token).status == 403
    assert cluster.request("GET", f"{MAPS}?watch=true", token=token).status == 403
    assert cluster.request("POST", f"{ACCOUNTS}/robot/token", {"spec": {}}, token=token).status == 201
    assert cluster.request("GET", f"{ACCOUNTS}/robot", token=token).status == 403


def test_names_of_objects(cluster: Cluster, token: str) -> None:
    for name in ("a", "b"):
        cluster.post(MAPS, config_map(name)).ok()
    grant(cluster, rule("get,list,watch", resourceNames=["a"]))
    assert cluster.request("GET", f"{MAPS}/a", token=token).status == 200
    assert cluster.request("GET", f"{MAPS}/b", token=token).status == 403
    assert cluster.request("GET", MAPS, token=token).status == 403
    found = cluster.request("GET", f"{MAPS}?fieldSelector=metadata.name%3Da", token=token).ok()
    assert [item["metadata"]["name"] for item in found["items"]] == ["a"]
    assert cluster.request("GET", f"{MAPS}?fieldSelector=metadata.name%3Db", token=token).status == 403


def test_default_roles_work(cluster: Cluster, token: str) -> None:
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}
    cluster.post(BINDINGS, {"metadata": {"name": "v"}, "roleRef": reference, "subjects": [subject]}).ok()
    assert cluster.request("GET", MAPS, token=token).status == 200
    assert cluster.request("GET", "/api/v1/namespaces/default/secrets", token=token).status == 403
    assert cluster.request("GET", "/apis", token=token).status == 200, "discovery is for everybody with a name"


def test_the_404_of_an_object_is_for_those_who_may_look(cluster: Cluster, token: str) -> None:
    assert cluster.request("GET", f"{MAPS}/absent", token=token).status == 403
    assert cluster.request("GET", "/apis/nothing.io/v1/things", token=token).status == 403


# --- escalation ---


def test_nobody_grants_more_than_they_hold(cluster: Cluster, token: str) -> None:
    grant(cluster, rule("create,update,patch,get", "roles,rolebindings", GROUP), rule("get"))
    cluster.request("POST", ROLES, {"metadata": {"name": "ok"}, "rules": [rule("get")]}, token=token).ok()
    body = {"metadata": {"name": "more"}, "rules": [rule("get,delete")]}
    answer = cluster.request("POST", ROLES, body, token=token)
    assert (answer.status, answer["reason"]) == (403, "Forbidden")
    assert answer["message"].startswith(f'roles.rbac.authorization.k8s.io "more" is forbidden: user "{ROBOT}" ')
    assert "is attempting to grant RBAC permissions not currently held:\n" in answer["message"]
    assert '{APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}' in answer["message"]


def test_nobody_binds_a_role_they_do_not_hold(cluster: Cluster, token: str) -> None:
    grant(cluster, rule("create", "rolebindings", GROUP))
    body = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
    }
    assert cluster.request("POST", BINDINGS, body, token=token).status == 403
    grant(cluster, rule("bind", "clusterroles", GROUP, resourceNames=["cluster-admin"]), name="binder")
    assert cluster.request("POST", BINDINGS, body, token=token).status == 201, "bind is asked in the namespace"


# --- impersonation ---


def test_an_administrator_may_be_anybody(cluster: Cluster, token: str) -> None:
    answer = cluster.get(MAPS, Impersonate_User="alice")
    assert (answer.status, answer["reason"]) == (403, "Forbidden")
    assert 'User "alice" cannot list resource "configmaps"' in answer["message"]
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    found = cluster.post(path, {}, Impersonate_User="alice", Impersonate_Group="devs").ok()["status"]["userInfo"]
    assert found["username"] == "alice"
    assert set(found["groups"]) == {"devs", "system:authenticated"}
    assert cluster.get(MAPS, Impersonate_User="x", Impersonate_Group="system:masters").status == 200


def test_others_must_be_allowed_to(cluster: Cluster, token: str) -> None:
    answer = cluster.request("GET", MAPS, token=token, Impersonate_User="alice")
    assert (answer.status, answer["message"]) == (
        403,
        (
            f'users "alice" is forbidden: User "{ROBOT}" cannot impersonate resource "users" in API group "" '
            "at the cluster scope"
        ),
    )


# --- reviews ---


def test_may_i(cluster: Cluster, token: str) -> None:
    grant(cluster, rule("get"))
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

    def asked(verb: str, namespace: str = "default") -> bool:
        attributes = {"verb": verb, "resource": "configmaps", "namespace": namespace}
        answer = cluster.request("POST", path, {"spec": {"resourceAttributes": attributes}}, token=token)
        assert answer.status == 201
        allowed: bool = answer.ok()["status"]["allowed"]
        return allowed

    assert asked("get")
    assert not asked("delete")
    assert not asked("get", "kube-system")


def test_may_somebody_else(cluster: Cluster, token: str) -> None:
    grant(cluster, rule("get"))
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    attributes = {"verb": "get", "resource": "configmaps", "namespace": "default"}
    groups = ["system:serviceaccounts"]
    found = cluster.post(path, {"spec": {"user": ROBOT, "groups": groups, "resourceAttributes": attributes}}).ok()
    assert found["status"]["allowed"] is True
    found = cluster.post(path, {"spec": {"user": "alice", "resourceAttributes": attributes}}).ok()
    assert found["status"]["allowed"] is False
    assert cluster.request("POST", path, {"spec": {}}, token=token).status == 403


def test_what_may_i(cluster: Cluster, token: str) -> None:
    grant(cluster, rule("get"))
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    found = cluster.request("POST", path, {"spec": {"namespace": "default"}}, token=token).ok()["status"]
    assert {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]} in found["resourceRules"]
    assert any("/healthz" in rule["nonResourceURLs"] for rule in found["nonResourceRules"])
    assert found["incomplete"] is False


def test_reviews_are_not_stored(cluster: Cluster) -> None:
    answer = cluster.get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
    assert (answer.status, answer["reason"]) == (405, "MethodNotAllowed")
