"""Offerings of MachineDeployments."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fit.requirements import from_expressions
from shoal.fit.resources import parse_amounts
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.clusterapi import offerings
from shoal.provision.clusterapi.nodegroups import (
    group_of_deployment,
    group_of_entry,
    is_buyable,
    is_selected,
    is_template_offering,
    is_usable_template,
    machine_templates,
    node_labels,
    template_offering_name,
)
from shoal.provision.clusterapi.offerings import cheapest
from shoal.provision.clusterapi.price_list import PriceList, parse_price_list
from shoal.provision.clusterapi.scale_from_zero import RESERVED_RESOURCES
from tests.provision.hosted import CAPACITY, MEMBER, Object, node_class, size_objects

TYPE, ZONE, CAPACITY_TYPE = (
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "karpenter.sh/capacity-type",
)


PRICE = "cluster.x-k8s.io/machine-current-price"
MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"


def deployment(size: str = "small", **annotations: str) -> Object:
    found = size_objects("east", size, **annotations)[1]
    found["metadata"]["namespace"] = "default"
    return found


def announce(name: str, **said: str) -> Object:
    found = deployment()
    found["metadata"] |= {"name": name, "annotations": {f"{CAPACITY}/{key}": value for key, value in said.items()}}
    return found


def instance_types(deployments: list[Object], claimed: dict[str, int]) -> list[InstanceType]:
    return offerings.instance_types([group_of_deployment(each, None, PriceList()) for each in deployments], claimed)


def test_member_label_and_selector_both_count() -> None:
    small, large = deployment("small"), deployment("large")
    stranger = deployment("small")
    del stranger["metadata"]["labels"][MEMBER]
    only_small = node_class(selector={"matchLabels": {"size": "small"}})
    assert is_selected(small, only_small)
    assert not is_selected(large, only_small)
    assert not is_selected(stranger, only_small), "a selector does not let in what does not take part"
    assert is_selected(large, node_class())
    assert not is_selected(stranger, node_class())


def test_an_instance_type_is_read_from_annotations() -> None:
    (found,) = instance_types([deployment("medium")], {})
    assert (found.name, found.capacity) == ("medium", parse_amounts({"cpu": "4", "memory": "16Gi", "pods": "110"}))
    (offer,) = found.offerings
    assert (offer.name, offer.price, offer.remaining) == ("default/east-medium", 0.08, None)
    assert offer.labels == {TYPE: "medium", ZONE: "embedded-a", CAPACITY_TYPE: "on-demand"}
    assert offer.taints == (), "the taint of an unregistered node is nobody's obstacle"


def test_equal_types_in_two_zones_are_one_with_two_offerings() -> None:
    east, west = deployment(), deployment()
    west["metadata"]["name"] = "east-small-b"
    west["metadata"]["annotations"] |= {
        f"{CAPACITY}/labels": f"{TYPE}=small,{ZONE}=embedded-b",
        "cluster.x-k8s.io/machine-current-price": "0.03",
    }
    (found,) = instance_types([east, west], {})
    assert [offer.name for offer in found.offerings] == ["default/east-small-b", "default/east-small"]
    larger = deployment()
    larger["metadata"]["name"] = "other"
    larger["metadata"]["annotations"][f"{CAPACITY}/cpu"] = "8"
    larger["metadata"]["annotations"][f"{CAPACITY}/ephemeral-disk"] = "10Gi"
    (careful,) = instance_types([east, larger], {})
    assert careful.capacity == found.capacity, "what one of them has not cannot be counted on"
    tainted = deployment()
    tainted["metadata"]["name"] = "tainted"
    tainted["metadata"]["annotations"][f"{CAPACITY}/taints"] = "team=blue:NoSchedule"
    (both,) = instance_types([east, tainted], {})
    assert [len(offer.taints) for offer in both.offerings] == [0, 1], "taints are the offering's"
    tainted["metadata"]["annotations"][PRICE] = "0"
    types = instance_types([east, tainted], {})
    plain = cheapest(types, from_expressions(()), {})
    assert plain is not None
    assert plain[1].name == "default/east-small", "what was planned without the taint may not bear it"
    taint = {"key": "team", "value": "blue", "effect": "NoSchedule"}
    expected = cheapest(types, from_expressions(()), {}, [taint])
    assert expected is not None
    assert expected[1].name == "default/tainted"


@pytest.mark.parametrize(
    ("said", "claimed", "room"), [("3", 1, 2), ("3", 5, 0), ("", 1, None), ("many", 0, None), ("0", 0, 0)]
)
def test_the_largest_size_is_honoured(said: str, claimed: int, room: int | None) -> None:
    one = deployment(**({"cluster_api_autoscaler_node_group_max_size": said} if said else {}))
    (found,) = instance_types([one], {"default/east-small": claimed})
    assert found.offerings[0].remaining == room
    assert found.offerings[0].available == (room != 0)


def test_what_announces_no_size_or_is_paused_or_going_sells_nothing() -> None:
    assert is_buyable(deployment())
    assert group_of_deployment(announce("x", cpu="2"), None, PriceList()).capacity == {}
    assert not is_buyable(deployment(paused="true"))
    going = deployment()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not is_buyable(going)


def test_labels_come_from_the_template_and_the_announcement_wins() -> None:
    one = announce("m", cpu="2", memory="8Gi", labels="node.cluster.x-k8s.io/pool=b,disk=fast")
    one["spec"]["template"]["metadata"] = {
        "labels": {"node.cluster.x-k8s.io/pool": "a", "node-role.kubernetes.io/web": "", "team": "x", MEMBER: ""}
    }
    assert node_labels(one) == {
        "node.cluster.x-k8s.io/pool": "b",
        "node-role.kubernetes.io/web": "",
        "disk": "fast",
        TYPE: "m",
        CAPACITY_TYPE: "on-demand",
    }
    one["spec"]["template"]["metadata"]["labels"]["cluster.x-k8s.io/interruptible"] = ""
    assert node_labels(one)[CAPACITY_TYPE] == "spot"


def test_taints_are_read() -> None:
    one = announce("m", taints="team=blue:NoSchedule,gpu:NoExecute,karpenter.sh/unregistered=:NoExecute,nonsense")
    assert group_of_deployment(one, None, PriceList()).taints == (
        {"key": "team", "value": "blue", "effect": "NoSchedule"},
        {"key": "gpu", "effect": "NoExecute"},
    )


def cost(one: Object, template: Object | None = None, prices: PriceList | None = None) -> float:
    return group_of_deployment(one, template, prices or PriceList()).price


@pytest.mark.parametrize(
    ("said", "wanted"), [("0.5", 0.5), ("0", 0.0), ("-1", None), ("nan", None), ("dear", None), ("", None)]
)
def test_a_price_nobody_names_is_guessed_from_the_size(said: str, wanted: float | None) -> None:
    one = announce("m", cpu="2", memory="8G")
    if said:
        one["metadata"]["annotations"][PRICE] = said
    assert cost(one) == pytest.approx(0.058 if wanted is None else wanted)


def test_prices_are_looked_for_in_order() -> None:
    """The MachineDeployment, its template, the infrastructure template, the price list, then a guess."""
    one = announce("m", cpu="2", memory="8G")
    one["metadata"]["annotations"][PRICE] = "0.1"
    one["spec"]["template"]["metadata"] = {"annotations": {PRICE: "0.2"}}
    template = {"metadata": {"annotations": {PRICE: "0.3"}}}
    listed = parse_price_list({"data": {"prices.yaml": "- {instanceType: m, price: 0.4}"}})
    assert cost(one, template, listed) == 0.1
    del one["metadata"]["annotations"][PRICE]
    assert cost(one, template, listed) == 0.2
    del one["spec"]["template"]["metadata"]
    assert cost(one, template, listed) == 0.3
    assert cost(one, {"metadata": {}}, listed) == 0.4
    assert cost(one) == pytest.approx(0.058)


def test_the_line_of_the_price_list_that_says_most_wins() -> None:
    text = """
