"""Plans comprehensions as loops. An iteration costs what the expression costs that cel-go expands the macro to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from shoal.objects.cel.errors import CELError, no_overload
from shoal.objects.cel.interpretable import (
    COST,
    EVAL_ERRORS,
    LIMIT,
    EvalFrame,
    EvalFunc,
    Interpretable,
    charge,
    pause_or_end,
    with_cost,
)
from shoal.objects.cel.library.lists import pairwise_cost, sort_by
from shoal.objects.cel.values import OPTIONAL_NONE, OptionalValue, Value

_LIST_COST, _MAP_COST = 10, 30
_APPEND_COST = 12
"""Cost of an append: accumulator, new list of one item, addition."""


def fold(macro: str, iter_range: Interpretable, slots: list[int], args: list[Interpretable]) -> Interpretable:
    if macro in ("optMap", "optFlatMap"):
        return _plan_optional_map(macro, iter_range, slots[0], args[0])
    build = _BUILDERS[macro]
    run, cost = build(_iterate(slots), iter_range.evaluate, args)
    return Interpretable(run, iter_range.cost + cost)


IterateFunc = Callable[[EvalFrame, Value], Iterable[Any]]
PlannedLoop = tuple[EvalFunc, int]


def _iterate(slots: list[int]) -> IterateFunc:
    """Stores each item in its slot and yields the key or item."""
    if len(slots) == 1:
        (slot,) = slots

        def one(frame: EvalFrame, held: Value) -> Iterable[Value]:
            if held.__class__ is not dict and not isinstance(held, list):
                raise no_overload()
            for item in held:
                frame[slot] = item
                yield item

        return one
    first, second = slots

    def two(frame: EvalFrame, held: Value) -> Iterable[Value]:
        if held.__class__ is dict:
            pairs: Iterable[tuple[Value, Value]] = held.items()
        elif isinstance(held, list):
            pairs = enumerate(held)
        else:
            raise no_overload()
        for key, item in pairs:
            frame[first] = key
            frame[second] = item
            yield key

    return two


def _plan_quantifier(
    decides: bool, cost_per_iteration: int
) -> Callable[[IterateFunc, EvalFunc, list[Interpretable]], PlannedLoop]:
    """`all` is decided by false, `exists` by true."""
    other = not decides

    def build(rounds: IterateFunc, over: EvalFunc, args: list[Interpretable]) -> PlannedLoop:
        predicate, cost = args[0].evaluate, args[0].cost + cost_per_iteration

        def run(frame: EvalFrame) -> Value:
            error: Exception | None = None
            iterator = iter(rounds(frame, over(frame)))
            for _ in iterator:
                frame[COST] += cost
                if frame[COST] > frame[LIMIT]:
                    pause_or_end(frame)
                try:
                    value = predicate(frame)
                except EVAL_ERRORS as failure:
                    error = error or failure
                    continue
                if value is decides:
                    # cel-go evaluates the loop condition once more before the next iteration.
                    frame[COST] += cost_per_iteration - 1 if any(True for _ in iterator) else 0
                    return decides
                if value is not other:
                    error = error or no_overload()
            if error is not None:
                raise error
            return other

        return run, 1

    return build


def _require_bool(value: Value) -> bool:
    if value is True or value is False:
        return bool(value)
    raise no_overload()


def _plan_exists_one(rounds: IterateFunc, over: EvalFunc, args: list[Interpretable]) -> PlannedLoop:
    predicate, cost = args[0].evaluate, args[0].cost

    def run(frame: EvalFrame) -> bool:
        count = 0
        for _ in rounds(frame, over(frame)):
            charge(frame, cost)
            if _require_bool(predicate(frame)):
                frame[COST] += 2
                count += 1
        return count == 1

    return run, 2


def _plan_filter(rounds: IterateFunc, over: EvalFunc, args: list[Interpretable]) -> PlannedLoop:
    predicate, cost = args[0].evaluate, args[0].cost

    def run(frame: EvalFrame) -> list[Value]:
        kept = []
        for item in rounds(frame, over(frame)):
            charge(frame, cost)
            if _require_bool(predicate(frame)):
                frame[COST] += _APPEND_COST + 1
                kept.append(item)
        return kept

    return run, 1


def _plan_map(rounds: IterateFunc, over: EvalFunc, args: list[Interpretable]) -> PlannedLoop:
    """`map` and `transformList`, with or without a condition."""
    value = with_cost(args[-1])
    condition = args[0].evaluate if len(args) == 2 else None
    before = args[0].cost if condition else 0

    def run(frame: EvalFrame) -> list[Value]:
        result = []
        for _ in rounds(frame, over(frame)):
            charge(frame, before)
            if condition is None or _require_bool(condition(frame)):
                frame[COST] += _APPEND_COST
                result.append(value(frame))
        return result

    return run, 1


def _plan_transform_map(rounds: IterateFunc, over: EvalFunc, args: list[Interpretable]) -> PlannedLoop:
    value = with_cost(args[-1])
    condition = args[0].evaluate if len(args) == 2 else None
    before = args[0].cost if condition else 0

    def run(frame: EvalFrame) -> dict[Value, Value]:
        result: dict[Value, Value] = {}
        for key in rounds(frame, over(frame)):
            charge(frame, before)
            if condition is None or _require_bool(condition(frame)):
                frame[COST] += 3
                result[key] = value(frame)
        return result

    return run, 1


def _plan_transform_map_entry(rounds: IterateFunc, over: EvalFunc, args: list[Interpretable]) -> PlannedLoop:
    entry = with_cost(args[-1])
    condition = args[0].evaluate if len(args) == 2 else None
    before = args[0].cost if condition else 0

    def run(frame: EvalFrame) -> dict[Value, Value]:
        result: dict[Value, Value] = {}
        for _ in rounds(frame, over(frame)):
            charge(frame, before)
            if condition is None or _require_bool(condition(frame)):
                frame[COST] += 2
                for key, value in entry(frame).items():
                    if key in result:
                        raise CELError(f"insert failed: key {key} already exists")
                    result[key] = value
        return result

    return run, 1


def _plan_sort_by(rounds: IterateFunc, over: EvalFunc, args: list[Interpretable]) -> PlannedLoop:
    key = with_cost(args[0])

    def run(frame: EvalFrame) -> list[Value]:
        items, keys = [], []
        for item in rounds(frame, over(frame)):
            charge(frame, _APPEND_COST)
            items.append(item)
            keys.append(key(frame))
        charge(frame, pairwise_cost(keys))
        return sort_by(items, keys)

    return run, 3


def _plan_optional_map(macro: str, optional: Interpretable, slot: int, arg: Interpretable) -> Interpretable:
    eval_optional, value = optional.evaluate, with_cost(arg)

    def run(frame: EvalFrame) -> Value:
        before = frame[COST]
        optional_value = eval_optional(frame)
        if optional_value.__class__ is not OptionalValue:
            raise no_overload()
        if not optional_value.present:
            frame[COST] += 1
            return OPTIONAL_NONE
        frame[slot] = optional_value.value
        frame[COST] += present + frame[COST] - before
        result = value(frame)
        return OptionalValue(result) if macro == "optMap" else result

    # The macro evaluates the optional twice: for hasValue and for value.
    present = optional.cost + (2 if macro == "optMap" else 1)
    return Interpretable(run, optional.cost + 1)


_BUILDERS: dict[str, Callable[[IterateFunc, EvalFunc, list[Interpretable]], PlannedLoop]] = {
    "all": _plan_quantifier(False, 3),
    "exists": _plan_quantifier(True, 4),
    "exists_one": _plan_exists_one,
    "filter": _plan_filter,
    "map": _plan_map,
    "transformList": _plan_map,
    "transformMap": _plan_transform_map,
    "transformMapEntry": _plan_transform_map_entry,
    "sortBy": _plan_sort_by,
}
