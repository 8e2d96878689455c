"""The solver: never worse than the incumbent, no violated constraint, a valid bound, and a small gap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from shoal.provision.solver.instance import (
    PackedNode,
    Packing,
    PackingInstance,
    merge_equal_nodes,
    packing_cost,
    packing_error,
    packing_price,
)
from shoal.provision.solver.merge import merge_pairs
from shoal.provision.solver.packing_problem import undominated_options
from shoal.provision.solver.solve import solve
from tests.provision.solver.instances import MI, MIXES, benchmark, by_rule, least, small


@given(small())
@settings(max_examples=25)
def test_answers_are_right_and_the_bound_holds(given: tuple[PackingInstance, Packing]) -> None:
    instance, known = given
    assert packing_error(instance, known) == ""
    found = solve(instance, known, iterations=60)
    assert packing_error(instance, found.nodes) == ""
    assert found.price == pytest.approx(packing_price(instance, found.nodes))
    best = least(instance)
    assert found.price <= packing_price(instance, known) + 1e-9
    assert found.price >= best - 1e-9
    assert found.bound <= best + 1e-6


@given(small())
@settings(max_examples=10)
def test_the_same_question_has_the_same_answer(given: tuple[PackingInstance, Packing]) -> None:
    assert solve(*given, iterations=40) == solve(*given, iterations=40)


def test_what_is_wrong_is_named() -> None:
    instance = benchmark("basic", 4, 4)
    pair = PackedNode(5, ((0, 1), (1, 1)))
    assert packing_error(instance, merge_equal_nodes([(pair, 2)])).startswith(
        "option 5 cannot contain ((0, 1), (1, 1))"
    )
    assert packing_error(instance, merge_equal_nodes([(PackedNode(8, ((0, 1),)), 2)])) == "contains [2, 0] of [2, 2]"
    tight = replace(instance, limit_usage=np.ones((1, 9), np.int64), limits=np.asarray([1], np.int64))
    alone = merge_equal_nodes([(PackedNode(8, ((0, 1),)), 2), (PackedNode(8, ((1, 1),)), 2)])
    assert packing_error(tight, alone) == "exceeds limits [0]"


def test_a_budget_of_nothing_keeps_what_is_known() -> None:
    instance = benchmark("generic", 60, 16)
    known = by_rule(instance)
    for found in (solve(instance, known, iterations=0), solve(instance, known, stop=lambda: True)):
        assert packing_error(instance, found.nodes) == ""
        assert found.price <= packing_price(instance, known)
        assert found.iterations == 0


def test_options_that_another_makes_superfluous_are_left_out() -> None:
    capacity = np.asarray([[4, 4], [4, 4], [8, 8], [8, 8], [9, 9]], np.int64)
    prices = np.asarray([2.0, 1.0, 1.0, 1.0, 0.5])
    allowed = np.asarray([[1, 1], [1, 1], [1, 0], [1, 1], [0, 0]], np.bool_)
    none = np.zeros((0, 5), np.int64)
    assert undominated_options(capacity, prices, allowed, none).tolist() == [3]
    scarce = np.asarray([[0, 0, 0, 1, 0]], np.int64)
    assert undominated_options(capacity, prices, allowed, scarce).tolist() == [1, 2, 3]


def test_much_cheaper_than_the_rule_where_a_batch_fits_one_node() -> None:
    instance = benchmark("generic", 100, 64)
    known = by_rule(instance)
    found = solve(instance, known, iterations=60)
    assert packing_error(instance, found.nodes) == ""
    assert found.price <= 1.03 * found.bound
    assert found.price < 0.95 * packing_price(instance, known)
    assert packing_cost(instance, found.nodes) <= packing_cost(instance, known)


def test_many_kinds_of_pods_are_repacked_too() -> None:
    dice = np.random.default_rng(1)
    few = benchmark("generic", 170, 16)
    sizes = np.stack([dice.integers(1, 40, 170) * 50, dice.integers(1, 40, 170) * 100 * MI, np.ones(170)], axis=1)
    instance = replace(
        few,
        requests=sizes.astype(np.int64)[np.lexsort((-sizes[:, 1], -sizes[:, 0]))],
        counts=np.ones(170, np.int64),
        allowed=np.ones((few.options, 170), np.bool_),
    )
    known = by_rule(instance)
    found = solve(instance, known, iterations=120)
    assert packing_error(instance, found.nodes) == ""
    assert found.price < packing_price(instance, known)
    assert found.price <= 1.03 * found.bound


def test_small_nodes_are_merged_where_it_costs_nothing() -> None:
    instance = benchmark("basic", 8, 16)
    quad = PackedNode(8, ((0, 1),))
    apart = merge_equal_nodes([(quad, 4), (PackedNode(5, ((1, 2),)), 2)])
    assert packing_error(instance, apart) == ""
    together = merge_pairs(instance, apart)
    assert packing_error(instance, together) == ""
    assert packing_cost(instance, together) <= packing_cost(instance, apart)
    assert sum(times for _, times in together) < 6
    assert merge_pairs(replace(instance, prices=instance.prices**2), apart) == apart
    limited = replace(instance, limit_usage=np.ones((1, 15), np.int64), limits=np.asarray([6], np.int64))
    assert packing_error(limited, merge_pairs(limited, apart)) == ""


@pytest.mark.soak
def test_near_to_the_bound_on_all_mixes() -> None:
    ratios = []
    for mix in MIXES:
        for number in (100, 1000):
            for largest in (256, 16):
                instance = benchmark(mix, number, largest)
                known = by_rule(instance)
                found = solve(instance, known)
                assert packing_error(instance, found.nodes) == ""
                assert found.price <= packing_price(instance, known)
                ratios.append(found.price / found.bound)
    assert float(np.median(ratios)) <= 1.03
    assert max(ratios) <= 1.06
