"""Plans calls: directly to one overload if the types are known, else dispatched by the run-time types of the
arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal.objects.cel.errors import CostExceeded, no_overload
from shoal.objects.cel.overloads import Cost, Overload
from shoal.objects.cel.steps import COST, LIMIT, Frame, Run, Step
from shoal.objects.cel.types import Type, is_open
from shoal.objects.cel.values import Value, kind_of

_LENGTHS = (str, bytes)


def call(overloads: Sequence[Overload], args: list[Step], types: list[Type]) -> Step:
    fixed = sum(arg.cost for arg in args)
    runs = [arg.run for arg in args]
    if len(overloads) == 1 and (_certain(overloads[0], types)):
        only = overloads[0]
        if only.cost is None:
            return Step(_plain(only.run, runs), fixed + 1)
        return Step(_costed(only.run, only.cost, runs), fixed)
    return Step(_dispatched(overloads, runs), fixed)


def _certain(overload: Overload, types: list[Type]) -> bool:
    """True if values of these types need no check at run time."""
    return all(not is_open(given) or is_open(wanted) for given, wanted in zip(types, overload.args, strict=True))


def _plain(run: Callable[..., Value], args: list[Run]) -> Run:
    if len(args) == 1:
        (only,) = args
        return lambda frame: run(only(frame))
    if len(args) == 2:
        first, second = args
        return lambda frame: run(first(frame), second(frame))
    return lambda frame: run(*[arg(frame) for arg in args])


def _costed(run: Callable[..., Value], cost: Cost, args: list[Run]) -> Run:
    if len(args) == 2:
        first, second = args

        def two(frame: Frame) -> Value:
            a, b = first(frame), second(frame)
            frame[COST] += cost(a, b)
            if frame[COST] > frame[LIMIT]:
                raise CostExceeded
            return run(a, b)

        return two

    def some(frame: Frame) -> Value:
        values = [arg(frame) for arg in args]
        frame[COST] += cost(*values)
        if frame[COST] > frame[LIMIT]:
            raise CostExceeded
        return run(*values)

    return some


def _dispatched(overloads: Sequence[Overload], args: list[Run]) -> Run:
    known: dict[tuple[str, ...], Overload] = {}

    def run(frame: Frame) -> Value:
        values = [arg(frame) for arg in args]
        kinds = tuple(map(kind_of, values))
        overload = known.get(kinds)
        if overload is None:
            overload = known[kinds] = _for_kinds(overloads, kinds)
        frame[COST] += 1 if overload.cost is None else overload.cost(*values)
        if frame[COST] > frame[LIMIT]:
            raise CostExceeded
        return overload.run(*values)

    return run


def _for_kinds(overloads: Sequence[Overload], kinds: tuple[str, ...]) -> Overload:
    for overload in overloads:
        if all(is_open(wanted) or wanted.kind == kind for wanted, kind in zip(overload.args, kinds, strict=True)):
            return overload
    raise no_overload()


def same_scalars(equal: bool, args: list[Step]) -> Step:
    """Plans `==` or `!=` of two scalars of the same type."""
    first, second = args[0].run, args[1].run
    fixed = args[0].cost + args[1].cost + 1
    if equal:
        return Step(lambda frame: first(frame) == second(frame), fixed)
    return Step(lambda frame: first(frame) != second(frame), fixed)


def same_texts(equal: bool, args: list[Step]) -> Step:
    """As `plan_scalar_equality`, for strings: the cost depends on the shorter one. Either may be null."""
    first, second = args[0].run, args[1].run

    def run(frame: Frame) -> Value:
        a, b = first(frame), second(frame)
        if a.__class__ in _LENGTHS and b.__class__ in _LENGTHS:
            frame[COST] -= -min(len(a), len(b)) // 10
        else:
            frame[COST] += 1
        return (a == b) is equal

    return Step(run, args[0].cost + args[1].cost)
