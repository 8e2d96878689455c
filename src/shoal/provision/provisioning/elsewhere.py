"""Planning inside the solver process. Only that process imports this module, because it loads numpy and HiGHS."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from shoal.provision.provisioning.planning import is_worth_it
from shoal.provision.simulation.model import Plan, Question
from shoal.provision.simulation.rule import simulate
from shoal.provision.solver.adapting import improve
from shoal.provision.solver.report import Report

Object = dict[str, Any]


def planned(
    question: Question, optimal: bool, iterations: int, seconds: float, longest: float
) -> tuple[Plan, Report | None]:
    """Runs Karpenter's algorithm for at most `max_seconds`, then the solver for `seconds`. Pods of the results have
    nothing but a uid.
    """
    end = time.monotonic() + longest
    plan = simulate(question, lambda: time.monotonic() > end)
    report: Report | None = None
    if optimal and is_worth_it(plan):
        enough = time.monotonic() + seconds
        plan, report = improve(question, plan, iterations=iterations, stop=lambda: time.monotonic() > enough)
    return _bare(plan), report


def _bare(plan: Plan) -> Plan:
    def bare(pod: Object) -> Object:
        return {"metadata": {"uid": pod["metadata"]["uid"]}}

    return Plan(
        claims=tuple(replace(claim, pods=tuple(bare(each) for each in claim.pods)) for claim in plan.claims),
        nominations=tuple((bare(each), kind, name) for each, kind, name in plan.nominations),
        failures=tuple((bare(each), reason) for each, reason in plan.failures),
        waiting=tuple((bare(each), reason) for each, reason in plan.waiting),
    )
