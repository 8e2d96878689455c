"""Interpretables: the closures over a frame that the planner builds programs of.

A frame is a list: cost so far, cost limit, and the variables. Costs that do not depend on values are added up at
planning and charged at the start of a branch, so that most closures do no accounting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal.objects.cel.errors import CelError, CostExceeded, no_overload
from shoal.objects.cel.values import Value

Frame = list[Any]
Run = Callable[[Frame], Value]

COST, LIMIT, FIRST = 0, 1, 2

FAILURES = (CelError, TypeError, AttributeError)
"""Errors an evaluation may raise instead of returning a value. A null where the schema promised a string raises
Python's own errors: checking every argument would cost every evaluation.
"""


@dataclass(slots=True)
class Step:
    run: Run
    cost: int = 0
    """Fixed cost. The caller charges it."""
    constant: bool = False
    attribute: bool = False
    """A variable, or a field or item of one."""


def constant(value: Value) -> Step:
    return Step(lambda _: value, 0, True)


def charge(frame: Frame, cost: int) -> None:
    frame[COST] += cost
    if frame[COST] > frame[LIMIT]:
        raise CostExceeded


def charged(step: Step, discount: int = 0) -> Run:
    """Returns the evaluation with its cost charged, for branches that may not be taken."""
    run, cost = step.run, step.cost - discount
    if not cost:
        return run

    def branch(frame: Frame) -> Value:
        frame[COST] += cost
        return run(frame)

    return branch


def as_error(problem: Exception) -> CelError:
    return problem if isinstance(problem, CelError) else no_overload()


def logic(terms: list[Run], decides: bool) -> Run:
    """Evaluates `||` (decided by true) or `&&` (decided by false). A decided result ignores errors of other terms."""
    other = not decides

    def run(frame: Frame) -> Value:
        problem: Exception | None = None
        for term in terms:
            try:
                value = term(frame)
            except FAILURES as failure:
                problem = problem or failure
                continue
            if value is decides:
                return decides
            if value is not other:
                problem = problem or no_overload()
        if problem is not None:
            raise problem
        return other

    return run


def logic_of_two(first: Run, second: Run, decides: bool) -> Run:
    """As `eval_logic`, for two terms. Nearly all have two."""
    other = not decides

    def run(frame: Frame) -> Value:
        problem: Exception | None = None
        try:
            value = first(frame)
            if value is decides:
                return decides
            if value is not other:
                problem = no_overload()
        except FAILURES as failure:
            problem = failure
        value = second(frame)
        if value is decides:
            return decides
        if problem is not None:
            raise problem
        if value is not other:
            raise no_overload()
        return other

    return run


def choice(condition: Run, yes: Run, no: Run) -> Run:
    def run(frame: Frame) -> Value:
        value = condition(frame)
        if value is True:
            return yes(frame)
        if value is False:
            return no(frame)
        raise no_overload()

    return run
