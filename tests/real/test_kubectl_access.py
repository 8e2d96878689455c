"""Identities with kubectl: roles, bindings, impersonation, reviews, service accounts and their tokens."""

from __future__ import annotations

import re
from pathlib import Path

from tests.real.programs import Kubectl, kubectls
from tests.serving import Server, fresh_cluster


def test_create_and_bind(kubectl: Kubectl) -> None:
    assert kubectl("create", "namespace", "room") == "namespace/room created\n"
    made = kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps,secrets", "-n", "room")
    assert made == "role.rbac.authorization.k8s.io/reader created\n"
    made = kubectl("create", "rolebinding", "readers", "--role=reader", "--user=ada", "--group=staff", "-n", "room")
    assert made == "rolebinding.rbac.authorization.k8s.io/readers created\n"
    made = kubectl("create", "clusterrole", "ns-reader", "--verb=get", "--resource=namespaces", "--resource-name=room")
    assert made == "clusterrole.rbac.authorization.k8s.io/ns-reader created\n"
    made = kubectl("create", "clusterrolebinding", "ns-readers", "--clusterrole=ns-reader", "--user=ada")
    assert made == "clusterrolebinding.rbac.authorization.k8s.io/ns-readers created\n"

    assert kubectl("auth", "can-i", "list", "secrets", "-n", "room", "--as=ada") == "yes\n"
    denied = kubectl.run("auth", "can-i", "list", "secrets", "--as=ada")
    assert (denied.returncode, denied.stdout) == (1, "no\n")
    assert kubectl("auth", "can-i", "get", "cm/any", "-n", "room", "--as=bob", "--as-group=staff") == "yes\n"
    assert kubectl("auth", "can-i", "*", "*") == "yes\n"
    assert kubectl("get", "cm", "-n", "room", "--as=ada", "-o", "name") == ""
    assert kubectl("get", "ns", "room", "--as=ada", "-o", "name") == "namespace/room\n"
    assert kubectl.fails("get", "ns", "--as=ada") == (
        'Error from server (Forbidden): namespaces is forbidden: User "ada" cannot list resource "namespaces" in API '
        'group "" at the cluster scope\n'
    )
    assert kubectl.fails("create", "cm", "x", "-n", "room", "--as=bob", "--as-group=staff") == (
        'error: failed to create configmap: configmaps is forbidden: User "bob" cannot create resource "configmaps" in '
        'API group "" in the namespace "room"\n'
    )
    rules = kubectl.rows("auth", "can-i", "--list", "-n", "room", "--as=ada")
    assert ["configmaps", "[]", "[]", "[get", "list]"] in rules
    assert ["namespaces", "[]", "[room]", "[get]"] in rules
    assert kubectl("get", "roles", "-n", "room", "-o", "name").split() == ["role.rbac.authorization.k8s.io/reader"]
    described = kubectl("describe", "role", "reader", "-n", "room")
    assert "  configmaps  []                 []              [get list]\n" in described
    bindings = kubectl.rows("get", "rolebindings", "-n", "room", "-o", "wide")
    assert bindings[0] == ["NAME", "ROLE", "AGE", "USERS", "GROUPS", "SERVICEACCOUNTS"]
    assert (bindings[1][:2], bindings[1][3:]) == (["readers", "Role/reader"], ["ada", "staff"])


def test_reconcile_and_escalation(kubectl: Kubectl) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "r"},
        "rules": rules,
    }
    assert "clusterrole.rbac.authorization.k8s.io/r reconciled" in kubectl("auth", "reconcile", "-f", "-", given=role)
    kubectl("create", "clusterrole", "roles", "--verb=create", "--resource=clusterroles.rbac.authorization.k8s.io")
    kubectl("create", "clusterrolebinding", "roles", "--clusterrole=roles", "--user=eve")
    complaint = kubectl.fails("create", "clusterrole", "more", "--verb=get", "--resource=secrets", "--as=eve")
    assert 'clusterroles.rbac.authorization.k8s.io "more" is forbidden: user "eve"' in complaint
    assert "is attempting to grant RBAC permissions not currently held" in complaint


def test_whoami(kubectl: Kubectl) -> None:
    if kubectl.minor < 28:
        # It knows the beta of this API only, which upstream has switched off as well.
        assert "API is not enabled" in kubectl.fails("auth", "whoami")
        return
    rows = kubectl.rows("auth", "whoami")
    assert rows[:2] == [["ATTRIBUTE", "VALUE"], ["Username", "shoal-admin"]]
    assert rows[2] == ["Groups", "[system:masters", "system:authenticated]"]
    impersonated = kubectl.json("auth", "whoami", "--as=ada", "--as-group=staff", "--as-uid=7")
    info = impersonated["status"]["userInfo"]
    assert info == {"username": "ada", "uid": "7", "groups": ["staff", "system:authenticated"]}


def test_service_account_token(kubectl: Kubectl, tmp_path: Path) -> None:
    assert kubectl("create", "serviceaccount", "robot") == "serviceaccount/robot created\n"
    kubectl("create", "rolebinding", "robot", "--clusterrole=view", "--serviceaccount=default:robot")
    token = kubectl("create", "token", "robot", "--duration=1h").strip()
    assert token.count(".") == 2
    as_robot = (f"--token={token}", f"--kubeconfig={kubectl.cluster.kubeconfig(tmp_path / 'robot', token)}")
    assert kubectl("get", "configmaps", "-o", "name", *as_robot) == ""
    assert kubectl.fails("get", "secrets", *as_robot) == (
        'Error from server (Forbidden): secrets is forbidden: User "system:serviceaccount:default:robot" cannot list '
        'resource "secrets" in API group "" in the namespace "default"\n'
    )
    kubectl("delete", "serviceaccount", "robot")
    assert "You must be logged in to the server" in kubectl.fails("get", "configmaps", *as_robot)
    assert (
        kubectl.fails("create", "token", "robot")
        == 'error: failed to create token: serviceaccounts "robot" not found\n'
    )


def test_secrets(kubectl: Kubectl) -> None:
    kubectl("create", "secret", "generic", "login", "--from-literal=user=ada")
    assert kubectl.rows("get", "secrets")[1][:3] == ["login", "Opaque", "1"]
    assert "user:  3 bytes" in kubectl("describe", "secret", "login")
    registry = ("--docker-server=r.example.com", "--docker-username=ada", "--docker-password=x")
    kubectl("create", "secret", "docker-registry", "pull", *registry)
    assert kubectl.json("get", "secret", "pull")["type"] == "kubernetes.io/dockerconfigjson"
    kubectl("patch", "secret", "login", "-p", '{"stringData":{"user":"bob"}}')
    assert kubectl("get", "secret", "login", "-o", "jsonpath={.data.user}") == "Ym9i"
    kubectl("patch", "secret", "login", "-p", '{"immutable":true}')
    assert kubectl.fails("patch", "secret", "login", "-p", '{"stringData":{"user":"eve"}}') == (
        'The Secret "login" is invalid: data: Forbidden: field is immutable when `immutable` is set\n'
    )


def test_cluster_info(kubectl: Kubectl, server: Server, tmp_path: Path) -> None:
    """It asks for Services, so it needs a cluster that has them."""
    cluster = fresh_cluster(server, profile="cluster")
    home = tmp_path / "cluster"
    home.mkdir()
    other = Kubectl(kubectls()[kubectl.title], kubectl.title, cluster, home)
    said = re.sub("\x1b[^m]*m", "", other("cluster-info"))
    cluster.close()
    assert f"is running at https://127.0.0.1:{server.port}{cluster.prefix}" in said
