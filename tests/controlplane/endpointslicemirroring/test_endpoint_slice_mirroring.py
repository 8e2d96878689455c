"""Tests of EndpointSlices that mirror user-written Endpoints: the decision, and in a running server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.controlplane.endpointslicemirroring.decide import MAX_ADDRESSES_PER_SUBSET, plan, should_mirror
from tests.serving import Cluster, Object, Server, fresh_cluster

SERVICES = "/api/v1/namespaces/default/services"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name=web"
PLAIN: Object = {"metadata": {"name": "web"}, "spec": {"ports": [{"name": "http", "port": 80}]}}


def endpoints(subsets: list[Object], **metadata: object) -> Object:
    return {"metadata": {"name": "web", "namespace": "default", "uid": "e", **metadata}, "subsets": subsets}


def subset(*ips: str, unready: tuple[str, ...] = ()) -> Object:
    found: Object = {
        "addresses": [{"ip": ip} for ip in ips],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    }
    return found | ({"notReadyAddresses": [{"ip": ip} for ip in unready]} if unready else {})


def test_one_slice_per_family_and_set_of_ports() -> None:
    given = endpoints([subset("10.1.0.1", "fd00::1", unready=("10.1.0.2",))], labels={"a": "b"}, annotations={"c": "d"})
    made = {one["addressType"]: one for one in plan(given, []).slices.create}
    assert made.keys() == {"IPv4", "IPv6"}
    assert made["IPv4"]["endpoints"] == [
        {"addresses": ["10.1.0.1"], "conditions": {"ready": True}},
        {"addresses": ["10.1.0.2"], "conditions": {"ready": False}},
    ]
    metadata = made["IPv4"]["metadata"]
    assert metadata["labels"] == {
        "a": "b",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
    }
    assert metadata["annotations"] == {"c": "d"}
    assert [(one["kind"], one["uid"]) for one in metadata["ownerReferences"]] == [("Endpoints", "e")]


def test_what_is_right_stays_and_what_is_not_is_changed_in_place() -> None:
    given = endpoints([subset("10.1.0.1")])
    (made,) = plan(given, []).slices.create
    stored = {**made, "metadata": {**made["metadata"], "name": "s", "resourceVersion": "1"}}
    assert not plan(given, [stored]).slices
    (changed,) = plan(endpoints([subset("10.1.0.9")]), [stored]).slices.update
    assert (changed["metadata"]["name"], changed["endpoints"][0]["addresses"]) == ("s", ["10.1.0.9"])
    assert plan(endpoints([]), [stored]).slices.delete == [stored]


def test_no_more_than_a_slice_holds() -> None:
    given = plan(
        endpoints([subset(*(f"10.1.{i // 250}.{i % 250 + 1}" for i in range(MAX_ADDRESSES_PER_SUBSET + 5)))]), []
    )
    assert (len(given.slices.create[0]["endpoints"]), given.skipped) == (MAX_ADDRESSES_PER_SUBSET, 5)


@pytest.mark.parametrize(
    ("metadata", "service", "mirrored"),
    [
        ({}, PLAIN, True),
        ({}, None, False),
        ({}, {"spec": {"selector": {"a": "b"}}}, False),
        ({"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}, PLAIN, False),
        ({"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}, PLAIN, False),
    ],
)
def test_whose_endpoints_are_mirrored(metadata: Object, service: Object | None, mirrored: bool) -> None:
    assert should_mirror(endpoints([], **metadata), service) is mirrored


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    yield cluster
    cluster.close()


def slice_addresses(cluster: Cluster) -> list[str]:
    return [ip for each in cluster.get(SLICES).ok()["items"] for one in each["endpoints"] for ip in one["addresses"]]


def test_hand_written_endpoints_through_their_life(cluster: Cluster) -> None:
    cluster.post(SERVICES, PLAIN).ok()
    cluster.post(ENDPOINTS, {"metadata": {"name": "web"}, "subsets": [subset("10.1.0.1")]}).ok()
    cluster.eventually(lambda: slice_addresses(cluster) == ["10.1.0.1"])
    cluster.patch(f"{ENDPOINTS}/web", {"subsets": [subset("10.1.0.2")]}).ok()
    cluster.eventually(lambda: slice_addresses(cluster) == ["10.1.0.2"])
    assert len(cluster.get(SLICES).ok()["items"]) == 1
    cluster.patch(
        f"{ENDPOINTS}/web", {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}
    ).ok()
    cluster.eventually(lambda: not cluster.get(SLICES).ok()["items"])
    cluster.patch(f"{ENDPOINTS}/web", {"metadata": {"labels": None}}).ok()
    cluster.eventually(lambda: slice_addresses(cluster) == ["10.1.0.2"])
    cluster.delete(f"{ENDPOINTS}/web").ok()
    cluster.eventually(lambda: not cluster.get(SLICES).ok()["items"])
