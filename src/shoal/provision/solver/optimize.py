"""Makes Karpenter's plan cheaper: repacks its pods, verifies every constraint, and never returns a more expensive plan.
Pure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from shoal.provision.simulation.model import Results, SchedulingInput
from shoal.provision.solver.nodeclaims import new_node_claims
from shoal.provision.solver.packing_problem import PackingProblem
from shoal.provision.solver.report import OptimizationReport
from shoal.provision.solver.solve import ITERATIONS, solve
from shoal.provision.solver.verification import first_error

log = logging.getLogger(__name__)

_MIN_IMPROVEMENT = 1e-9
"""Relative improvement below which two plans count as equal in cost."""


def improve(
    inputs: SchedulingInput,
    incumbent: Results,
    *,
    iterations: int = ITERATIONS,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[Results, OptimizationReport]:
    """Changes only the new claims. Deterministic as long as `stop` returns False."""
    if not incumbent.new_node_claims:
        return incumbent, OptimizationReport(0.0, 0.0, 0.0, 0, 0, "the plan has no new nodes")
    try:
        return _optimize(inputs, incumbent, iterations, stop)
    except Exception as error:  # any failure keeps the incumbent: pods wait for a plan
        log.exception("solver failed")
        return incumbent, _report(incumbent, incumbent, 0.0, 0, f"solver failed: {error!r}")


def _optimize(
    inputs: SchedulingInput, incumbent: Results, iterations: int, stop: Callable[[], bool]
) -> tuple[Results, OptimizationReport]:
    problem = PackingProblem(inputs, incumbent)
    if not problem.free_claims:
        return incumbent, _report(incumbent, incumbent, 0.0, 0, "no NodeClaim of the plan can be repacked")
    solution = solve(problem.instance, problem.incumbent, iterations=iterations, stop=stop)
    fixed_cost = sum(claim.price for claim in problem.fixed_claims)
    bound = solution.bound + fixed_cost if solution.bound > 0 else 0.0
    new_claims = new_node_claims(problem, solution.nodes)
    if new_claims is None:
        return incumbent, _report(
            incumbent, incumbent, bound, solution.iterations, "no node satisfies the requirements of its pods"
        )
    plan = replace(incumbent, new_node_claims=(*problem.fixed_claims, *new_claims))
    if not _is_cheaper(plan, incumbent):
        return incumbent, _report(incumbent, incumbent, bound, solution.iterations, "no cheaper plan was found")
    error = first_error(inputs, incumbent, plan)
    if error:
        return incumbent, _report(
            incumbent, incumbent, bound, solution.iterations, f"the cheaper plan is invalid: {error}"
        )
    return plan, _report(plan, incumbent, bound, solution.iterations)


def _is_cheaper(plan: Results, incumbent: Results) -> bool:
    saved = incumbent.cost - plan.cost
    if abs(saved) <= _MIN_IMPROVEMENT * max(incumbent.cost, 1.0):
        return len(plan.new_node_claims) < len(incumbent.new_node_claims)
    return saved > 0


def _report(
    plan: Results, incumbent: Results, bound: float, iterations: int, kept_reason: str = ""
) -> OptimizationReport:
    return OptimizationReport(
        plan.cost, incumbent.cost, min(bound, plan.cost), len(plan.new_node_claims), iterations, kept_reason
    )
