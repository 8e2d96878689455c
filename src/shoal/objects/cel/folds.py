"""Plans comprehensions as loops. An iteration costs what the expression costs that cel-go expands the macro to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from shoal.objects.cel.errors import CelError, CostExceeded, no_overload
from shoal.objects.cel.library.lists import self_compared, sort_by
from shoal.objects.cel.steps import COST, FAILURES, LIMIT, Frame, Run, Step, charge, charged
from shoal.objects.cel.values import NONE, Optional, Value

_LIST_COST, _MAP_COST = 10, 30
_ADD = 12
"""Cost of an append: accumulator, new list of one item, addition."""


def fold(macro: str, over: Step, places: list[int], args: list[Step]) -> Step:
    if macro in ("optMap", "optFlatMap"):
        return _optional(macro, over, places[0], args[0])
    build = _BUILDERS[macro]
    run, cost = build(_rounds(places), over.run, args)
    return Step(run, over.cost + cost)


Rounds = Callable[[Frame, Value], Iterable[Any]]
Built = tuple[Run, int]


def _rounds(places: list[int]) -> Rounds:
    """Stores each item in its slot and yields the key or item."""
    if len(places) == 1:
        (place,) = places

        def one(frame: Frame, held: Value) -> Iterable[Value]:
            if held.__class__ is not dict and not isinstance(held, list):
                raise no_overload()
            for item in held:
                frame[place] = item
                yield item

        return one
    first, second = places

    def two(frame: Frame, held: Value) -> Iterable[Value]:
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


def _quantified(decides: bool, per_round: int) -> Callable[[Rounds, Run, list[Step]], Built]:
    """`all` is decided by false, `exists` by true."""
    other = not decides

    def build(rounds: Rounds, over: Run, args: list[Step]) -> Built:
        predicate, cost = args[0].run, args[0].cost + per_round

        def run(frame: Frame) -> Value:
            problem: Exception | None = None
            todo = iter(rounds(frame, over(frame)))
            for _ in todo:
                frame[COST] += cost
                if frame[COST] > frame[LIMIT]:
                    raise CostExceeded
                try:
                    value = predicate(frame)
                except FAILURES as failure:
                    problem = problem or failure
                    continue
                if value is decides:
                    # cel-go evaluates the loop condition once more before the next iteration.
                    frame[COST] += per_round - 1 if any(True for _ in todo) else 0
                    return decides
                if value is not other:
                    problem = problem or no_overload()
            if problem is not None:
                raise problem
            return other

        return run, 1

    return build


def _truth(value: Value) -> bool:
    if value is True or value is False:
        return bool(value)
    raise no_overload()


def _exists_one(rounds: Rounds, over: Run, args: list[Step]) -> Built:
    predicate, cost = args[0].run, args[0].cost

    def run(frame: Frame) -> bool:
        count = 0
        for _ in rounds(frame, over(frame)):
            charge(frame, cost)
            if _truth(predicate(frame)):
                frame[COST] += 2
                count += 1
        return count == 1

    return run, 2


def _filter(rounds: Rounds, over: Run, args: list[Step]) -> Built:
    predicate, cost = args[0].run, args[0].cost

    def run(frame: Frame) -> list[Value]:
        kept = []
        for item in rounds(frame, over(frame)):
            charge(frame, cost)
            if _truth(predicate(frame)):
                frame[COST] += _ADD + 1
                kept.append(item)
        return kept

    return run, 1


def _listed(rounds: Rounds, over: Run, args: list[Step]) -> Built:
    """`map` and `transformList`, with or without a condition."""
    value = charged(args[-1])
    condition = args[0].run if len(args) == 2 else None
    before = args[0].cost if condition else 0

    def run(frame: Frame) -> list[Value]:
        made = []
        for _ in rounds(frame, over(frame)):
            charge(frame, before)
            if condition is None or _truth(condition(frame)):
                frame[COST] += _ADD
                made.append(value(frame))
        return made

    return run, 1


def _mapped(rounds: Rounds, over: Run, args: list[Step]) -> Built:
    value = charged(args[-1])
    condition = args[0].run if len(args) == 2 else None
    before = args[0].cost if condition else 0

    def run(frame: Frame) -> dict[Value, Value]:
        made: dict[Value, Value] = {}
        for key in rounds(frame, over(frame)):
            charge(frame, before)
            if condition is None or _truth(condition(frame)):
                frame[COST] += 3
                made[key] = value(frame)
        return made

    return run, 1


def _entries(rounds: Rounds, over: Run, args: list[Step]) -> Built:
    entry = charged(args[-1])
    condition = args[0].run if len(args) == 2 else None
    before = args[0].cost if condition else 0

    def run(frame: Frame) -> dict[Value, Value]:
        made: dict[Value, Value] = {}
        for _ in rounds(frame, over(frame)):
            charge(frame, before)
            if condition is None or _truth(condition(frame)):
                frame[COST] += 2
                for key, value in entry(frame).items():
                    if key in made:
                        raise CelError(f"insert failed: key {key} already exists")
                    made[key] = value
        return made

    return run, 1


def _sorted(rounds: Rounds, over: Run, args: list[Step]) -> Built:
    key = charged(args[0])

    def run(frame: Frame) -> list[Value]:
        items, keys = [], []
        for item in rounds(frame, over(frame)):
            charge(frame, _ADD)
            items.append(item)
            keys.append(key(frame))
        charge(frame, self_compared(keys))
        return sort_by(items, keys)

    return run, 3


def _optional(macro: str, over: Step, place: int, arg: Step) -> Step:
    held, value = over.run, charged(arg)

    def run(frame: Frame) -> Value:
        before = frame[COST]
        given = held(frame)
        if given.__class__ is not Optional:
            raise no_overload()
        if not given.present:
            frame[COST] += 1
            return NONE
        frame[place] = given.value
        frame[COST] += present + frame[COST] - before
        found = value(frame)
        return Optional(found) if macro == "optMap" else found

    # The macro evaluates the optional twice: for hasValue and for value.
    present = over.cost + (2 if macro == "optMap" else 1)
    return Step(run, over.cost + 1)


_BUILDERS: dict[str, Callable[[Rounds, Run, list[Step]], Built]] = {
    "all": _quantified(False, 3),
    "exists": _quantified(True, 4),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _listed,
    "transformList": _listed,
    "transformMap": _mapped,
    "transformMapEntry": _entries,
    "sortBy": _sorted,
}
