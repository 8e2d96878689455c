"""Plans calls: directly to one overload if the types are known, else dispatched by the run-time types of the
arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal.objects.cel.errors import no_overload
from shoal.objects.cel.interpretable import COST, LIMIT, EvalFrame, EvalFunc, Interpretable, pause_or_end
from shoal.objects.cel.overloads import CostFunc, Overload
from shoal.objects.cel.types import CELType, is_dynamic
from shoal.objects.cel.values import Value, kind_of

_SIZED_TYPES = (str, bytes)


def plan_call(overloads: Sequence[Overload], args: list[Interpretable], types: list[CELType]) -> Interpretable:
    fixed_cost = sum(arg.cost for arg in args)
    evals = [arg.evaluate for arg in args]
    if len(overloads) == 1 and (_is_statically_typed(overloads[0], types)):
        overload = overloads[0]
        if overload.cost is None:
            return Interpretable(_eval_unit_cost(overload.run, evals), fixed_cost + 1)
        return Interpretable(_eval_with_cost(overload.run, overload.cost, evals), fixed_cost)
    return Interpretable(_eval_dynamic(overloads, evals), fixed_cost)


def _is_statically_typed(overload: Overload, types: list[CELType]) -> bool:
    """True if values of these types need no check at run time."""
    return all(not is_dynamic(given) or is_dynamic(wanted) for given, wanted in zip(types, overload.args, strict=True))


def _eval_unit_cost(run: Callable[..., Value], args: list[EvalFunc]) -> EvalFunc:
    if len(args) == 1:
        (only,) = args
        return lambda frame: run(only(frame))
    if len(args) == 2:
        first, second = args
        return lambda frame: run(first(frame), second(frame))
    return lambda frame: run(*[arg(frame) for arg in args])


def _eval_with_cost(run: Callable[..., Value], cost: CostFunc, args: list[EvalFunc]) -> EvalFunc:
    if len(args) == 2:
        first, second = args

        def two(frame: EvalFrame) -> Value:
            a, b = first(frame), second(frame)
            frame[COST] += cost(a, b)
            if frame[COST] > frame[LIMIT]:
                pause_or_end(frame)
            return run(a, b)

        return two

    def some(frame: EvalFrame) -> Value:
        values = [arg(frame) for arg in args]
        frame[COST] += cost(*values)
        if frame[COST] > frame[LIMIT]:
            pause_or_end(frame)
        return run(*values)

    return some


def _eval_dynamic(overloads: Sequence[Overload], args: list[EvalFunc]) -> EvalFunc:
    cache: dict[tuple[str, ...], Overload] = {}

    def run(frame: EvalFrame) -> Value:
        values = [arg(frame) for arg in args]
        kinds = tuple(map(kind_of, values))
        overload = cache.get(kinds)
        if overload is None:
            overload = cache[kinds] = _overload_for_kinds(overloads, kinds)
        frame[COST] += 1 if overload.cost is None else overload.cost(*values)
        if frame[COST] > frame[LIMIT]:
            pause_or_end(frame)
        return overload.run(*values)

    return run


def _overload_for_kinds(overloads: Sequence[Overload], kinds: tuple[str, ...]) -> Overload:
    for overload in overloads:
        if all(is_dynamic(wanted) or wanted.kind == kind for wanted, kind in zip(overload.args, kinds, strict=True)):
            return overload
    raise no_overload()


def plan_scalar_equality(equal: bool, args: list[Interpretable]) -> Interpretable:
    """Plans `==` or `!=` of two scalars of the same type."""
    first, second = args[0].evaluate, args[1].evaluate
    fixed = args[0].cost + args[1].cost + 1
    if equal:
        return Interpretable(lambda frame: first(frame) == second(frame), fixed)
    return Interpretable(lambda frame: first(frame) != second(frame), fixed)


def plan_string_equality(equal: bool, args: list[Interpretable]) -> Interpretable:
    """As `plan_scalar_equality`, for strings: the cost depends on the shorter one. Either may be null."""
    first, second = args[0].evaluate, args[1].evaluate

    def run(frame: EvalFrame) -> Value:
        a, b = first(frame), second(frame)
        if a.__class__ in _SIZED_TYPES and b.__class__ in _SIZED_TYPES:
            frame[COST] -= -min(len(a), len(b)) // 10
        else:
            frame[COST] += 1
        return (a == b) is equal

    return Interpretable(run, args[0].cost + args[1].cost)
