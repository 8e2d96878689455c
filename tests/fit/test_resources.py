"""Tests of pod requests and node resources as integers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fit.resources import (
    add,
    allocatable,
    capacity,
    fits,
    insufficient_resources,
    max_resources,
    parse_amounts,
    pod_requests,
    subtract,
    to_quantities,
    total,
)

MI = 1024 * 1024

resources = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "example.com/gpu"]), st.integers(0, 50))


def container(restart: str = "", **requests: str) -> dict[str, Any]:
    return {"resources": {"requests": requests}, **({"restartPolicy": restart} if restart else {})}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {}),
        ({"containers": [container(cpu="250m"), container(cpu="1", memory="1Mi")]}, {"cpu": 1250, "memory": MI}),
        ({"containers": [container(cpu="1")], "initContainers": [container(cpu="2")]}, {"cpu": 2000}),
        ({"containers": [container(cpu="1")], "initContainers": [container("Always", cpu="2")]}, {"cpu": 3000}),
        (
            {
                "containers": [container(cpu="1")],
                "initContainers": [container("Always", cpu="2"), container(cpu="5")],
            },
            {"cpu": 7000},
        ),
        (
            {"containers": [container(cpu="1")], "overhead": {"cpu": "100m", "memory": "1Mi"}},
            {"cpu": 1100, "memory": MI},
        ),
        ({"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "3"}}}, {"cpu": 3000}),
        ({"containers": [container(**{"example.com/gpu": "2", "cpu": "0"})]}, {"example.com/gpu": 2}),
        ({"containers": [container(cpu="100u", memory="100m")]}, {"cpu": 1, "memory": 1}),
    ],
)
def test_a_pod_takes_its_effective_requests_and_one_place(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert pod_requests({"spec": spec}) == {**expected, "pods": 1}


def test_a_node_offers_its_allocatable_rounded_down() -> None:
    status = {"allocatable": {"cpu": "1500500u", "memory": "1Mi", "pods": 110}, "capacity": {"cpu": "2"}}
    assert allocatable({"status": status}) == {"cpu": 1500, "memory": MI, "pods": 110}
    assert capacity({"status": status}) == {"cpu": 2000}
    assert allocatable({"status": {"capacity": {"cpu": "2"}}}) == {"cpu": 2000}
    assert allocatable({}) == {}
    assert parse_amounts({"cpu": "nonsense", "pods": "3"}) == {"pods": 3}


def test_amounts_are_written_in_their_usual_form() -> None:
    given = {"cpu": 1500, "memory": 3 * 1024 * MI, "ephemeral-storage": 5 * MI, "pods": 110, "hugepages-2Mi": 2 * MI}
    assert to_quantities(given) == {
        "cpu": "1500m",
        "memory": "3Gi",
        "ephemeral-storage": "5Mi",
        "pods": "110",
        "hugepages-2Mi": "2Mi",
    }
    assert parse_amounts(to_quantities(given)) == given


def test_what_is_lacking_is_named_places_first() -> None:
    free = {"cpu": 500, "pods": 0, "memory": 10}
    assert insufficient_resources({"cpu": 600, "memory": 10, "example.com/gpu": 1, "pods": 1}, free) == [
        "pods",
        "cpu",
        "example.com/gpu",
    ]
    assert insufficient_resources({"cpu": 0, "memory": 10}, {"cpu": -5, "memory": 10}) == []


@given(resources, resources)
def test_fitting_and_lacking_agree(wanted: dict[str, int], free: dict[str, int]) -> None:
    assert fits(wanted, free) == (not insufficient_resources(wanted, free))
    assert fits(wanted, add(free, wanted))
    if fits(wanted, free):
        assert all(amount >= 0 for amount in subtract(free, wanted).values())


@given(st.lists(resources, max_size=4))
def test_sums_and_maxima_bound_each_part(many: list[dict[str, int]]) -> None:
    most, all_of = max_resources(many), total(many)
    for each in many:
        assert fits(each, most)
        assert fits(each, all_of)
    for name, amount in most.items():
        assert any(each.get(name) == amount for each in many)
    assert all_of == {name: sum(each.get(name, 0) for each in many) for name in all_of}
