"""Planning inside the solver process. Only that process loads numpy and HiGHS."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from shoal.provision.simulation.model import Results, SchedulingInput
from shoal.provision.simulation.simulate import simulate
from shoal.provision.solver.report import OptimizationReport

Object = dict[str, Any]


def plan_in_process(
    inputs: SchedulingInput, optimal: bool, iterations: int, seconds: float, max_seconds: float
) -> tuple[Results, OptimizationReport | None]:
    """Runs Karpenter's algorithm for at most `max_seconds`, then the solver for `seconds`. Pods of the results have
    nothing but a uid.
    """
    # Imported late: the parent process needs neither numpy nor HiGHS.
    from shoal.provision.solver.optimize import improve  # noqa: PLC0415

    deadline = time.monotonic() + max_seconds
    plan = simulate(inputs, lambda: time.monotonic() > deadline)
    report: OptimizationReport | None = None
    if optimal and may_be_improved(plan):
        improve_deadline = time.monotonic() + seconds
        plan, report = improve(inputs, plan, iterations=iterations, stop=lambda: time.monotonic() > improve_deadline)
    return _strip_pods(plan), report


def load_optimizer() -> None:
    """Imports what plans need, which takes longer than a small plan."""
    import shoal.provision.solver.optimize  # noqa: F401, PLC0415


def may_be_improved(plan: Results) -> bool:
    """False if no cheaper plan can exist: a single pod already has its cheapest node and could not join another."""
    return any(len(claim.pods) > 1 for claim in plan.new_node_claims)


def _strip_pods(plan: Results) -> Results:
    def strip(pod: Object) -> Object:
        return {"metadata": {"uid": pod["metadata"]["uid"]}}

    return Results(
        new_node_claims=tuple(
            replace(claim, pods=tuple(strip(each) for each in claim.pods)) for claim in plan.new_node_claims
        ),
        nominations=tuple((strip(each), kind, name) for each, kind, name in plan.nominations),
        failures=tuple((strip(each), reason) for each, reason in plan.failures),
        awaiting_reservation=tuple((strip(each), reason) for each, reason in plan.awaiting_reservation),
    )
