"""Interpretables: the closures over a frame that the planner builds programs of.

A frame is a list: cost so far, cost limit, what to do at the limit, and the variables. Costs that do not depend on
values are added up at planning and charged at the start of a branch, so that most closures do no accounting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal.objects.cel.errors import CELError, CostLimitExceeded, no_overload
from shoal.objects.cel.pause import PAUSE_COST
from shoal.objects.cel.values import Value

EvalFrame = list[Any]
EvalFunc = Callable[[EvalFrame], Value]

COST, LIMIT, PAUSES, FIRST_VARIABLE = 0, 1, 2, 3

EVAL_ERRORS = (CELError, TypeError, AttributeError)
"""Errors an evaluation may raise instead of returning a value. A null where the schema promised a string raises
Python's own errors: checking every argument would cost every evaluation.
"""


@dataclass(slots=True)
class Interpretable:
    evaluate: EvalFunc
    cost: int = 0
    """Fixed cost. The caller charges it."""
    is_constant: bool = False
    is_attribute: bool = False
    """A variable, or a field or item of one."""


def constant(value: Value) -> Interpretable:
    return Interpretable(lambda _: value, 0, True)


def charge(frame: EvalFrame, cost: int) -> None:
    frame[COST] += cost
    if frame[COST] > frame[LIMIT]:
        pause_or_end(frame)


def pause_or_end(frame: EvalFrame) -> None:
    """Raises CostLimitExceeded, unless the limit is only that of the next pause."""
    limit, pause = frame[PAUSES]
    if frame[COST] > limit:
        raise CostLimitExceeded
    pause()
    frame[LIMIT] = min(frame[COST] + PAUSE_COST, limit)


def with_cost(step: Interpretable, discount: int = 0) -> EvalFunc:
    """Returns the evaluation with its cost charged, for branches that may not be taken."""
    run, cost = step.evaluate, step.cost - discount
    if not cost:
        return run

    def branch(frame: EvalFrame) -> Value:
        frame[COST] += cost
        return run(frame)

    return branch


def to_cel_error(error: Exception) -> CELError:
    return error if isinstance(error, CELError) else no_overload()


def eval_logic(terms: list[EvalFunc], decides: bool) -> EvalFunc:
    """Evaluates `||` (decided by true) or `&&` (decided by false). A decided result ignores errors of other terms."""
    other = not decides

    def run(frame: EvalFrame) -> Value:
        error: Exception | None = None
        for term in terms:
            try:
                value = term(frame)
            except EVAL_ERRORS as failure:
                error = error or failure
                continue
            if value is decides:
                return decides
            if value is not other:
                error = error or no_overload()
        if error is not None:
            raise error
        return other

    return run


def eval_binary_logic(first: EvalFunc, second: EvalFunc, decides: bool) -> EvalFunc:
    """As `eval_logic`, for two terms. Nearly all have two."""
    other = not decides

    def run(frame: EvalFrame) -> Value:
        error: Exception | None = None
        try:
            value = first(frame)
            if value is decides:
                return decides
            if value is not other:
                error = no_overload()
        except EVAL_ERRORS as failure:
            error = failure
        value = second(frame)
        if value is decides:
            return decides
        if error is not None:
            raise error
        if value is not other:
            raise no_overload()
        return other

    return run


def eval_conditional(condition: EvalFunc, if_true: EvalFunc, if_false: EvalFunc) -> EvalFunc:
    def run(frame: EvalFrame) -> Value:
        value = condition(frame)
        if value is True:
            return if_true(frame)
        if value is False:
            return if_false(frame)
        raise no_overload()

    return run
