"""Makes Karpenter's plan cheaper: repacks its pods, verifies every constraint, and never returns a more expensive plan.
Pure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from shoal.provision.simulation.model import Plan, Question
from shoal.provision.solver.claims import claims
from shoal.provision.solver.core import ITERATIONS, solve
from shoal.provision.solver.problem import Problem
from shoal.provision.solver.report import Report
from shoal.provision.solver.verify import broken

log = logging.getLogger(__name__)

_CHEAPER = 1e-9
"""Relative improvement below which two plans count as equal in cost."""


def improve(
    question: Question, incumbent: Plan, *, iterations: int = ITERATIONS, stop: Callable[[], bool] = lambda: False
) -> tuple[Plan, Report]:
    """Changes only the new claims. Deterministic as long as `stop` returns False."""
    if not incumbent.claims:
        return incumbent, Report(0.0, 0.0, 0.0, 0, 0, "there is nothing to buy")
    try:
        return _improved(question, incumbent, iterations, stop)
    except Exception as error:  # any failure keeps the incumbent: pods wait for a plan
        log.exception("the solver failed")
        return incumbent, _report(incumbent, incumbent, 0.0, 0, f"something is wrong with the solver: {error!r}")


def _improved(question: Question, incumbent: Plan, iterations: int, stop: Callable[[], bool]) -> tuple[Plan, Report]:
    problem = Problem(question, incumbent)
    if not problem.claims:
        return incumbent, _report(incumbent, incumbent, 0.0, 0, "its claims cannot be packed anew")
    solution = solve(problem.instance, problem.incumbent, iterations=iterations, stop=stop)
    fixed = sum(claim.price for claim in problem.kept)
    bound = solution.bound + fixed if solution.bound > 0 else 0.0
    made = claims(problem, solution.nodes)
    if made is None:
        return incumbent, _report(incumbent, incumbent, bound, solution.iterations, "no node can be all its pods want")
    found = replace(incumbent, claims=(*problem.kept, *made))
    if not _is_better(found, incumbent):
        return incumbent, _report(incumbent, incumbent, bound, solution.iterations, "nothing cheaper was found")
    wrong = broken(question, incumbent, found)
    if wrong:
        return incumbent, _report(incumbent, incumbent, bound, solution.iterations, f"the other is wrong: {wrong}")
    return found, _report(found, incumbent, bound, solution.iterations)


def _is_better(found: Plan, than: Plan) -> bool:
    less = than.cost - found.cost
    if abs(less) <= _CHEAPER * max(than.cost, 1.0):
        return len(found.claims) < len(than.claims)
    return less > 0


def _report(plan: Plan, rule: Plan, bound: float, iterations: int, kept: str = "") -> Report:
    return Report(plan.cost, rule.cost, min(bound, plan.cost), len(plan.claims), iterations, kept)
