"""Bodies that are announced and not sent to their end: nobody's memory is taken by a client without rights, and the
share of one tenant is not that of another.
"""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import Iterator

import pytest

from shoal.apiserver.http.body_budget import BodyBudget
from tests.faults.test_bad_connections import CONFIG_MAPS, first_answer, secure
from tests.serving import Cluster, config_map, fresh_cluster

MIB = 1024 * 1024
SIZE = 3_000_000
PART = b"x" * 2_900_000


@pytest.fixture
def bodies(cluster: Cluster) -> BodyBudget:
    return cluster.server.shoal.server._http.bodies


@pytest.fixture
def other(cluster: Cluster) -> Iterator[Cluster]:
    made = fresh_cluster(cluster.server, "cluster")
    yield made
    made.close()


def head(path: str, token: str, *more: str, length: int = SIZE) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: shoal", f"Content-Length: {length}", "Content-Type: application/json"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    return "\r\n".join([*lines, *more, "", ""]).encode()


def send(connection: ssl.SSLSocket, *pieces: bytes) -> None:
    """The server may close while the client still sends."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        for piece in pieces:
            connection.sendall(piece)


def account_token(cluster: Cluster, name: str, verbs: tuple[str, ...] = ()) -> str:
    """The token of a service account that may do this with ConfigMaps."""
    cluster.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}}).ok()
    if verbs:
        rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": list(verbs)}]
        cluster.post(f"{rbac}/roles", {"metadata": {"name": name}, "rules": rules}).ok()
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subjects = [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]
        cluster.post(f"{rbac}/rolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": subjects}).ok()
    asked = cluster.post(f"/api/v1/namespaces/default/serviceaccounts/{name}/token", {"spec": {}}).ok()
    token: str = asked["status"]["token"]
    return token


def test_bodies_without_a_credential_are_refused_before_they_are_read(cluster: Cluster, bodies: BodyBudget) -> None:
    held = 0
    with contextlib.ExitStack() as open_ones:
        connections = [open_ones.enter_context(secure(cluster.server)) for _ in range(100)]
        for connection in connections:
            send(connection, head(cluster.prefix + CONFIG_MAPS, ""), PART[:100_000])
            held = max(held, bodies.held_bytes)
        for connection in connections:
            status, body = first_answer(connection)
            assert (status, json.loads(body)["reason"]) == (403, "Forbidden")
        assert held < 2 * MIB
        assert bodies.held_bytes == 0


@pytest.mark.parametrize(
    ("path", "token", "more", "status"),
    [
        (CONFIG_MAPS, "forged", (), 401),
        (CONFIG_MAPS, "", (), 403),
        (CONFIG_MAPS, "reader", (), 403),
        (CONFIG_MAPS, "writer", ("Impersonate-User: somebody",), 403),
        ("/api/v1/namespaces/default/nothings", "admin", (), 404),
        ("/apis/none.example.com/v1/nothings", "admin", (), 404),
        ("/api/v1/namespaces/default/configmaps/a/none", "admin", (), 404),
        ("/version", "", (), 403),
    ],
)
def test_what_cannot_be_allowed_is_answered_at_once(
    cluster: Cluster, bodies: BodyBudget, path: str, token: str, more: tuple[str, ...], status: int
) -> None:
    tokens = {"admin": cluster.server.token}
    if token in ("reader", "writer"):
        tokens[token] = account_token(cluster, token, ("get",) if token == "reader" else ("create",))
    with secure(cluster.server) as connection:
        send(connection, head(cluster.prefix + path, tokens.get(token, token), *more), b"x" * 1000)
        assert first_answer(connection)[0] == status
    assert bodies.held_bytes == 0


def test_a_body_is_read_for_whom_it_is_allowed(cluster: Cluster, bodies: BodyBudget) -> None:
    token = account_token(cluster, "writer", ("create",))
    sent = json.dumps(config_map("a", {"k": "v" * 800_000})).encode()
    with secure(cluster.server) as connection:
        send(connection, head(cluster.prefix + CONFIG_MAPS, token, "Expect: 100-continue", length=len(sent)))
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        send(connection, sent)
        assert first_answer(connection)[0] == 201
    assert len(cluster.get(f"{CONFIG_MAPS}/a").ok()["data"]["k"]) == 800_000
    assert bodies.held_bytes == 0


def test_unfinished_bodies_of_one_tenant_leave_room_for_another(
    cluster: Cluster, other: Cluster, bodies: BodyBudget
) -> None:
    token, path = account_token(cluster, "writer", ("create",)), cluster.prefix + CONFIG_MAPS
    with contextlib.ExitStack() as open_ones:
        for _ in range(60):
            send(open_ones.enter_context(secure(cluster.server)), head(path, token), PART)
        assert 8 * MIB < bodies.held_bytes < 32 * MIB
        for number in range(5):
            large = config_map(f"c{number}", {"k": "v" * 900_000})
            assert other.post(CONFIG_MAPS, large, token=account_token(other, f"w{number}", ("create",))).status == 201
        assert cluster.post(CONFIG_MAPS, config_map("small"), token=token).status == 201


def test_bodies_for_hosted_clusters_have_a_share_of_their_own(cluster: Cluster, bodies: BodyBudget) -> None:
    """The hub cannot tell who sends them."""
    with contextlib.ExitStack() as open_ones:
        for number in range(60):
            path = f"/managedclusters/default/none-{number}{CONFIG_MAPS}"
            send(open_ones.enter_context(secure(cluster.server)), head(path, ""), PART)
        assert bodies.held_bytes < 32 * MIB
        assert cluster.post(CONFIG_MAPS, config_map("large", {"k": "v" * 900_000})).status == 201


def test_the_permission_is_that_of_the_time_the_head_is_its_turn(cluster: Cluster) -> None:
    """A pipelined request is examined when the one before it, which grants it, is answered."""
    token = account_token(cluster, "late")
    rbac = f"{cluster.prefix}/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]
    cluster.post(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", {"metadata": {"name": "late"}, "rules": rules}
    ).ok()
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "late"}
    subjects = [{"kind": "ServiceAccount", "name": "late", "namespace": "default"}]
    grant = json.dumps({"metadata": {"name": "late"}, "roleRef": role, "subjects": subjects}).encode()
    body = json.dumps(config_map("a", {"k": "v" * 500_000})).encode()
    with secure(cluster.server) as connection:
        first = head(f"{rbac}/rolebindings", cluster.server.token, length=len(grant)) + grant
        send(connection, first + head(cluster.prefix + CONFIG_MAPS, token, length=len(body)), body)
        assert [first_answer(connection)[0] for _ in range(2)] == [201, 201]


def test_the_refusal_is_counted_like_any_other(cluster: Cluster) -> None:
    def refused() -> float:
        connection = cluster.server.connect()
        with contextlib.closing(connection):
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {cluster.server.token}"})
            lines = connection.getresponse().read().decode().splitlines()
        counts = [line for line in lines if line.startswith("apiserver_request_total{") and 'code="403"' in line]
        return sum(float(line.rsplit(" ", 1)[1]) for line in counts if 'verb="POST"' in line)

    before = refused()
    with secure(cluster.server) as connection:
        send(connection, head(cluster.prefix + CONFIG_MAPS, ""), b"x")
        assert first_answer(connection)[0] == 403
    assert refused() == before + 1
