"""Fixtures of the scenarios: `make` uses Karpenter's algorithm and the optimizer in turn, `rule` only the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest

from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.simulation.model import Results, SchedulingInput
from shoal.provision.simulation.simulate import simulate
from shoal.provision.simulator import fake
from shoal.provision.solver.optimize import improve
from tests.provision.scenarios.words import pool
from tests.provision.scenarios.world import Planner, World

Object = dict[str, Any]
Make = Callable[..., World]

ITERATIONS = 30
"""Of the optimiser: these are small questions."""


@cache
def default_types() -> tuple[InstanceType, ...]:
    return tuple(fake.fake_types())


@cache
def assorted_types() -> tuple[InstanceType, ...]:
    return tuple(fake.assorted_fake_types())


@cache
def plain_types() -> tuple[InstanceType, ...]:
    """Of these, those for Linux on amd64: as many as most cases need."""
    wanted = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    return tuple(each for each in assorted_types() if wanted.items() <= dict(each.offerings[0].labels).items())


def maker(planner: Planner, *, exact: bool) -> Make:
    def make(*pools: Object, types: Sequence[InstanceType] | None = None, **settings: Any) -> World:
        sold = default_types() if types is None else tuple(types)
        return World(planner, sold, list(pools) or [pool()], exact=exact, settings=settings)

    return make


@pytest.fixture
def rule() -> Make:
    return maker(simulate, exact=True)


@pytest.fixture(params=["karpenter", "optimal"])
def make(request: pytest.FixtureRequest) -> Make:
    return maker(simulate, exact=True) if request.param == "karpenter" else maker(improved, exact=False)


def improved(question: SchedulingInput) -> Results:
    """The optimiser's plan: whatever is asked, it places the same pods, and costs no more."""
    rule = simulate(question)
    found, report = improve(question, rule, iterations=ITERATIONS)
    assert "wrong" not in report.kept_reason, report.kept_reason
    assert placed(found) == placed(rule)
    assert found.cost <= rule.cost * (1 + 1e-9)
    assert report.bound <= found.cost * (1 + 1e-9)
    return found


def placed(plan: Results) -> set[str]:
    new = {pod["metadata"]["uid"] for claim in plan.new_node_claims for pod in claim.pods}
    return new | {pod["metadata"]["uid"] for pod, _, _ in plan.nominations}
