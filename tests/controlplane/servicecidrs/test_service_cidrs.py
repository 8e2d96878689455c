"""Tests of additional ServiceCIDRs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.controlplane.servicecidrs.controller import can_delete, service_addresses
from tests.controlplane.workloads import Object, condition
from tests.serving import Cluster, Server, fresh_cluster

CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
SERVICES = "/api/v1/namespaces/default/services"


def cidr(*networks: str, name: str = "more") -> Object:
    return {"metadata": {"name": name}, "spec": {"cidrs": list(networks)}}


@pytest.mark.parametrize(
    ("going", "others", "used", "may"),
    [
        (cidr("10.9.0.0/24"), [], ["10.9.0.1"], False),
        (cidr("10.9.0.0/24"), [cidr("10.9.0.0/16")], ["10.9.0.1"], True),
        (cidr("10.9.0.0/24"), [], ["10.8.0.1"], True),
        (cidr("10.9.0.0/24"), [], [], True),
    ],
)
def test_when_a_network_may_go(going: Object, others: list[Object], used: list[str], may: bool) -> None:
    assert can_delete(going, others, used) is may


def test_the_address_of_the_api_is_always_used() -> None:
    services: list[Object] = [{"spec": {"clusterIPs": ["10.0.0.7"]}}, {"spec": {"clusterIPs": ["None"]}}, {"spec": {}}]
    assert service_addresses(services) == {"10.0.0.1", "10.0.0.7"}


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    yield cluster
    cluster.close()


def service(name: str, address: str = "") -> Object:
    given = {"ports": [{"port": 80}], **({"clusterIP": address} if address else {})}
    return {"metadata": {"name": name}, "spec": given}


def test_addresses_of_a_second_network(cluster: Cluster) -> None:
    early = cluster.post(SERVICES, service("a", "203.0.113.10"))
    assert early.status == 422
    cluster.post(CIDRS, cidr("203.0.113.0/24")).ok()
    ready = cluster.eventually(lambda: condition(cluster.get(f"{CIDRS}/more").ok(), "Ready"))
    assert (ready["status"], ready["message"]) == ("True", "Kubernetes Service CIDR is ready")
    cluster.post(SERVICES, service("a", "203.0.113.10")).ok()
    assert cluster.post(SERVICES, service("b", "203.0.113.10")).status == 422
    for edge in ("203.0.113.0", "203.0.113.255"):
        assert cluster.post(SERVICES, service("b", edge)).status == 422
    cluster.delete(f"{CIDRS}/more").ok()
    cluster.eventually(lambda: condition(cluster.get(f"{CIDRS}/more").ok(), "Ready")["status"] == "False")
    assert cluster.post(SERVICES, service("b", "203.0.113.11")).status == 422, "a network that goes gives nothing"
    cluster.delete(f"{SERVICES}/a").ok()
    cluster.eventually(lambda: cluster.get(f"{CIDRS}/more").status == 404)


def test_the_first_network_does_not_go(cluster: Cluster) -> None:
    cluster.delete(f"{CIDRS}/kubernetes").ok()
    cluster.eventually(lambda: condition(cluster.get(f"{CIDRS}/kubernetes").ok(), "Ready")["status"] == "False")
    assert cluster.post(SERVICES, service("a")).status == 500
    cluster.post(CIDRS, cidr("10.0.0.0/16")).ok()
    cluster.eventually(lambda: cluster.get(f"{CIDRS}/kubernetes").status == 404)
    cluster.eventually(lambda: condition(cluster.get(f"{CIDRS}/more").ok(), "Ready").get("status") == "True")
    cluster.post(SERVICES, service("a")).ok()
