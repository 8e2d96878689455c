"""Overloads: signature, implementation and run-time cost of a function.

The cost is computed from the arguments before the call, so that a call that would exceed the limit does not run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from shoal.objects.cel.types import CELType
from shoal.objects.cel.values import Value, size_of

OverloadFunc = Callable[..., Value]
CostFunc = Callable[..., int]

TRAVERSAL_COST = 0.1
"""Cost per character of a traversed string."""
_REGEX_COST = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    name: str
    args: tuple[CELType, ...]
    result: CELType
    run: OverloadFunc
    is_member: bool = False
    cost: CostFunc | None = None
    """None: one unit."""


def function_overload(
    name: str, args: tuple[CELType, ...], result: CELType, run: OverloadFunc, cost: CostFunc | None = None
) -> Overload:
    return Overload(name, args, result, run, False, cost)


def method_overload(
    name: str, args: tuple[CELType, ...], result: CELType, run: OverloadFunc, cost: CostFunc | None = None
) -> Overload:
    """`args[0]` is the receiver."""
    return Overload(name, args, result, run, True, cost)


def traversal_cost(first: Value, *_: Value) -> int:
    return math.ceil(size_of(first) * TRAVERSAL_COST)


def traversal_and_result_cost(first: Value, *_: Value) -> int:
    return math.ceil(size_of(first) * 2 * TRAVERSAL_COST)


def shorter_traversal_cost(a: Value, b: Value) -> int:
    return math.ceil(min(size_of(a), size_of(b)) * TRAVERSAL_COST)


def both_traversal_cost(a: Value, b: Value) -> int:
    return math.ceil((size_of(a) + size_of(b)) * TRAVERSAL_COST)


def product_cost(a: Value, b: Value) -> int:
    return math.ceil(size_of(a) * TRAVERSAL_COST) * math.ceil(size_of(b) * TRAVERSAL_COST)


def regex_search_cost(text: Value, pattern: Value, *_: Value) -> int:
    return math.ceil((1 + size_of(text)) * TRAVERSAL_COST) * math.ceil(size_of(pattern) * _REGEX_COST)


def fixed_regex_cost(size: int) -> CostFunc:
    return lambda text: math.ceil((1 + size_of(text)) * TRAVERSAL_COST) * math.ceil(size * _REGEX_COST)


def tree_cost(value: Value, *_: Value) -> int:
    """Cost of traversing a whole tree of values."""
    if value.__class__ is str or value.__class__ is bytes:
        return int(len(value) * TRAVERSAL_COST)
    if isinstance(value, list):
        return sum(map(tree_cost, value))
    if isinstance(value, dict):
        return sum(tree_cost(key) + tree_cost(inner) for key, inner in value.items())
    return 1
