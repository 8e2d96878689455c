"""Stable addresses: parsing, rejected paths, and what of a request is forwarded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fleet.tunnel.paths import HostedPath, end_to_end_headers, forwarded_request, local_request, parse_hosted_path
from shoal.objects.errors import BadRequest, NotFound, StatusError
from shoal.objects.wire import ClientCertificate, Request


@pytest.mark.parametrize(
    ("path", "at_the_worker"),
    [
        ("/managedclusters/default/east", "/clusters/default.east"),
        ("/managedclusters/default/east/", "/clusters/default.east/"),
        ("/managedclusters/default/east/api/v1/pods", "/clusters/default.east/api/v1/pods"),
        ("//managedclusters//default/east//api//", "/clusters/default.east/api/"),
        ("/managedclusters/default/a.b/api", "/clusters/default.a.b/api"),
        ("/managedclusters/default/east/clusters/root/api", "/clusters/default.east/clusters/root/api"),
        ("/managedclusters/default/east/%2e%2e/api", "/clusters/default.east/%2e%2e/api"),
    ],
)
def test_an_address_is_a_hosted_cluster(path: str, at_the_worker: str) -> None:
    assert parse_hosted_path(path).local_path == at_the_worker
    got = local_request(Request("GET", path))
    assert (got.path, got.original_path) == (at_the_worker, parse_hosted_path(path).path)


@pytest.mark.parametrize(
    ("path", "error", "said"),
    [
        ("/", NotFound, "the server could not find the requested resource"),
        ("/api/v1/secrets", NotFound, "the server could not find the requested resource"),
        ("/clusters/root/api/v1/secrets", NotFound, "the server could not find the requested resource"),
        ("/managedclusters/default", NotFound, "the server could not find the requested resource"),
        ("managedclusters/default/east", NotFound, "the server could not find the requested resource"),
        ("/managedclusters/../clusters/root/api", NotFound, 'infrastructure.cluster.x-k8s.io "clusters" not found'),
        ("/managedclusters/default/../api", NotFound, 'managedclusters.infrastructure.cluster.x-k8s.io ".."'),
        ("/managedclusters/*/east/api", NotFound, 'managedclusters.infrastructure.cluster.x-k8s.io "east" not found'),
        ("/managedclusters/default/*/api", NotFound, 'managedclusters.infrastructure.cluster.x-k8s.io'),
        ("/managedclusters/a.b/east/api", NotFound, 'managedclusters.infrastructure.cluster.x-k8s.io "east" not found'),
        ("/managedclusters/Default/east", NotFound, 'managedclusters.infrastructure.cluster.x-k8s.io "east" not found'),
        ("/managedclusters/default/east%2f..", NotFound, "managedclusters.infrastructure.cluster.x-k8s.io"),
        ("/managedclusters/default/east\n/api", NotFound, "managedclusters.infrastructure.cluster.x-k8s.io"),
        ("/managedclusters/default/east/../../api", BadRequest, "the path has an invalid segment"),
        ("/managedclusters/default/east/./api", BadRequest, "the path has an invalid segment"),
        ("/managedclusters/default/east/..", BadRequest, "the path has an invalid segment"),
        ("/managedclusters/default/east/a\0b", BadRequest, "the path has an invalid segment"),
    ],
)  # fmt: skip
def test_anything_else_is_refused(path: str, error: type[StatusError], said: str) -> None:
    with pytest.raises(error) as caught:
        local_request(Request("GET", path))
    assert said in caught.value.message


pieces = st.sampled_from(
    ["/", ".", "..", "managedclusters", "clusters", "root", "default", "east", "*", "%2f", "\\", "a"]
)


@given(st.lists(pieces, max_size=12))
def test_no_path_leads_to_another_cluster(parts: list[str]) -> None:
    path = "".join(parts)
    try:
        got = local_request(Request("GET", path)).path
    except (NotFound, BadRequest):
        return
    _, clusters, cluster, *rest = got.split("/")
    namespace, dot, name = cluster.partition(".")
    assert (clusters, dot) == ("clusters", ".")
    assert [part for part in path.split("/") if part][:3] == ["managedclusters", namespace, name]
    assert not {".", ".."} & set(rest)


EAST = HostedPath("default", "east", "/api")


def test_what_crosses_and_what_does_not() -> None:
    headers = {
        "host": "hub",
        "authorization": "Bearer t",
        "impersonate-user": "jane",
        "connection": "keep-alive, X-Of-This-Hop",
        "x-of-this-hop": "1",
        "keep-alive": "timeout=5",
        "te": "trailers",
        "transfer-encoding": "chunked",
        "content-length": "4",
        "expect": "100-continue",
        "proxy-authorization": "Basic x",
        "x-remote-user": "admin",
        "x-remote-group": "system:masters",
        "x-forwarded-for": "10.0.0.1",
    }
    certificate = ClientCertificate("admin", ("system:masters",), ("shoal://root",))
    sent = Request("GET", "/managedclusters/default/east/api", "a=1", headers, b"body", certificate, "192.0.2.7")
    got = forwarded_request(sent, EAST)
    assert got.headers == {
        "host": "hub",
        "authorization": "Bearer t",
        "impersonate-user": "jane",
        "x-forwarded-for": "10.0.0.1, 192.0.2.7",
    }
    assert (got.path, got.query, got.body) == (sent.path, "a=1", b"body")
    assert (got.certificate, got.remote_addr, got.raw_headers) == (None, "hub", ())
    assert local_request(sent).certificate is None
    assert local_request(sent).remote_addr == "hub"


def test_headers_that_came_twice_stay_apart() -> None:
    lines = (("impersonate-group", "a"), ("impersonate-group", "b"), ("te", "x"))
    got = forwarded_request(
        Request("GET", "/", headers={"impersonate-group": "a, b", "te": "x"}, raw_headers=lines), EAST
    )
    assert got.raw_headers == lines[:2]
    assert local_request(Request("GET", EAST.path, raw_headers=got.raw_headers)).header_list("impersonate-group") == [
        "a",
        "b",
    ]


def test_headers_of_an_answer() -> None:
    good = ("Retry-After", "1")
    assert end_to_end_headers(
        [good, ("Transfer-Encoding", "chunked"), ("content-length", "9"), ("a\r\nb", "c"), ("", "")]
    ) == (good,)
