"""Overloads: signature, implementation and run-time cost of a function.

The cost is computed from the arguments before the call, so that a call that would exceed the limit does not run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from shoal.objects.cel.types import Type
from shoal.objects.cel.values import Value, size_of

Run = Callable[..., Value]
Cost = Callable[..., int]

TRAVERSAL = 0.1
"""Cost per character of a traversed string."""
_REGEX = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    name: str
    args: tuple[Type, ...]
    result: Type
    run: Run
    member: bool = False
    cost: Cost | None = None
    """None: one unit."""


def function(name: str, args: tuple[Type, ...], result: Type, run: Run, cost: Cost | None = None) -> Overload:
    return Overload(name, args, result, run, False, cost)


def method(name: str, args: tuple[Type, ...], result: Type, run: Run, cost: Cost | None = None) -> Overload:
    """`args[0]` is the receiver."""
    return Overload(name, args, result, run, True, cost)


def traversal(first: Value, *_: Value) -> int:
    return math.ceil(size_of(first) * TRAVERSAL)


def traversal_and_result(first: Value, *_: Value) -> int:
    return math.ceil(size_of(first) * 2 * TRAVERSAL)


def shorter(a: Value, b: Value) -> int:
    return math.ceil(min(size_of(a), size_of(b)) * TRAVERSAL)


def both(a: Value, b: Value) -> int:
    return math.ceil((size_of(a) + size_of(b)) * TRAVERSAL)


def product(a: Value, b: Value) -> int:
    return math.ceil(size_of(a) * TRAVERSAL) * math.ceil(size_of(b) * TRAVERSAL)


def regex(text: Value, pattern: Value, *_: Value) -> int:
    return math.ceil((1 + size_of(text)) * TRAVERSAL) * math.ceil(size_of(pattern) * _REGEX)


def regex_of(size: int) -> Cost:
    return lambda text: math.ceil((1 + size_of(text)) * TRAVERSAL) * math.ceil(size * _REGEX)


def through(value: Value, *_: Value) -> int:
    """Cost of traversing a whole tree of values."""
    if value.__class__ is str or value.__class__ is bytes:
        return int(len(value) * TRAVERSAL)
    if isinstance(value, list):
        return sum(map(through, value))
    if isinstance(value, dict):
        return sum(through(key) + through(inner) for key, inner in value.items())
    return 1
