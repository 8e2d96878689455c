"""Non-resource paths: health, version, discovery roots, signing keys, metrics."""

from __future__ import annotations

import pytest

from tests.serving import Cluster, Server


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
def test_anybody_may_ask_how_root_is(server: Server, path: str) -> None:
    root = Cluster(server, "root")
    assert root.request("GET", path, token="").status == 200
    root.close()


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_in_a_word_and_in_lines(cluster: Cluster, path: str) -> None:
    answer = cluster.get(path)
    assert (answer.body, answer.headers["content-type"]) == (b"ok", "text/plain; charset=utf-8")
    lines = cluster.get(f"{path}?verbose").body.decode().splitlines()
    assert lines[0] == "[+]ping ok"
    assert lines[-1] == f"{path[1:]} check passed"
    assert cluster.get(f"{path}/ping").body == b"ok"
    assert cluster.get(f"{path}/nothing").status == 404


def test_the_plain_path_is_root(server: Server) -> None:
    root = Cluster(server, "root")
    root.prefix = ""
    assert root.get("/healthz").body == b"ok"
    assert root.get("/api/v1/namespaces/default").ok()["metadata"]["name"] == "default"
    root.close()


def test_the_version_says_what_is_served(cluster: Cluster) -> None:
    found = cluster.get("/version").ok()
    assert (found["major"], found["minor"]) == ("1", "36")
    assert found["gitVersion"].startswith("v1.36.4")
    assert {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"} <= found.keys()


def test_nobody_else_gets_further_without_a_name(cluster: Cluster) -> None:
    for path in ("/", "/api", "/apis", "/metrics", "/openapi/v3", "/api/v1/namespaces"):
        answer = cluster.request("GET", path, token="")
        assert (answer.status, answer["reason"]) == (403, "Forbidden"), path
    answer = cluster.request("GET", "/metrics", token="")
    assert answer["message"] == 'forbidden: User "system:anonymous" cannot get path "/metrics"'


def test_the_root_lists_paths(cluster: Cluster) -> None:
    paths = cluster.get("/").ok()["paths"]
    assert {"/api", "/api/v1", "/apis", "/apis/apiextensions.k8s.io/v1", "/healthz", "/version"} <= set(paths)


def test_an_unknown_path_is_not_found(cluster: Cluster) -> None:
    for path in ("/nothing", "//api/v1/pods", "/apis/nothing", "/apis/nothing/v1", "/healthz/nothing"):
        answer = cluster.get(path)
        assert (answer.status, answer.body) == (404, b"404 page not found\n"), path


def test_only_reading_is_for_paths(cluster: Cluster) -> None:
    answer = cluster.post("/healthz", {})
    assert (answer.status, answer["reason"]) == (405, "MethodNotAllowed")


def test_metrics_are_text(cluster: Cluster) -> None:
    answer = cluster.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert b"# TYPE apiserver_storage_objects gauge" in answer.body


def test_plain_discovery(cluster: Cluster) -> None:
    core = cluster.get("/api").ok()
    assert (core["kind"], core["versions"]) == ("APIVersions", ["v1"])
    groups = cluster.get("/apis").ok()
    assert (groups["kind"], groups["apiVersion"]) == ("APIGroupList", "v1")
    resources = cluster.get("/api/v1").ok()
    assert (resources["kind"], resources["groupVersion"]) == ("APIResourceList", "v1")
    by_name = {resource["name"]: resource for resource in resources["resources"]}
    assert by_name["configmaps"]["verbs"] == [
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
    ]  # fmt: skip
    assert by_name["configmaps"]["shortNames"] == ["cm"]
    assert by_name["serviceaccounts/token"]["kind"] == "TokenRequest"


def test_aggregated_discovery_repeats_what_it_is(cluster: Cluster) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    for path in ("/api", "/apis"):
        answer = cluster.get(path, Accept=accept)
        assert answer.headers["content-type"] == accept
        found = answer.ok()
        assert (found["kind"], found["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")


def test_keys_of_the_cluster(cluster: Cluster) -> None:
    found = cluster.get("/.well-known/openid-configuration").ok()
    assert found["jwks_uri"].endswith("/openid/v1/jwks")
    (key,) = cluster.get("/openid/v1/jwks").ok()["keys"]
    assert key["use"] == "sig"
    assert "d" not in key, "the public half only"


def test_how_the_checks_went_is_counted(cluster: Cluster) -> None:
    assert cluster.get("/livez").body == b"ok"
    lines = cluster.get("/metrics/slis").body.decode().splitlines()
    assert 'kubernetes_healthcheck{name="ping",type="livez"} 1' in lines
    counted = 'kubernetes_healthchecks_total{name="ping",status="success",type="livez"} '
    assert [line for line in lines if line.startswith(counted)]
