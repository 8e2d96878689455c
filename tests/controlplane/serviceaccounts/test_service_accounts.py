"""Tests of the default ServiceAccount, the root CA ConfigMap and token Secrets."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.controlplane.serviceaccounts import decide
from shoal.kinds.core.serviceaccount import ROOT_CA_ANNOTATIONS, root_ca_config_map
from tests.serving import Cluster, Server, fresh_cluster

Object = dict[str, Any]

SPACES = "/api/v1/namespaces"
BOOTSTRAP = ("default", "kube-node-lease", "kube-public", "kube-system")


def accounts(namespace: str = "default") -> str:
    return f"{SPACES}/{namespace}/serviceaccounts"


def maps(namespace: str = "default") -> str:
    return f"{SPACES}/{namespace}/configmaps"


SECRETS = f"{SPACES}/default/secrets"


@pytest.fixture
def full(server: Server) -> Iterator[Cluster]:
    """A cluster of the profile that has pods."""
    cluster = fresh_cluster(server, profile="cluster")
    yield cluster
    cluster.close()


def token_secret(name: str, account: str) -> Object:
    annotations = {"kubernetes.io/service-account.name": account}
    return {"metadata": {"name": name, "annotations": annotations}, "type": "kubernetes.io/service-account-token"}


def space(cluster: Cluster, name: str) -> None:
    cluster.post(SPACES, {"metadata": {"name": name}}).ok()
    cluster.eventually(lambda: cluster.get(f"{accounts(name)}/default").status == 200)


def root_ca(cluster: Cluster) -> str:
    return cluster.server.call(cluster.server.shoal.server.core.keys.ensure_root_ca(cluster.name))


# --- what every namespace is given ---


def test_a_fresh_cluster_has_them_without_a_write(full: Cluster) -> None:
    """Its authority is the exception: it is created when somebody reads its certificate for the first time."""
    full.get(f"{maps('default')}/kube-root-ca.crt").ok()
    before = full.get(SPACES).ok()["metadata"]["resourceVersion"]
    for name in BOOTSTRAP:
        full.get(f"{accounts(name)}/default").ok()
        found = full.get(f"{maps(name)}/kube-root-ca.crt").ok()
        assert found["data"] == {"ca.crt": root_ca(full)}
    assert full.get(SPACES).ok()["metadata"]["resourceVersion"] == before


def test_a_hub_has_accounts_and_no_root_certificate(cluster: Cluster) -> None:
    cluster.get(f"{accounts()}/default").ok()
    assert cluster.get(f"{maps()}/kube-root-ca.crt").status == 404
    space(cluster, "new")
    assert cluster.get(f"{maps('new')}/kube-root-ca.crt").status == 404


def test_a_new_namespace_gets_them(full: Cluster) -> None:
    space(full, "new")
    full.eventually(lambda: full.get(f"{maps('new')}/kube-root-ca.crt").status == 200)
    found = full.get(f"{maps('new')}/kube-root-ca.crt").ok()
    assert found["data"] == {"ca.crt": root_ca(full)}
    assert found["metadata"]["annotations"] == ROOT_CA_ANNOTATIONS


@pytest.mark.parametrize("namespace", ["default", "new"])
def test_they_come_back(full: Cluster, namespace: str) -> None:
    if namespace == "new":
        space(full, namespace)
        full.eventually(lambda: full.get(f"{maps(namespace)}/kube-root-ca.crt").status == 200)
    old = full.get(f"{accounts(namespace)}/default").ok()["metadata"]["uid"]
    full.delete(f"{accounts(namespace)}/default").ok()
    full.delete(f"{maps(namespace)}/kube-root-ca.crt").ok()
    full.eventually(lambda: full.get(f"{accounts(namespace)}/default").status == 200)
    full.eventually(lambda: full.get(f"{maps(namespace)}/kube-root-ca.crt").status == 200)
    assert full.get(f"{accounts(namespace)}/default").ok()["metadata"]["uid"] != old


def test_a_changed_root_certificate_is_repaired(full: Cluster) -> None:
    wanted = {"ca.crt": root_ca(full)}
    path = f"{maps()}/kube-root-ca.crt"
    full.patch(path, {"data": {"ca.crt": "other", "more": "x"}, "metadata": {"labels": {"mine": "yes"}}}).ok()
    full.eventually(lambda: full.get(path).ok()["data"] == wanted)
    assert full.get(path).ok()["metadata"]["labels"] == {"mine": "yes"}


def test_a_namespace_that_goes_stays_empty(full: Cluster) -> None:
    space(full, "new")
    full.delete(f"{SPACES}/new").ok()
    full.eventually(lambda: full.get(f"{SPACES}/new").status == 404)
    assert full.get(f"{accounts('new')}/default").status == 404


@pytest.mark.parametrize(
    ("change", "sound"),
    [
        ({}, True),
        ({"data": {"ca.crt": "B"}}, False),
        ({"data": {"ca.crt": "A", "x": "y"}}, False),
        ({"data": None}, False),
        ({"binaryData": {"x": "eA=="}}, False),
        ({"metadata": {"name": "kube-root-ca.crt"}}, False),
    ],
)
def test_what_is_repaired(change: Object, sound: bool) -> None:
    found = decide.root_ca_update({**root_ca_config_map("n", "A"), **change}, "A")
    assert (found is None) is sound
    if found is not None:
        assert decide.root_ca_update(found, "A") is None


# --- token Secrets ---


def test_a_token_secret_is_filled_and_opens_its_cluster(cluster: Cluster) -> None:
    account = cluster.post(accounts(), {"metadata": {"name": "robot"}}).ok()
    cluster.post(SECRETS, token_secret("t", "robot")).ok()
    secret = cluster.eventually(lambda: (s := cluster.get(f"{SECRETS}/t").ok()).get("data") and s)
    data = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
    assert secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == account["metadata"]["uid"]
    assert (data["namespace"], data["ca.crt"]) == ("default", root_ca(cluster))
    review = cluster.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, token=data["token"]).ok()
    assert review["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
    cluster.delete(f"{SECRETS}/t").ok()
    answer = cluster.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, token=data["token"])
    assert answer.status == 401, "the token goes with its Secret"


def test_a_token_secret_goes_with_its_account(cluster: Cluster) -> None:
    cluster.post(accounts(), {"metadata": {"name": "robot"}}).ok()
    cluster.post(SECRETS, token_secret("t", "robot")).ok()
    cluster.post(SECRETS, {"metadata": {"name": "plain"}}).ok()
    cluster.eventually(lambda: cluster.get(f"{SECRETS}/t").ok().get("data"))
    cluster.delete(f"{accounts()}/robot").ok()
    cluster.eventually(lambda: cluster.get(f"{SECRETS}/t").status == 404)
    cluster.get(f"{SECRETS}/plain").ok()


def test_a_token_secret_of_no_account_goes(cluster: Cluster) -> None:
    cluster.post(SECRETS, token_secret("t", "nobody")).ok()
    cluster.eventually(lambda: cluster.get(f"{SECRETS}/t").status == 404)


OWNER = {"metadata": {"name": "robot", "uid": "u"}}


@pytest.mark.parametrize(
    ("uid", "owner", "expected"),
    [("", OWNER, False), ("u", OWNER, False), ("other", OWNER, True), ("u", None, True), ("", None, True)],
)
def test_which_token_secrets_have_lost_their_account(uid: str, owner: Object | None, expected: bool) -> None:
    annotations = {decide.ACCOUNT_NAME: "robot"} | ({decide.ACCOUNT_UID: uid} if uid else {})
    assert decide.is_orphaned({"metadata": {"name": "t", "annotations": annotations}}, owner) is expected


def test_a_complete_token_secret_needs_nothing() -> None:
    metadata = {"name": "t", "namespace": "n", "resourceVersion": "1", "annotations": {decide.ACCOUNT_NAME: "robot"}}
    secret: Object = {"metadata": metadata}
    assert decide.needs_token(secret, 1)
    patch = decide.token_secret_patch(secret, OWNER, "CA", "T", 1)
    assert patch is not None
    assert {key: base64.b64decode(value) for key, value in patch["data"].items()} == {
        "ca.crt": b"CA",
        "namespace": b"n",
        "token": b"T",
    }
    annotations = {**metadata["annotations"], **patch["metadata"]["annotations"]}  # type: ignore[dict-item]
    complete = {"metadata": {**metadata, "annotations": annotations}, "data": patch["data"]}
    assert not decide.needs_token(complete, 1)
    assert decide.token_secret_patch(complete, OWNER, "CA", "", 1) is None
    assert decide.token_secret_patch(complete, OWNER, "another CA", "", 1) is not None
