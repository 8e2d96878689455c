"""Tests of the Endpoints and EndpointSlices computed for a Service."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.controlplane.endpoints.decide import EndpointsPlan, plan
from shoal.controlplane.endpoints.members import endpoint_facts, has_selector, selects_labels
from shoal.controlplane.endpoints.subsets import MAX_ADDRESSES as MOST_ADDRESSES
from shoal.controlplane.endpoints.subsets import repack_subsets, truncate_subsets
from tests.controlplane.endpoints.samples import Object, node, pod, service


def make_plan(svc: Object, pods: list[Object], current: Object | None = None, slices: Any = ()) -> EndpointsPlan:
    return plan(svc, pods, lambda name: node() if name == "n" else None, current, slices)


def as_stored(found: list[Object], start: int = 0) -> list[Object]:
    """Returns the slices as the server would store them."""
    return [
        {**one, "metadata": {"name": f"s{start + i}", "resourceVersion": "1", **one["metadata"]}}
        for i, one in enumerate(found)
    ]


def test_endpoints_of_ready_and_unready_pods() -> None:
    found = make_plan(service(), [pod(2), pod(1, ready=False), pod(3, going=True)]).endpoints
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
    first = make_plan(service(), pods).endpoints
    assert first is not None
    assert make_plan(service(), list(reversed(pods)), first).endpoints is None
    changed = make_plan(
        service(), pods[:1], {**first, "metadata": {**first["metadata"], "resourceVersion": "7"}}
    ).endpoints
    assert changed is not None
    assert changed["metadata"]["resourceVersion"] == "7"


def test_unready_pods_are_published_if_asked_for() -> None:
    pods = [pod(1, ready=False), pod(2, going=True), pod(3, ready=False, nodeName="gone")]
    found = make_plan(service(publishNotReadyAddresses=True), pods)
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
    (made,) = make_plan(service(), [one]).slices.create
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
    (made,) = make_plan(service(), [pod(1)]).slices.create
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
    found = make_plan(service(ports=ports), [pod(1, ports=early), pod(2, ports=late), pod(3)])
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
    found = make_plan(headless, [given])
    assert found.endpoints is not None
    assert found.endpoints["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    assert found.endpoints["subsets"][0]["addresses"][0]["hostname"] == "p1"
    assert "ports" not in found.endpoints["subsets"][0]
    (made,) = found.slices.create
    assert (made["ports"], made["endpoints"][0]["hostname"]) == ([], "p1")
    assert made["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


def test_a_service_without_pods_has_one_empty_slice() -> None:
    found = make_plan(service(), [])
    (empty,) = found.slices.create
    assert (empty["endpoints"], empty["ports"]) == ([], [])
    (stored,) = as_stored([empty])
    assert not make_plan(service(), [], None, [stored]).slices
    filled = make_plan(service(), [pod(1)], None, [stored]).slices
    assert (len(filled.create), len(filled.update), len(filled.delete)) == (0, 1, 0), "the empty one is used"
    assert filled.update[0]["metadata"]["name"] == "s0"
    again = make_plan(service(), [], None, as_stored(filled.update)).slices
    assert (len(again.create), len(again.update), len(again.delete)) == (0, 1, 0)
    assert again.update[0]["ports"] == []


def test_a_pod_on_an_unknown_node_is_left_out_until_it_comes() -> None:
    found = make_plan(service(), [pod(1, nodeName="gone"), pod(2)])
    assert found.missing_nodes
    assert [len(one["endpoints"]) for one in found.slices.create] == [1]


def test_few_slices_change() -> None:
    pods = [pod(i) for i in range(250)]
    slices = as_stored(make_plan(service(), pods).slices.create)
    assert [len(one["endpoints"]) for one in slices] == [100, 100, 50]
    assert not make_plan(service(), pods, None, slices).slices
    one_less = make_plan(service(), pods[1:], None, slices).slices
    assert [len(one["endpoints"]) for one in one_less.update] == [99]
    one_more = make_plan(service(), [*pods, pod(300)], None, slices).slices
    assert [(len(one["endpoints"]), one["metadata"]["name"]) for one in one_more.update] == [(51, "s2")]
    replaced = make_plan(service(), [*pods[1:], pod(300)], None, slices).slices
    assert [(len(one["endpoints"]), one["metadata"]["name"]) for one in replaced.update] == [(100, "s0")]
    many = make_plan(service(), [*pods, *(pod(i) for i in range(300, 360))], None, slices).slices
    assert ([len(one["endpoints"]) for one in many.create], many.update) == ([60], [])


def test_labels_of_the_service_go_to_its_slices() -> None:
    slices = as_stored(make_plan(service(), [pod(1)]).slices.create)
    other = service()
    other["metadata"] = {**other["metadata"], "labels": {"team": "b"}}
    (changed,) = make_plan(other, [pod(1)], None, slices).slices.update
    assert changed["metadata"]["labels"]["team"] == "b"


def test_hints_for_traffic_that_stays_near() -> None:
    (near,) = make_plan(service(trafficDistribution="PreferClose"), [pod(1), pod(2, ready=False)]).slices.create
    assert [one.get("hints") for one in near["endpoints"]] == [{"forZones": [{"name": "a"}]}, None]
    (same,) = make_plan(service(trafficDistribution="PreferSameNode"), [pod(1)]).slices.create
    assert same["endpoints"][0]["hints"] == {"forZones": [{"name": "a"}], "forNodes": [{"name": "n"}]}


def test_nothing_new_is_made_for_a_service_that_goes() -> None:
    going = service()
    going["metadata"] = {**going["metadata"], "deletionTimestamp": "2024-01-01T00:00:00Z"}
    assert make_plan(going, [pod(1)]).slices.create == []


def test_too_many_addresses_are_cut_in_proportion() -> None:
    found = make_plan(service(), [pod(i) for i in range(1200)]).endpoints
    assert found is not None
    assert len(found["subsets"][0]["addresses"]) == MOST_ADDRESSES
    assert found["metadata"]["annotations"] == {"endpoints.kubernetes.io/over-capacity": "truncated"}
    address = {"ip": "10.1.0.1"}
    mixed = [{"addresses": [address] * 900, "notReadyAddresses": [address] * 300}]
    cut = truncate_subsets(mixed)
    assert cut is not None
    assert (len(cut[0]["addresses"]), len(cut[0]["notReadyAddresses"])) == (900, 100)


def test_an_address_that_is_not_ready_once_is_not_ready() -> None:
    address, port = {"ip": "10.1.0.1"}, {"name": "a", "port": 1, "protocol": "TCP"}
    assert repack_subsets([([port], address, True), ([port], address, False)]) == [
        {"notReadyAddresses": [address], "ports": [port]}
    ]


def test_who_selects_pods() -> None:
    assert has_selector(service())
    assert not has_selector(service(selector=None))
    assert not has_selector(service(selector={}))
    assert not has_selector(service(type="ExternalName"))
    assert selects_labels(service(), {"app": "web", "x": "y"})
    assert not selects_labels(service(), {"app": "other"})


def test_what_of_a_pod_matters() -> None:
    base = pod(1)
    touched = {**base, "metadata": {**base["metadata"], "annotations": {"a": "b"}}}
    assert endpoint_facts(base) == endpoint_facts(touched)
    for other in (pod(1, ready=False), pod(1, going=True), pod(1, hostname="h"), pod(2)):
        assert endpoint_facts(base) != endpoint_facts(other)


@given(st.lists(st.lists(st.integers(0, 400), unique=True, max_size=260), min_size=1, max_size=6))
def test_slices_hold_exactly_the_wanted_pods_whatever_happened_before(steps: list[list[int]]) -> None:
    slices: list[Object] = []
    made = 0
    for step in steps:
        todo = make_plan(service(), [pod(i) for i in step], None, slices).slices
        changed = {one["metadata"]["name"]: one for one in todo.update}
        gone = {one["metadata"]["name"] for one in todo.delete}
        slices = [changed.get(one["metadata"]["name"], one) for one in slices if one["metadata"]["name"] not in gone]
        slices += as_stored(todo.create, made)
        made += len(todo.create)
        names = [one["targetRef"]["name"] for found in slices for one in found["endpoints"]]
        assert sorted(names) == sorted(f"p{i}" for i in step)
        assert all(len(found["endpoints"]) <= 100 for found in slices)
        assert slices, "there is always one"
        assert not make_plan(service(), [pod(i) for i in step], None, slices).slices
