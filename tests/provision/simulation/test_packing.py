"""Packing of pods into new nodes: tables of results, and properties of every packing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fit.resources import add_to, fits, pod_requests
from shoal.provision.cloudprovider.types import InstanceType
from tests.provision.catalogue import LARGE, MEDIUM, SMALL, Object, bought, cheapest, kind, plan, pod, pods, pool, price


@pytest.mark.parametrize(
    ("count", "cpu", "memory", "wanted"),
    [
        (1, "500m", "256Mi", ["small"]),
        (4, "500m", "256Mi", ["small"]),
        (5, "500m", "256Mi", ["medium"]),
        (16, "500m", "256Mi", ["medium", "medium"]),
        (17, "500m", "256Mi", ["medium", "medium", "small"]),
        (32, "500m", "256Mi", ["large"]),
        (60, "500m", "256Mi", ["large", "medium", "medium", "medium", "small"]),
        (2, "3", "1Gi", ["medium", "medium"]),
        (3, "500m", "7Gi", ["medium", "small"]),
        (1, "10", "1Gi", ["large"]),
    ],
)
def test_the_cheapest_set_is_bought(count: int, cpu: str, memory: str, wanted: list[str]) -> None:
    found = cheapest(pods(count, cpu, memory), pool())
    paid = {"small": 0.04, "medium": 0.08, "large": 0.30}
    assert price(found) == round(sum(paid[each] for each in wanted), 9), bought(found)
    assert not found.failures


def test_a_dear_large_node_does_not_take_what_two_small_ones_take_for_less() -> None:
    types = (SMALL, kind("huge", 64, "256Gi", 5.0))
    assert bought(cheapest(pods(8), pool(types=types))) == ["small", "small"]


def test_large_pods_and_small_ones_share_what_is_left() -> None:
    mixed = [*pods(2, "3", "1Gi"), *pods(4, "500m")]
    found = cheapest(mixed, pool())
    assert bought(found) == ["medium", "medium"], "the gaps of the two are filled"
    assert price(found) == 0.16


def test_equal_prices_are_decided_by_fewer_nodes_then_by_name() -> None:
    twins = (kind("b", 2, "8Gi", 0.04), kind("a", 2, "8Gi", 0.04))
    assert bought(cheapest(pods(1), pool(types=twins))) == ["a"]
    assert bought(cheapest(pods(8), pool(types=(SMALL, MEDIUM)))) == ["medium"]


def test_the_number_of_pods_a_node_takes_counts() -> None:
    few = (kind("few", 16, "64Gi", 0.10, pods=5),)
    assert bought(cheapest(pods(25, "1m", "1Mi"), pool(types=few))) == ["few"] * 5


def test_what_can_no_longer_be_had_is_not_bought() -> None:
    types = (kind("small", 2, "8Gi", 0.04, room=1), kind("medium", 4, "16Gi", 0.08, room=1), LARGE)
    assert bought(cheapest(pods(6, "1500m"), pool(types=types))) == ["large"]
    none = (kind("small", 2, "8Gi", 0.04, room=0),)
    found = cheapest(pods(1), pool(types=none))
    assert not found.new_node_claims
    assert "sold out, or at the maximum number of machines: small" in found.failures[0][1]


def test_host_ports_and_pods_that_stay_apart_get_nodes_of_their_own() -> None:
    port = [{"name": "x", "image": "x:1", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    found = cheapest([pod() | {"spec": {"containers": port}} for _ in range(3)], pool())
    assert bought(found) == ["small"] * 3
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    lonely = [pod(labels={"app": "x"}, affinity=apart) for _ in range(3)]
    assert bought(cheapest(lonely, pool())) == ["small"] * 3


requests = st.sampled_from([("100m", "100Mi"), ("250m", "2Gi"), ("1", "512Mi"), ("1900m", "1Gi"), ("3", "12Gi")])
prices = st.floats(min_value=0.01, max_value=5, allow_nan=False)


@st.composite
def catalogues(draw: st.DrawFn) -> tuple[InstanceType, ...]:
    shapes = draw(st.lists(st.sampled_from([1, 2, 4, 8, 16, 32]), min_size=1, max_size=4, unique=True))
    ratios, rooms = st.sampled_from([2, 4, 8]), st.none() | st.integers(0, 6)
    return tuple(kind(f"t{cpu}", cpu, f"{cpu * draw(ratios)}Gi", draw(prices), room=draw(rooms)) for cpu in shapes)


@given(st.lists(requests, min_size=1, max_size=40), catalogues(), st.none() | st.integers(1, 40))
def test_every_packing(asked: list[tuple[str, str]], types: tuple[InstanceType, ...], limit: int | None) -> None:
    limits: Object = {"limits": {"cpu": str(limit)}} if limit is not None else {}
    given_pods = [pod(cpu, memory) for cpu, memory in asked]
    mine = pool(types=types, **limits)
    found = plan(given_pods, [], [mine])
    by_name = {each.name: each for each in mine.types}

    placed = [each["metadata"]["uid"] for claim in found.new_node_claims for each in claim.pods]
    failed = [each["metadata"]["uid"] for each, _ in found.failures]
    assert sorted([*placed, *failed]) == sorted(each["metadata"]["uid"] for each in given_pods), "each pod once"

    for claim in found.new_node_claims:
        for name in claim.types:
            assert fits(claim.requests, by_name[name].allocatable), "whatever comes is large enough"
        assert _asked(list(claim.pods)) == claim.requests

    for name, each in by_name.items():
        room = each.offerings[0].remaining
        assert room is None or sum(claim.types[0] == name for claim in found.new_node_claims) <= room
    if limit is not None:
        largest = sum(max(by_name[name].capacity["cpu"] for name in claim.types) for claim in found.new_node_claims)
        assert largest <= limit * 1000, "never above the limit, whichever type comes"
    if limit is None and all(each.offerings[0].remaining is None for each in mine.types):
        alone = [any(fits(pod_requests(each), one.allocatable) for one in mine.types) for each in given_pods]
        assert len(failed) == alone.count(False), "only what fits no type stays"


def _asked(some: list[Object]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in some:
        add_to(total, pod_requests(each))
    return total


def test_many_equal_pods_are_packed_at_once() -> None:
    found = plan(pods(4_000), [], [pool()])
    assert bought(found) == ["large"] * 125
    assert len({claim.name for claim in found.new_node_claims}) == 125