- {instanceType: m, price: 4}
- {instanceType: m, capacityType: spot, price: "3"}
- {instanceType: m, zone: a, price: 2}
- {instanceType: m, zone: a, capacityType: spot, price: 1}
"""
    found = parse_price_list({"data": {"prices.yaml": text}})
    assert found.errors == ()

    def of(zone: str, capacity: str, kind: str = "m") -> float | None:
        return found.price_of({TYPE: kind, ZONE: zone, CAPACITY_TYPE: capacity})

    assert [of("a", "spot"), of("a", "on-demand"), of("b", "spot"), of("b", "on-demand")] == [1, 2, 3, 4]
    assert of("a", "spot", "other") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{a: 1}", "prices.yaml must be a list"),
        ("- {instanceType: m}", "entry 1 of prices.yaml needs an instanceType and a price"),
        ("- {price: 1}", "entry 1 of prices.yaml needs an instanceType and a price"),
        ("- {instanceType: m, price: -1}", "entry 1 of prices.yaml needs an instanceType and a price"),
        ("- m", "entry 1 of prices.yaml needs an instanceType and a price"),
        (
            "- {instanceType: m, price: 1}\n- {instanceType: m, price: 2}",
            "entry 2 of prices.yaml contradicts an earlier entry",
        ),
        ("- {", "prices.yaml is not valid YAML"),
    ],
)
def test_what_cannot_be_read_of_a_price_list_is_said_and_passed_over(text: str, problem: str) -> None:
    good = "- {instanceType: other, price: 7}\n"
    found = parse_price_list({"data": {"prices.yaml": text}})
    assert len(found.errors) == 1
    assert found.errors[0].startswith(problem)
    if text.startswith("- {instanceType: m"):
        assert parse_price_list({"data": {"prices.yaml": f"{text}\n{good}"}}).price_of({TYPE: "other"}) == 7
    assert parse_price_list(None) == PriceList()


def test_what_the_infrastructure_template_reports_counts_where_nothing_is_announced() -> None:
    info = {"architecture": "arm64", "operatingSystem": "linux"}
    template = {"metadata": {}, "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "30"}, "nodeInfo": info}}
    silent = group_of_deployment(announce("m"), template, PriceList())
    assert silent.capacity == parse_amounts({"cpu": "4", "memory": "8Gi", "pods": "30"})
    assert (silent.labels["kubernetes.io/arch"], silent.labels["kubernetes.io/os"]) == ("arm64", "linux")
    said = group_of_deployment(
        announce("m", cpu="2", maxPods="20", labels="kubernetes.io/arch=amd64"), template, PriceList()
    )
    assert said.capacity == parse_amounts({"cpu": "2", "memory": "8Gi", "pods": "20"})
    assert said.labels["kubernetes.io/arch"] == "amd64"


def test_graphics_cards_and_disks_are_capacity() -> None:
    said = {"cpu": "2", "memory": "8Gi", "gpu-type": "nvidia.com/gpu", "gpu-count": "2", "ephemeral-disk": "100Gi"}
    one = group_of_deployment(announce("m", **said), None, PriceList())
    wanted = {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": "2", "ephemeral-storage": "100Gi", "pods": "110"}
    assert one.capacity == parse_amounts(wanted)


def test_the_failure_domain_is_the_zone_unless_one_is_announced() -> None:
    one = announce("m", cpu="2", memory="8G")
    one["spec"]["template"]["spec"]["failureDomain"] = "f"
    assert node_labels(one)[ZONE] == "f"
    one["metadata"]["annotations"][f"{CAPACITY}/labels"] = f"{ZONE}=z"
    assert node_labels(one)[ZONE] == "z"


def test_spot_and_demand_in_two_zones_are_one_type() -> None:
    """With the requirements that follow: every zone, both capacity types."""
    found = []
    for number, (zone, spot) in enumerate([("a", False), ("a", True), ("b", False)]):
        one = announce(f"m{number}", cpu="2", memory="8G", labels=f"{TYPE}=m,{ZONE}={zone}")
        one["spec"]["template"]["metadata"] = {"labels": {"cluster.x-k8s.io/interruptible": ""} if spot else {}}
        found.append(one)
    (kind,) = instance_types(found, {})
    sold = {(offer.labels[ZONE], offer.labels[CAPACITY_TYPE]) for offer in kind.offerings}
    assert sold == {("a", "on-demand"), ("a", "spot"), ("b", "on-demand")}
    assert kind.requirements[ZONE].values == {"a", "b"}
    assert kind.requirements[CAPACITY_TYPE].values == {"on-demand", "spot"}


def test_what_is_paid_for_already_is_a_reservation_of_its_largest_size() -> None:
    one = announce("m", cpu="2", memory="8G", labels=f"{TYPE}=m,{CAPACITY_TYPE}=reserved")
    one["metadata"]["annotations"][MAX_SIZE] = "3"
    (kind,) = instance_types([one], {"default/m": 1})
    (offer,) = kind.offerings
    assert (offer.reservation, offer.reservation_capacity, offer.remaining) == ("default.m", 2, 2)
    assert offer.labels["shoal.dev/reservation-id"] == "default.m"
    one["metadata"]["annotations"][f"{CAPACITY}/labels"] += ",karpenter.sh/reservation-id=cr-1"
    (sold_out,) = instance_types([one], {"default/m": 3})[0].offerings
    assert (sold_out.reservation, sold_out.available) == ("cr-1", False)


def test_what_the_system_reserves_is_not_allocatable() -> None:
    one = announce("m", cpu="4", memory="16Gi")
    one["metadata"]["annotations"][RESERVED_RESOURCES] = "cpu=200m, memory=1Gi,example.com/gpu=1,"
    (kind,) = instance_types([one], {})
    assert kind.capacity == parse_amounts({"cpu": "4", "memory": "16Gi", "pods": "110"})
    assert kind.allocatable == parse_amounts({"cpu": "3800m", "memory": "15Gi", "pods": "110"})
    other = announce("n", cpu="4", memory="16Gi", labels=f"{TYPE}=m")
    one["metadata"]["annotations"][f"{CAPACITY}/labels"] = f"{TYPE}=m"
    (kind,) = instance_types([one, other], {})
    assert kind.allocatable["cpu"] == 3800, "no plan exceeds what any of its offerings has"
    template = {"metadata": {"annotations": {RESERVED_RESOURCES: "cpu=5"}}}
    assert group_of_deployment(announce("p", cpu="4", memory="1Gi"), template, PriceList()).allocatable["cpu"] == 0


def test_a_machine_template_of_a_node_class_is_an_offering() -> None:
    entry: Object = {
        "name": "fast",
        "capacity": {"cpu": "8"},
        "labels": {"disk": "nvme"},
        "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
        "failureDomain": "z",
        "capacityType": "spot",
        "limit": 3,
    }
    one = node_class("mine")
    one["spec"]["machineTemplates"] = [entry]
    annotations = {f"{CAPACITY}/cpu": "4", f"{CAPACITY}/memory": "8Gi", PRICE: "0.5", MAX_SIZE: "2"}
    template: Object = {"metadata": {"name": "t", "labels": {MEMBER: ""}, "annotations": annotations}}
    found = group_of_entry(one, entry, template, PriceList())
    assert (found.name, found.price, found.max_machines) == ("ClusterAPINodeClass/mine/fast", 0.5, 2)
    assert is_template_offering(found.name)
    assert not is_template_offering("default/east-small")
    assert machine_templates(one) == [entry]
    assert template_offering_name(one, entry) == found.name
    assert found.labels == {TYPE: "fast", "disk": "nvme", ZONE: "z", CAPACITY_TYPE: "spot"}
    assert found.capacity == parse_amounts({"cpu": "8", "memory": "8Gi", "pods": "110"})
    assert found.taints == ({"key": "team", "value": "a", "effect": "NoSchedule"},)
    assert group_of_entry(one, {**entry, "price": "0.2"}, template, PriceList()).price == 0.2


def test_templates_take_part_by_their_label_for_one_cluster_or_all() -> None:
    template: Object = {"metadata": {"name": "t", "labels": {MEMBER: ""}}}
    assert is_usable_template(template, "east")
    template["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] = "west"
    assert not is_usable_template(template, "east"), "it is another cluster's"
    assert not is_usable_template({"metadata": {"name": "t"}}, "east"), "a node class does not open what is not offered"
    assert not is_usable_template(None, "east")


def test_a_class_with_templates_buys_from_deployments_only_by_selector() -> None:
    one = node_class("mine")
    one["spec"]["machineTemplates"] = [{"name": "fast"}]
    assert not is_selected(deployment(), one)
    one["spec"]["scalableResourceSelector"] = {"matchLabels": {"size": "small"}}
    assert is_selected(deployment(), one)


def test_the_cheapest_that_suits_and_has_room_is_chosen() -> None:
    full: dict[str, Any] = {"cluster_api_autoscaler_node_group_max_size": "1"}
    types = instance_types(
        [deployment("small", **full), deployment("medium"), deployment("large")], {"default/east-small": 1}
    )

    def chosen(needs: dict[str, str], *expressions: Object) -> str | None:
        found = cheapest(types, from_expressions(expressions), parse_amounts(needs))
        return found[1].name if found is not None else None

    assert chosen({"cpu": "1"}) == "default/east-medium", "the small ones are sold out"
    assert chosen({"cpu": "5"}) == "default/east-large"
    assert chosen({"cpu": "50"}) is None
    assert chosen({}, {"key": TYPE, "operator": "In", "values": ["large"]}) == "default/east-large"
    assert chosen({}, {"key": ZONE, "operator": "NotIn", "values": ["embedded-a"]}) is None
