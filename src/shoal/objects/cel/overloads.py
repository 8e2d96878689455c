"""Overloads: signature, implementation and run-time cost of a function.

The cost is computed from the arguments before the call, so that a call that would exceed the limit does not run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from shoal.objects.cel.types import CELType
from shoal.objects.cel.values import SetList, Value, size_of

OverloadFunc = Callable[..., Value]
CostFunc = Callable[..., int]

TRAVERSAL_COST = 0.1
"""Cost per character of a traversed string."""
_REGEX_COST = 0.25
_FREE_COMPARISONS = 10
_PRINTED_NODE_COST, _FREE_PRINTING_COST = 5, 60
_FREE_CHARACTERS = 64


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


def equality_cost(a: Value, b: Value) -> int:
    """As upstream for scalars and short lists. Upstream counts a tenth of the items and nothing inside of them; here
    a comparison takes as long as an iteration for each value, so each counts.
    """
    cost = shorter_traversal_cost(a, b)
    if is_container(a) and is_container(b):
        size = min(_nodes(a), _nodes(b)) if len(a) == len(b) else 0
        if a.__class__ is not dict and a.__class__ is not list:  # a set, or a list that is a map
            size += comparisons_of_items(a)
        return cost + max(size - _FREE_COMPARISONS, 0)
    return cost


def is_container(value: Value) -> bool:
    return value.__class__ is dict or isinstance(value, list)


def comparisons_of_items(items: list[Value]) -> int:
    """How many values the list type makes compare. Items of a set are compared with each other, except strings, which
    are found by their hash. Items of a map have keys.
    """
    size = len(items)
    if isinstance(items, SetList) and any(item.__class__ is not str for item in items):
        size *= _nodes(items)
    return max(size - _FREE_COMPARISONS, 0)


def nested_nodes(items: list[Value]) -> int:
    """How many values are inside of the items. A few are not counted, as upstream counts none."""
    return max(_nodes(items) - len(items) - 1 - _FREE_COMPARISONS, 0)


def _nodes(value: Value) -> int:
    """How many values a tree has."""
    if isinstance(value, list):
        return 1 + sum(_nodes(item) if is_container(item) else 1 for item in value)
    if value.__class__ is dict:
        return 1 + sum(_nodes(item) if is_container(item) else 1 for item in value.values())
    return 1


def printing_cost(template: str, values: list[Value]) -> int:
    """Upstream counts the template alone."""
    printed = _PRINTED_NODE_COST * _nodes(values) + tree_cost(values)
    return traversal_cost(template) + max(printed - _FREE_PRINTING_COST, 0)


def conversion_cost(value: str | list[Value]) -> int:
    """One unit as upstream. A text longer than numbers and times are costs more."""
    return 1 + max(len(value) - _FREE_CHARACTERS, 0)


def tree_cost(value: Value, *_: Value) -> int:
    """Cost of traversing a whole tree of values. Upstream counts nothing for short texts in lists."""
    if value.__class__ is str or value.__class__ is bytes:
        return int(len(value) * TRAVERSAL_COST)
    if isinstance(value, list):
        return max(sum(map(tree_cost, value)), len(value) - _FREE_COMPARISONS)
    if isinstance(value, dict):
        return sum(tree_cost(key) + tree_cost(inner) for key, inner in value.items())
    return 1
