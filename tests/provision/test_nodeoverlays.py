"""Effect of NodeOverlays on instance types, as in the suite of Karpenter v1.14."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.karpenter.karpenter import VALIDATION_SUCCEEDED
from shoal.provision.cloudprovider.nodeoverlays import (
    adjust_price,
    apply_overlays,
    apply_overlays_to_instance,
    overlay_errors,
    validate_overlays,
)
from shoal.provision.cloudprovider.types import Instance, InstanceType, Offering
from shoal.provision.nodepools.decide import overlay_with_conditions
from tests.provision.hosted import node_pool
from tests.provision.test_validation import CAPACITY, TYPE, ZONE, wants

Object = dict[str, Any]

FUSE = "smarter-devices/fuse"
POOL = node_pool()


def kind(name: str, price: float = 1.02) -> InstanceType:
    offerings = tuple(
        Offering(f"{name}-{zone}-{how}", {TYPE: name, ZONE: zone, CAPACITY: how}, price)
        for zone in ("a", "b")
        for how in ("spot", "on-demand")
    )
    has = {"cpu": 4000, "memory": 4 << 30, "pods": 5}
    return InstanceType(name, has, {**has, "cpu": 3900}, offerings)


TYPES = [kind("default"), kind("small"), kind("gpu"), kind("arm")]


def overlay(name: str, *requirements: Object, **spec: Any) -> Object:
    metadata = {"name": name, "generation": 1}
    return {"metadata": metadata, "spec": {"requirements": list(requirements), **spec}}


def reasons(*overlays: Object, offers: Any = ((POOL, TYPES),)) -> dict[str, str]:
    return {name: said[0] if said else "" for name, said in validate_overlays(overlays, offers).items()}


def told(*overlays: Object, offers: Any = ((POOL, TYPES),)) -> list[Object]:
    """With the conditions their loop gives them."""
    said = validate_overlays(overlays, offers)
    return [overlay_with_conditions(each, said[each["metadata"]["name"]], "now") for each in overlays]


def prices(types: list[InstanceType]) -> dict[str, float]:
    """Where they differ from what the provider says."""
    return {each.name: each.price for found in types for each in found.offerings if each.price != 1.02}


def of(*names: str) -> Object:
    return wants(TYPE, "In", *names)


@pytest.mark.parametrize(
    ("change", "price"),
    [("", 2.0), ("0.5", 0.5), ("+0.5", 2.5), ("-0.5", 1.5), ("-5", 0.0), ("+10%", 2.2), ("-25%", 1.5), ("-100%", 0.0)],
)
def test_a_price_and_what_changes_it(change: str, price: float) -> None:
    assert adjust_price(2.0, change) == pytest.approx(price)


def test_without_overlays_nothing_changes() -> None:
    assert apply_overlays(TYPES, [], POOL) == TYPES
    assert all(one is other for one, other in zip(apply_overlays(TYPES, [], POOL), TYPES, strict=True))


def test_nobody_follows_an_overlay_that_was_not_judged_as_it_is() -> None:
    new = overlay("new", of("small"), price="9")
    (seen,) = told(new)
    assert prices(apply_overlays(TYPES, [new], POOL)) == {}
    assert set(prices(apply_overlays(TYPES, [seen], POOL)).values()) == {9.0}
    changed = {**seen, "metadata": {"name": "new", "generation": 2}}
    assert prices(apply_overlays(TYPES, [changed], POOL)) == {}
    going = {**seen, "metadata": {**seen["metadata"], "deletionTimestamp": "now"}}
    assert prices(apply_overlays(TYPES, [going], POOL)) == {}


def test_offerings_are_chosen_one_by_one_and_resources_reach_the_whole_type() -> None:
    chosen = wants(ZONE, "In", "a"), wants(CAPACITY, "In", "spot"), of("small", "gpu")
    found = apply_overlays(TYPES, told(overlay("x", *chosen, priceAdjustment="-50%", capacity={FUSE: 2})), POOL)
    assert prices(found) == {"small-a-spot": pytest.approx(0.51), "gpu-a-spot": pytest.approx(0.51)}
    assert [(each.name, each.capacity.get(FUSE), each.allocatable.get(FUSE)) for each in found] == [
        ("default", None, None),
        ("small", 2, 2),
        ("gpu", 2, 2),
        ("arm", None, None),
    ]
    assert found[1].allocatable["cpu"] == 3900
    assert FUSE not in TYPES[1].capacity


def test_labels_that_only_the_pool_has_can_be_asked_for() -> None:
    mine, other = node_pool("mine", labels={"team": "red"}), node_pool("other")
    offers = ((mine, TYPES), (other, TYPES))
    by_label = told(overlay("x", wants("team", "In", "red"), price="3"), offers=offers)
    by_name = told(overlay("x", wants("karpenter.sh/nodepool", "In", "mine"), price="3"), offers=offers)
    for overlays in (by_label, by_name):
        assert set(prices(apply_overlays(TYPES, overlays, mine)).values()) == {3.0}
        assert prices(apply_overlays(TYPES, overlays, other)) == {}
    nowhere = told(overlay("x", wants("unheard-of", "Exists"), price="3"), offers=offers)
    assert prices(apply_overlays(TYPES, nowhere, mine)) == {}
    everywhere = told(overlay("x", wants("unheard-of", "DoesNotExist"), price="3"), offers=offers)
    assert len(prices(apply_overlays(TYPES, everywhere, mine))) == 16


def test_a_label_that_only_some_offerings_have() -> None:
    has = {"cpu": 1000}
    some = InstanceType(
        "x", has, has, (Offering("1", {TYPE: "x", "rack": "r"}, 1.02), Offering("2", {TYPE: "x"}, 1.02))
    )
    overlays = told(overlay("o", wants("rack", "In", "r"), price="3"), offers=((POOL, [some]),))
    assert prices(apply_overlays([some], overlays, POOL)) == {"1": 3.0}


@pytest.mark.parametrize("change", [{"price": "1.03"}, {"priceAdjustment": "+54"}, {"capacity": {FUSE: "54"}}])
def test_of_two_that_say_the_same_thing_with_equal_weight_the_later_name_holds(change: Object) -> None:
    one = overlay("overlay-a", of("default", "small"), weight=10, **change)
    same = overlay("overlay-b", of("default", "gpu"), weight=10, **change)
    assert reasons(one, same) == {"overlay-a": "Conflict", "overlay-b": ""}
    assert validate_overlays([one, same], [(POOL, TYPES)])["overlay-a"] == ("Conflict", "conflict with another overlay")
    apart = overlay("overlay-b", of("gpu"), weight=10, **change)
    assert reasons(one, apart) == {"overlay-a": "", "overlay-b": ""}
    lighter = overlay("overlay-b", of("default", "gpu"), **change)
    assert reasons(one, lighter) == {"overlay-a": "", "overlay-b": ""}


def test_different_words_do_not_conflict() -> None:
    a = overlay("a", of("default"), weight=10, price="3")
    b = overlay("b", of("default"), weight=10, capacity={FUSE: 1})
    c = overlay("c", of("default"), weight=10, capacity={"hugepages-1Gi": "2Gi"})
    d = overlay("d", of("default"), wants(ZONE, "In", "b"), weight=10, capacity={"hugepages-1Gi": "3Gi"})
    assert reasons(a, b, c, d) == {"a": "", "b": "", "c": "Conflict", "d": ""}
    (found, *_) = apply_overlays(TYPES, told(a, b, c, d), POOL)
    assert {each.price for each in found.offerings} == {3.0}
    assert (found.capacity[FUSE], found.capacity["hugepages-1Gi"]) == (1, 3 << 30)


def test_zones_that_do_not_meet_do_not_conflict() -> None:
    a = overlay("a", of("default"), wants(ZONE, "In", "a"), price="3")
    b = overlay("b", of("default"), wants(ZONE, "NotIn", "a"), priceAdjustment="+1")
    assert reasons(a, b) == {"a": "", "b": ""}
    found = prices(apply_overlays(TYPES, told(a, b), POOL))
    assert [found["default-a-spot"], found["default-b-spot"]] == pytest.approx([3.0, 2.02])


def test_the_heaviest_word_counts_for_each_thing_alone() -> None:
    heavy = overlay("a", of("default"), weight=100, price="3", capacity={FUSE: 1})
    light = overlay("b", of("default", "small"), weight=1, price="4", capacity={FUSE: 7, "other/thing": 2})
    default, small, *_ = apply_overlays(TYPES, told(light, heavy), POOL)
    assert ({each.price for each in default.offerings}, {each.price for each in small.offerings}) == ({3.0}, {4.0})
    assert (default.capacity[FUSE], default.capacity["other/thing"], small.capacity[FUSE]) == (1, 2, 7)


def test_one_that_conflicts_somewhere_holds_nowhere() -> None:
    other = node_pool("other")
    a = overlay("a", of("default", "small", "arm"), weight=10, capacity={FUSE: 54})
    b = overlay("b", of("small", "gpu"), wants("karpenter.sh/nodepool", "In", "other"), weight=10, capacity={FUSE: 21})
    overlays = told(a, b, offers=((POOL, TYPES), (other, TYPES)))
    assert [each.capacity.get(FUSE) for each in apply_overlays(TYPES, overlays, POOL)] == [None] * 4
    assert [each.capacity.get(FUSE) for each in apply_overlays(TYPES, overlays, other)] == [None, 21, 21, None]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (
            overlay("x", wants("Test")),
            "invalid value: key Test with operator In must have a value defined in requirements",
        ),
        (overlay("x", wants("Test", "NotIn")), "key Test with operator NotIn must have a value defined"),
        (overlay("x", wants("karpenter.sh/test", "Exists")), 'label domain "karpenter.sh" is restricted'),
        (overlay("x", wants(ZONE, "Gt", "-1")), "must have a single positive integer value"),
        (overlay("x", capacity={"cpu": "1"}), "invalid capacity: cpu in resource, restricted"),
        (overlay("x", price="0.432", priceAdjustment="+10%"), "cannot set both 'price' and 'priceAdjustment'"),
    ],
)
def test_overlays_that_are_wrong_by_themselves(bad: Object, said: str) -> None:
    assert said in "; ".join(overlay_errors(bad))
    assert reasons(bad) == {"x": "RuntimeValidation"}
    (shown,) = told(bad)
    assert {each["type"]: (each["status"], each["reason"]) for each in shown["status"]["conditions"]} == {
        VALIDATION_SUCCEEDED: ("False", "RuntimeValidation"),
        "Ready": ("False", "UnhealthyDependents"),
    }
    assert apply_overlays(TYPES, [shown], POOL) == TYPES


def test_a_machine_has_what_its_type_was_given() -> None:
    machine = Instance("id", {TYPE: "small", ZONE: "a"}, {"cpu": 4000}, {"cpu": 3900})
    overlays = told(overlay("x", of("small"), capacity={FUSE: 2}))
    found = apply_overlays_to_instance(machine, overlays, POOL)
    assert (found.capacity, found.allocatable) == ({"cpu": 4000, FUSE: 2}, {"cpu": 3900, FUSE: 2})
    assert apply_overlays_to_instance(machine, [], POOL) is machine
