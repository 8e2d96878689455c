"""Who has no credential of a cluster gets the same bytes whether it exists or not: logical clusters of the hub, hosted
clusters, hosted clusters whose worker is away, and names of nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from shoal.fleet.tunnel import disclosure
from tests.isolation.attempts import BETA, STRANGERS
from tests.isolation.tenants import MANAGED, People, eventually, token_for
from tests.serving import Answer

Headers = dict[str, str]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
VARIABLE_HEADERS = ("date", "audit-id")
LOGICAL_CLUSTERS = (f"/clusters/{BETA}", "/clusters/delta", "/clusters/default.east", "/clusters/-")
HOSTED_CLUSTERS = ("/managedclusters/default/west", "/managedclusters/default/none", "/managedclusters/other/west")
REQUESTS: list[tuple[str, str, Any, Headers]] = [
    *(
        ("GET", path, None, {})
        for path in (
            "", "/", "/version", "/version/", "/healthz", "/healthz/ping", "/livez", "/readyz", "/readyz?verbose",
            "/readyz/nothing", "/metrics", "/api", "/api/v1", "/apis", "/apis/apps/v1", "/apis/nothing/v1/things",
            "/openapi/v2", "/openapi/v3", "/.well-known/openid-configuration", "/openid/v1/jwks", "/nothing",
            "/api/v1/namespaces/default", "/api/v1/secrets", "/api/v1/secrets?watch=true", "/api/v1/secrets?limit=x",
            "/api/v1/secrets?watch=maybe", "/api/v1/nodes/n/proxy/", f"{MAPS}/kube-root-ca.crt", "/metadata",
            "/clusters/root/version", "/managedclusters/default/east/version", "/backup",
        )
    ),
    ("HEAD", "/version", None, {}),
    ("OPTIONS", "/version", None, {}),
    ("POST", "/version", {}, {}),
    ("POST", MAPS, {"metadata": {"name": "a"}}, {}),
    ("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}}, {}),
    ("PATCH", f"{MAPS}/a", {}, {"Content-Type": "application/merge-patch+json"}),
    ("DELETE", MAPS, None, {}),
    ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, {}),
    ("GET", "/version", None, {"Impersonate-User": "system:admin"}),
    ("GET", "/version", None, {"Impersonate-Group": "system:masters"}),
    ("GET", MAPS, None, {"Accept": "application/vnd.kubernetes.protobuf"}),
    ("GET", MAPS, None, {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}),
    ("GET", MAPS, None, {"User-Agent": "curl/8"}),
    ("GET", f"{MAPS}?pretty=true", None, {"Accept-Encoding": "gzip"}),
    ("GET", "/version", None, {"X-Filler": "x" * 40_000}),
]  # fmt: skip
FORGED = ("bare-", "certificate-", "earlier-", "of-", "signed-", "unsigned", "with-", "without-")
GARBAGE: tuple[Headers, ...] = (
    {"Authorization": "Bearer wrong"},
    {"Authorization": "Bearer "},
    {"Authorization": "Bearer a.b.c"},
    {"Authorization": "bearer eyJhbGciOiJub25lIn0.e30."},
    {"Authorization": "Basic Zm9vOmJhcg=="},
    {"Authorization": "Negotiate abc"},
)


def strangers(people: People) -> list[tuple[str, Headers]]:
    """Everybody without a credential of beta or west. One of the forged ones is signed with the key of beta, which
    accepts it.
    """
    forged = {who for who in people._tokens if who.startswith(FORGED)} - {"signed-for-root-with-an-account-of-beta"}
    return [("nobody", headers) for headers in GARBAGE] + [(who, {}) for who in (*STRANGERS, *sorted(forged))]


def seen(answer: Answer) -> tuple[int, Headers, bytes]:
    return answer.status, {k: v for k, v in answer.headers.items() if k not in VARIABLE_HEADERS}, answer.body


def compare(people: People, addresses: tuple[str, ...], who: str, headers: Headers) -> set[int]:
    """Returns the status codes of the answers. With a token all are told apart before the path matters."""
    statuses = set()
    for method, path, body, more in REQUESTS if who == "nobody" else REQUESTS[::6]:
        answers = {
            address: seen(people.ask(who, method, address + path, body, {**headers, **more})) for address in addresses
        }
        first = answers[addresses[0]]
        assert set(map(str, answers.values())) == {str(first)}, f"{who} {headers}: {method} {path}: {answers}"
        statuses.add(first[0])
    return statuses


@contextmanager
def worker_away(people: People) -> Iterator[None]:
    """The hub has no connection to its worker."""
    workers = people.hub.up.hub.tunnels._workers
    connected = dict(workers)
    workers.clear()
    try:
        yield
    finally:
        workers.update(connected)


def test_logical_clusters(people: People) -> None:
    for who, headers in strangers(people):
        assert compare(people, LOGICAL_CLUSTERS, who, headers) <= {400, 401, 403}


def test_hosted_clusters(people: People) -> None:
    for who, headers in strangers(people):
        assert compare(people, HOSTED_CLUSTERS, who, headers) <= {400, 401, 403, 501}


def test_hosted_clusters_of_a_worker_that_is_away(people: People) -> None:
    online = {
        (who, str(headers), method, path, str(more)): seen(
            people.ask(who, method, HOSTED_CLUSTERS[0] + path, body, {**headers, **more})
        )
        for who, headers in strangers(people)[:7]
        for method, path, body, more in REQUESTS
    }
    with worker_away(people):
        for who, headers in strangers(people)[:7]:
            compare(people, HOSTED_CLUSTERS, who, headers)
            for method, path, body, more in REQUESTS:
                answer = seen(people.ask(who, method, HOSTED_CLUSTERS[0] + path, body, {**headers, **more}))
                assert answer == online[who, str(headers), method, path, str(more)]


def test_words(people: People) -> None:
    """Those of any API server, without the name of the cluster."""
    for prefix in (*LOGICAL_CLUSTERS, *HOSTED_CLUSTERS):
        answer = people.ask("nobody", "GET", f"{prefix}/version")
        said = 'forbidden: User "system:anonymous" cannot get path "/version"'
        assert (answer.status, answer["message"]) == (403, said)
        answer = people.ask("nobody", "GET", f"{prefix}{MAPS}/a")
        assert answer["message"] == (
            'configmaps "a" is forbidden: User "system:anonymous" cannot get resource "configmaps" in API group "" '
            'in the namespace "default"'
        )


def test_who_has_a_credential_learns(people: People) -> None:
    people._tokens["beta-robot"] = token_for(people.beta, "robot")
    assert people.ask("beta-robot", "GET", f"/clusters/{BETA}/healthz").body == b"ok"
    assert people.ask("root-admin", "GET", f"/clusters/{BETA}/version").status == 200
    answer = people.ask("root-admin", "GET", "/clusters/delta/version")
    assert (answer.status, answer["message"]) == (404, 'logicalclusters.core.shoal.dev "delta" not found')
    west = "/managedclusters/default/west"
    assert people.ask("west-admin", "GET", f"{west}/version").status == 200
    with worker_away(people):
        answer = people.ask("west-admin", "GET", f"{west}/version")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "is not connected" in answer["message"]
    assert people.ask("west-admin", "GET", f"{west}/version").status == 200


def test_a_hub_that_has_just_started_knows_no_tokens_yet(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """Good tokens get an answer after which clients try again, and so do all others."""
    monkeypatch.setattr(disclosure, "STARTUP_SECONDS", 1e9)
    with worker_away(people):
        for address in HOSTED_CLUSTERS:
            answer = people.ask("east-admin", "GET", f"{address}/version")
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert answer["message"] == "the hub has just started and waits for its workers"
            assert people.ask("nobody", "GET", f"{address}/version").status == 403


def test_an_accepted_token_is_remembered_for_its_cluster_only(people: People) -> None:
    """Not the one in the Secret of the hub: a token that only west knows."""
    west = "/managedclusters/default/west"
    accounts = f"{west}/api/v1/namespaces/default/serviceaccounts"
    people.ask("west-admin", "POST", accounts, {"metadata": {"name": "visitor"}}).ok()
    made = people.ask("west-admin", "POST", f"{accounts}/visitor/token", {"spec": {}}).ok()
    people._tokens["west-visitor"] = made["status"]["token"]
    with worker_away(people):
        assert people.ask("west-visitor", "GET", f"{west}{MAPS}").status == 401, "never seen"
    assert people.ask("west-visitor", "GET", f"{west}{MAPS}").status == 403, "accepted, and refused"
    with worker_away(people):
        assert people.ask("west-visitor", "GET", f"{west}{MAPS}").status == 503
        assert people.ask("west-visitor", "GET", f"/managedclusters/default/east{MAPS}").status == 401
        assert people.ask("west-visitor", "GET", f"/managedclusters/default/none{MAPS}").status == 401
    people.ask("west-admin", "DELETE", f"{accounts}/visitor").ok()
    eventually(lambda: people.ask("west-visitor", "GET", f"{west}{MAPS}").status == 401)
    with worker_away(people):
        assert people.ask("west-visitor", "GET", f"{west}{MAPS}").status == 401
    del people._tokens["west-visitor"]


def test_an_administrator_may_open_a_cluster_to_everybody(people: People) -> None:
    """Beyond the default roles: for example for those who verify tokens of the cluster."""
    role = "system:service-account-issuer-discovery"
    subject = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:unauthenticated"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    binding = {"metadata": {"name": "opened"}, "roleRef": reference, "subjects": [subject]}
    for who, prefix in (("root-admin", f"/clusters/{BETA}"), ("west-admin", "/managedclusters/default/west")):
        people.ask(who, "POST", f"{prefix}{RBAC}/clusterrolebindings", binding).ok()
        assert people.ask("nobody", "GET", f"{prefix}/openid/v1/jwks").status == 200
        assert people.ask("nobody", "GET", f"{prefix}/version").status == 403
        people.ask(who, "DELETE", f"{prefix}{RBAC}/clusterrolebindings/opened").ok()
        assert people.ask("nobody", "GET", f"{prefix}/openid/v1/jwks").status == 403


def test_unassigned_clusters(people: People) -> None:
    """Nobody learns of a cluster that no worker has yet; whoever asks the hub does."""
    kind = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "ManagedCluster"}
    spec = {"nodes": 0, "workerSelector": {"matchLabels": {"no": "such"}}}
    people.root.post(MANAGED, {**kind, "metadata": {"name": "waits"}, "spec": spec}).ok()
    waits = ("/managedclusters/default/waits", "/managedclusters/default/none")
    for who, headers in (("nobody", {}), *(("nobody", each) for each in GARBAGE), ("east-admin", {})):
        compare(people, waits, who, headers)
    people.root.delete(f"{MANAGED}/waits").ok()
