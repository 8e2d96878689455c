"""What MachineDeployments offer, and what they do not."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fit.requirements import from_expressions
from shoal.fit.resources import amounts
from shoal.provision.clusterapi.offers import (
    can_be_bought_from,
    cheapest,
    instance_types,
    node_labels,
    price,
    selected,
    taints,
)
from tests.provision.hosted import CAPACITY, MEMBER, Object, node_class, size_objects

TYPE, ZONE, CAPACITY_TYPE = (
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "karpenter.sh/capacity-type",
)


def deployment(size: str = "small", **annotations: str) -> Object:
    found = size_objects("east", size, **annotations)[1]
    found["metadata"]["namespace"] = "default"
    return found


def announce(name: str, **said: str) -> Object:
    found = deployment()
    found["metadata"] |= {"name": name, "annotations": {f"{CAPACITY}/{key}": value for key, value in said.items()}}
    return found


def test_member_label_and_selector_both_count() -> None:
    small, large = deployment("small"), deployment("large")
    stranger = deployment("small")
    del stranger["metadata"]["labels"][MEMBER]
    only_small = node_class(selector={"matchLabels": {"size": "small"}})
    assert selected(small, only_small)
    assert not selected(large, only_small)
    assert not selected(stranger, only_small), "a selector does not let in what does not take part"
    assert selected(large, node_class())
    assert not selected(stranger, node_class())


def test_an_instance_type_is_read_from_annotations() -> None:
    (found,) = instance_types([deployment("medium")], {})
    assert (found.name, found.capacity) == ("medium", amounts({"cpu": "4", "memory": "16Gi", "pods": "110"}))
    (offer,) = found.offerings
    assert (offer.name, offer.price, offer.room) == ("default/east-medium", 0.08, None)
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
    assert len(instance_types([east, larger], {})) == 2, "a name does not make two sizes one"


@pytest.mark.parametrize(
    ("said", "claimed", "room"), [("3", 1, 2), ("3", 5, 0), ("", 1, None), ("many", 0, None), ("0", 0, 0)]
)
def test_the_largest_size_is_honoured(said: str, claimed: int, room: int | None) -> None:
    one = deployment(**({"cluster_api_autoscaler_node_group_max_size": said} if said else {}))
    (found,) = instance_types([one], {"default/east-small": claimed})
    assert found.offerings[0].room == room
    assert found.offerings[0].available == (room != 0)


def test_what_announces_no_size_or_is_paused_or_going_sells_nothing() -> None:
    assert can_be_bought_from(deployment())
    assert not can_be_bought_from(announce("x", cpu="2"))
    assert not can_be_bought_from(deployment(paused="true"))
    going = deployment()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not can_be_bought_from(going)


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
    assert taints(one) == (
        {"key": "team", "value": "blue", "effect": "NoSchedule"},
        {"key": "gpu", "effect": "NoExecute"},
    )


@pytest.mark.parametrize(
    ("said", "wanted"), [("0.5", 0.5), ("0", 0.0), ("-1", None), ("nan", None), ("dear", None), ("", None)]
)
def test_a_price_nobody_names_is_guessed_from_the_size(said: str, wanted: float | None) -> None:
    one = announce("m", cpu="2", memory="8G")
    if said:
        one["metadata"]["annotations"]["cluster.x-k8s.io/machine-current-price"] = said
    assert price(one) == pytest.approx(0.058 if wanted is None else wanted)
    one["metadata"]["annotations"].pop("cluster.x-k8s.io/machine-current-price", None)
    one["spec"]["template"]["metadata"] = {"annotations": {"cluster.x-k8s.io/machine-current-price": "0.7"}}
    assert price(one) == 0.7


def test_the_cheapest_that_suits_and_has_room_is_chosen() -> None:
    full: dict[str, Any] = {"cluster_api_autoscaler_node_group_max_size": "1"}
    types = instance_types(
        [deployment("small", **full), deployment("medium"), deployment("large")], {"default/east-small": 1}
    )

    def chosen(needs: dict[str, str], *expressions: Object) -> str | None:
        found = cheapest(types, from_expressions(expressions), amounts(needs))
        return found[1].name if found is not None else None

    assert chosen({"cpu": "1"}) == "default/east-medium", "the small ones are sold out"
    assert chosen({"cpu": "5"}) == "default/east-large"
    assert chosen({"cpu": "50"}) is None
    assert chosen({}, {"key": TYPE, "operator": "In", "values": ["large"]}) == "default/east-large"
    assert chosen({}, {"key": ZONE, "operator": "NotIn", "values": ["embedded-a"]}) is None
