"""Tests of the Endpoints and EndpointSlices computed for a Service."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.controlplane.endpoints.decide import Plan, plan
from shoal.controlplane.endpoints.members import facts, matches, selects
from shoal.controlplane.endpoints.subsets import MOST as MOST_ADDRESSES
from shoal.controlplane.endpoints.subsets import packed, truncated
from tests.controlplane.endpoints.samples import Object, node, pod, service


def planned(svc: Object, pods: list[Object], current: Object | None = None, slices: Any = ()) -> Plan:
    return plan(svc, pods, lambda name: node() if name == "n" else None, current, slices)


def written(found: list[Object], start: int = 0) -> list[Object]:
    """Returns the slices as the server would store them."""
    return [
        {**one, "metadata": {"name": f"s{start + i}", "resourceVersion": "1", **one["metadata"]}}
        for i, one in enumerate(found)
    ]


def test_endpoints_of_ready_and_unready_pods() -> None:
    found = planned(service(), [pod(2), pod(1, ready=False), pod(3, going=True)]).endpoints
    assert found is not None
    assert found["metadata"]["labels"] == {"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    assert found["subsets"] == [
        {
            "addresses": [
                {
                    "ip": "10.244.0.3",
                    "nodeName": "n",
                    "targetRef": {"kind": "Pod", "namespace": "default", "name": "p2", "uid": "u2"},
                }
            ],
            "notReadyAddresses": [
                {
                    "ip": "10.244.0.2",
                    "nodeName": "n",
                    "targetRef": {"kind": "Pod", "namespace": "default", "name": "p1", "uid": "u1"},
                }
            ],
            "ports": [{"port": 8080, "protocol": "TCP"}],
        }
    ]


def test_endpoints_that_are_right_are_not_written_again() -> None:
    pods = [pod(1), pod(2)]
    first = planned(service(), pods).endpoints
    assert first is not None
    assert planned(service(), list(reversed(pods)), first).endpoints is None
    changed = planned(
        service(), pods[:1], {**first, "metadata": {**first["metadata"], "resourceVersion": "7"}}
    ).endpoints
    assert changed is not None
    assert changed["metadata"]["resourceVersion"] == "7"


def test_unready_pods_are_published_if_asked_for() -> None:
    pods = [pod(1, ready=False), pod(2, going=True), pod(3, ready=False, nodeName="gone")]
    found = planned(service(publishNotReadyAddresses=True), pods)
    assert found.endpoints is not None
    assert [len(one["addresses"]) for one in found.endpoints["subsets"]] == [3]
    (made,) = found.slices.create
    states = {one["targetRef"]["name"]: one["conditions"] for one in made["endpoints"]}
    assert states == {
        "p1": {"ready": True, "serving": False, "terminating": False},
        "p2": {"ready": True, "serving": True, "terminating": True},
        "p3": {"ready": True, "serving": False, "terminating": False},
    }


@pytest.mark.parametrize(
    ("one", "conditions"),
    [
        (pod(1), {"ready": True, "serving": True, "terminating": False}),
        (pod(1, ready=False), {"ready": False, "serving": False, "terminating": False}),
        (pod(1, going=True), {"ready": False, "serving": True, "terminating": True}),
        (pod(1, ready=False, going=True), {"ready": False, "serving": False, "terminating": True}),
    ],
)
def test_conditions_of_an_endpoint(one: Object, conditions: Object) -> None:
    (made,) = planned(service(), [one]).slices.create
    assert made["endpoints"] == [
        {
            "addresses": ["10.244.0.2"],
            "conditions": conditions,
            "targetRef": {"kind": "Pod", "namespace": "default", "name": "p1", "uid": "u1"},
            "nodeName": "n",
            "zone": "a",
        }
    ]


def test_a_slice_belongs_to_its_service() -> None:
    (made,) = planned(service(), [pod(1)]).slices.create
    assert made["metadata"] == {
        "generateName": "web-",
        "namespace": "default",
        "labels": {
            "team": "a",
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        },
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "name": "web",
                "uid": "s",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert made["ports"] == [{"name": "", "protocol": "TCP", "port": 8080}]


def test_ports_by_name_differ_from_pod_to_pod() -> None:
    ports = [
        {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "web", "appProtocol": "http"},
        {"name": "metrics", "port": 9090, "protocol": "TCP", "targetPort": 9090},
    ]
    early, late = [{"name": "web", "containerPort": 80}], [{"name": "web", "containerPort": 8080, "protocol": "TCP"}]
    found = planned(service(ports=ports), [pod(1, ports=early), pod(2, ports=late), pod(3)])
    assert found.endpoints is not None
    shown = {
        tuple((port["name"], port["port"]) for port in one["ports"]): len(one["addresses"])
        for one in found.endpoints["subsets"]
    }
    assert shown == {(("http", 80),): 1, (("http", 8080),): 1, (("metrics", 9090),): 3}
    assert sorted(len(one["ports"]) for one in found.slices.create) == [1, 2, 2]
    with_app = [port for one in found.slices.create for port in one["ports"] if port["name"] == "http"]
    assert {port["appProtocol"] for port in with_app} == {"http"}


def test_a_headless_service_needs_no_ports_and_says_what_it_is() -> None:
    headless = service(clusterIP="None", clusterIPs=["None"], ports=None)
    given = pod(1, hostname="p1", subdomain="web")
    found = planned(headless, [given])
    assert found.endpoints is not None
    assert found.endpoints["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    assert found.endpoints["subsets"][0]["addresses"][0]["hostname"] == "p1"
    assert "ports" not in found.endpoints["subsets"][0]
    (made,) = found.slices.create
    assert (made["ports"], made["endpoints"][0]["hostname"]) == ([], "p1")
    assert made["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


def test_a_service_without_pods_has_one_empty_slice() -> None:
    found = planned(service(), [])
    (empty,) = found.slices.create
    assert (empty["endpoints"], empty["ports"]) == ([], [])
    (stored,) = written([empty])
    assert not planned(service(), [], None, [stored]).slices
    filled = planned(service(), [pod(1)], None, [stored]).slices
    assert (len(filled.create), len(filled.update), len(filled.delete)) == (0, 1, 0), "the empty one is used"
    assert filled.update[0]["metadata"]["name"] == "s0"
    again = planned(service(), [], None, written(filled.update)).slices
    assert (len(again.create), len(again.update), len(again.delete)) == (0, 1, 0)
    assert again.update[0]["ports"] == []


def test_a_pod_on_an_unknown_node_is_left_out_until_it_comes() -> None:
    found = planned(service(), [pod(1, nodeName="gone"), pod(2)])
    assert found.without_node
    assert [len(one["endpoints"]) for one in found.slices.create] == [1]


def test_few_slices_change() -> None:
    pods = [pod(i) for i in range(250)]
    slices = written(planned(service(), pods).slices.create)
    assert [len(one["endpoints"]) for one in slices] == [100, 100, 50]
    assert not planned(service(), pods, None, slices).slices
    one_less = planned(service(), pods[1:], None, slices).slices
    assert [len(one["endpoints"]) for one in one_less.update] == [99]
    one_more = planned(service(), [*pods, pod(300)], None, slices).slices
    assert [(len(one["endpoints"]), one["metadata"]["name"]) for one in one_more.update] == [(51, "s2")]
    replaced = planned(service(), [*pods[1:], pod(300)], None, slices).slices
    assert [(len(one["endpoints"]), one["metadata"]["name"]) for one in replaced.update] == [(100, "s0")]
    many = planned(service(), [*pods, *(pod(i) for i in range(300, 360))], None, slices).slices
    assert ([len(one["endpoints"]) for one in many.create], many.update) == ([60], [])


def test_labels_of_the_service_go_to_its_slices() -> None:
    slices = written(planned(service(), [pod(1)]).slices.create)
    other = service()
    other["metadata"] = {**other["metadata"], "labels": {"team": "b"}}
    (changed,) = planned(other, [pod(1)], None, slices).slices.update
    assert changed["metadata"]["labels"]["team"] == "b"


def test_hints_for_traffic_that_stays_near() -> None:
    (near,) = planned(service(trafficDistribution="PreferClose"), [pod(1), pod(2, ready=False)]).slices.create
    assert [one.get("hints") for one in near["endpoints"]] == [{"forZones": [{"name": "a"}]}, None]
    (same,) = planned(service(trafficDistribution="PreferSameNode"), [pod(1)]).slices.create
    assert same["endpoints"][0]["hints"] == {"forZones": [{"name": "a"}], "forNodes": [{"name": "n"}]}


def test_nothing_new_is_made_for_a_service_that_goes() -> None:
    going = service()
    going["metadata"] = {**going["metadata"], "deletionTimestamp": "2024-01-01T00:00:00Z"}
    assert planned(going, [pod(1)]).slices.create == []


def test_too_many_addresses_are_cut_in_proportion() -> None:
    found = planned(service(), [pod(i) for i in range(1200)]).endpoints
    assert found is not None
    assert len(found["subsets"][0]["addresses"]) == MOST_ADDRESSES
    assert found["metadata"]["annotations"] == {"endpoints.kubernetes.io/over-capacity": "truncated"}
    address = {"ip": "10.1.0.1"}
    mixed = [{"addresses": [address] * 900, "notReadyAddresses": [address] * 300}]
    cut = truncated(mixed)
    assert cut is not None
    assert (len(cut[0]["addresses"]), len(cut[0]["notReadyAddresses"])) == (900, 100)


def test_an_address_that_is_not_ready_once_is_not_ready() -> None:
    address, port = {"ip": "10.1.0.1"}, {"name": "a", "port": 1, "protocol": "TCP"}
    assert packed([([port], address, True), ([port], address, False)]) == [
        {"notReadyAddresses": [address], "ports": [port]}
    ]


def test_who_selects_pods() -> None:
    assert selects(service())
    assert not selects(service(selector=None))
    assert not selects(service(selector={}))
    assert not selects(service(type="ExternalName"))
    assert matches(service(), {"app": "web", "x": "y"})
    assert not matches(service(), {"app": "other"})


def test_what_of_a_pod_matters() -> None:
    base = pod(1)
    touched = {**base, "metadata": {**base["metadata"], "annotations": {"a": "b"}}}
    assert facts(base) == facts(touched)
    for other in (pod(1, ready=False), pod(1, going=True), pod(1, hostname="h"), pod(2)):
        assert facts(base) != facts(other)


@given(st.lists(st.lists(st.integers(0, 400), unique=True, max_size=260), min_size=1, max_size=6))
def test_slices_hold_exactly_the_wanted_pods_whatever_happened_before(steps: list[list[int]]) -> None:
    slices: list[Object] = []
    made = 0
    for step in steps:
        todo = planned(service(), [pod(i) for i in step], None, slices).slices
        changed = {one["metadata"]["name"]: one for one in todo.update}
        gone = {one["metadata"]["name"] for one in todo.delete}
        slices = [changed.get(one["metadata"]["name"], one) for one in slices if one["metadata"]["name"] not in gone]
        slices += written(todo.create, made)
        made += len(todo.create)
        names = [one["targetRef"]["name"] for found in slices for one in found["endpoints"]]
        assert sorted(names) == sorted(f"p{i}" for i in step)
        assert all(len(found["endpoints"]) <= 100 for found in slices)
        assert slices, "there is always one"
        assert not planned(service(), [pod(i) for i in step], None, slices).slices
