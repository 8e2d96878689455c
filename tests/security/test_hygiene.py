"""No secrets in logs, Events, metrics or unrelated responses; files readable by their owner only."""

from __future__ import annotations

import base64
import logging
import stat
from pathlib import Path

import pytest

from tests.isolation.tenants import administrator
from tests.serving import Cluster, Server, fresh_cluster

WORD = "open-sesame-4711"
CODED = base64.b64encode(WORD.encode()).decode()
SECRETS = "/api/v1/namespaces/default/secrets"


def spoken(cluster: Cluster, admin: str) -> list[str]:
    """Secrets made, changed, refused and lost, and everything that is told about it besides the Secrets themselves."""
    body = {"metadata": {"name": "kept"}, "stringData": {"word": WORD}}
    cluster.post(SECRETS, body).ok()
    cluster.patch(f"{SECRETS}/kept", {"stringData": {"more": WORD}}).ok()
    answers = [
        cluster.post(SECRETS, {**body, "type": "kubernetes.io/tls"}),
        cluster.post(SECRETS, body),
        cluster.request("GET", f"{SECRETS}/kept", token=f"wrong-{WORD}"),
        cluster.request("GET", f"{SECRETS}/kept", token=""),
        cluster.get(f"{SECRETS}?fieldSelector=metadata.name%3Dother"),
        cluster.request("GET", f"{SECRETS}/kept", Accept="application/json;as=Table;g=meta.k8s.io;v=v1"),
        cluster.get("/api/v1/events"),
        cluster.get("/metrics"),
        cluster.request("GET", "/metrics", token=admin),
    ]
    cluster.delete(f"{SECRETS}/kept").ok()
    root = Cluster(cluster.server, "root")
    answers += [root.get("/metrics"), root.get("/api/v1/events")]
    root.close()
    return [answer.body.decode(errors="replace") for answer in answers]


def test_nothing_told_about_secrets_has_a_word_of_them(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    cluster = fresh_cluster(server, "cluster")
    admin = administrator(cluster)
    said = [*spoken(cluster, admin), caplog.text]
    for text in said:
        for word in (WORD, CODED, admin, server.token):
            assert word not in text.replace(f"wrong-{WORD}", ""), text[:300]
    cluster.close()


def test_a_wrong_token_is_not_repeated(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    root = Cluster(server, "root")
    answer = root.request("GET", SECRETS, token=f"wrong-{WORD}")
    assert answer.status == 401
    assert WORD not in answer.body.decode() + caplog.text
    root.close()


def test_what_is_on_disk_is_for_its_owner_alone(server: Server) -> None:
    directory: Path = server.shoal.directory.path
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    private = {"admin-token", "kubeconfig", "ca.key", "cluster-keys.key"}
    found = {path.name for path in directory.rglob("*") if path.is_file() and path.name in private}
    assert found == private
    for path in directory.rglob("*"):
        if path.is_file() and path.name in private:
            assert not path.stat().st_mode & 0o077, path
