"""Worst-case cost of one call without its arguments, and the maximum size of its result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from shoal.objects.cel.overloads import TRAVERSAL, Overload
from shoal.objects.cel.ranges import MOST, Range, added, capped, exactly, multiplied, times
from shoal.objects.cel.syntax import Call, Literal, Node
from shoal.objects.cel.types import Type

Estimate = tuple[int, Range | None]
_REGEX = 0.25
_ALLOCATED = 11
_FORMAT_REGEX = 128
_COMPARISONS = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
_READ_LISTS = frozenset({"isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"})
_SAME_SIZE = frozenset({"lowerAscii", "upperAscii", "substring", "trim"})
_READ = frozenset({"cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"})
_OPAQUE = ("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver")
_ADDRESS = 16
"""Bytes of the longest address."""


class Sizes(Protocol):
    """Known types and sizes of the arguments."""

    def kind(self, node: Node) -> Type: ...

    def size(self, node: Node) -> Range | None: ...

    def known(self, node: Node) -> Range: ...

    def item_size(self, node: Node) -> Range | None: ...


def call_estimate(estimator: Sizes, overload: Overload, node: Call, target: Node | None) -> Estimate:
    found = _BY_NAME.get(overload.name)
    return found(estimator, overload, node, target) if found else (1, None)


def _traversed(size: Range, factor: float = TRAVERSAL) -> int:
    return times(size[1], factor)


def _compared(estimator: Sizes, overload: Overload, node: Call, _: Node | None) -> Estimate:
    kinds = [estimator.kind(arg) for arg in node.args]
    if overload.name == "_==_" and kinds[0].kind == kinds[1].kind:
        if kinds[0].kind in _OPAQUE:
            return 1, None
        if kinds[0].kind == "kubernetes.NamedFormat":
            return times(64, TRAVERSAL), None
        if kinds[0].kind == "kubernetes.URL":
            size = estimator.size(node.args[1])
            return _traversed(size if size is not None else exactly(1)), None
    if overload.name not in ("_==_", "_!=_") and overload.args[0].kind not in ("string", "bytes"):
        return 1, None
    shortest = min(estimator.known(arg)[1] for arg in node.args)
    return times(shortest, TRAVERSAL), None


def _added(estimator: Sizes, overload: Overload, node: Call, _: Node | None) -> Estimate:
    if overload.args[0].kind not in ("string", "bytes", "list"):
        return 1, None
    size = added(estimator.known(node.args[0]), estimator.known(node.args[1]))
    return (1 if overload.args[0].kind == "list" else _traversed(size)), size


def _in(estimator: Sizes, overload: Overload, node: Call, _: Node | None) -> Estimate:
    return (estimator.known(node.args[1])[1] if overload.args[1].kind == "list" else 1), None


def _read_list(estimator: Sizes, _: Overload, __: Call, target: Node | None) -> Estimate:
    if target is None:
        return 1, None
    size = estimator.known(target)
    item = estimator.item_size(target)
    if item is None:
        return _traversed(size), None
    texts = estimator.kind(target).params[0].kind in ("string", "bytes")
    return times(size[1], 1 + (_traversed(item) if texts else 0)), None


def _same_size(estimator: Sizes, _: Overload, node: Call, target: Node | None) -> Estimate:
    size = estimator.known(target if target is not None else node.args[0])
    return _traversed(size), size


def _read(estimator: Sizes, overload: Overload, node: Call, target: Node | None) -> Estimate:
    if overload.member:
        return 1, None
    return _traversed(estimator.known(node.args[0])), None


def _canonical(estimator: Sizes, _: Overload, node: Call, __: Node | None) -> Estimate:
    return _traversed(estimator.known(node.args[0]), 2 * TRAVERSAL), None


def _contained(estimator: Sizes, overload: Overload, node: Call, _: Node | None) -> Estimate:
    cost = times(2 * _ADDRESS, TRAVERSAL)
    if overload.name == "containsCIDR":
        cost += times(_ADDRESS, TRAVERSAL) + 1
    if overload.args[1].kind == "string":
        cost += _traversed(estimator.known(node.args[0]))
    return capped(cost), None


def _replace(estimator: Sizes, _: Overload, node: Call, target: Node | None) -> Estimate:
    assert target is not None
    size, old, new = (estimator.known(part) for part in (target, *node.args[:2]))
    cost = _traversed(size, 2 * TRAVERSAL)
    count_most = kept_most = count_least = kept_least = 0
    if old[0] == 0:
        count_most, kept_most = capped(size[1] + 1), size[1]
    elif new[1] <= old[0]:
        kept_most = size[1]
    else:
        count_most = math.ceil(size[1] / old[0])
    if old[1] == 0:
        count_least, kept_least = capped(size[0] + 1), size[0]
    elif old[1] <= new[0]:
        kept_least = size[0]
    else:
        count_least = math.ceil(size[0] / old[1])
    return cost, added(multiplied((count_least, count_most), new), (kept_least, kept_most))


def _split(estimator: Sizes, _: Overload, node: Call, target: Node | None) -> Estimate:
    assert target is not None
    size = estimator.known(target)
    most = size[1]
    if len(node.args) > 1 and isinstance(node.args[1], Literal) and node.args[1].value.__class__ is int:
        most = node.args[1].value % (MOST + 1)
    return _traversed(size, 2 * TRAVERSAL), (0, most)


def _join(estimator: Sizes, _: Overload, node: Call, target: Node | None) -> Estimate:
    assert target is not None
    items, item = estimator.known(target), estimator.item_size(target)
    size = multiplied(items, item) if item is not None else exactly(0)
    if node.args:
        between = (max(items[0] - 1, 0), max(items[1] - 1, 0))
        size = added(size, multiplied(estimator.known(node.args[0]), between))
    return _traversed(size), size


def _regex(estimator: Sizes, overload: Overload, node: Call, target: Node | None) -> Estimate:
    if target is None:
        return 1, None
    size = estimator.known(target)
    cost = times(
        times(capped(size[1] + 1), TRAVERSAL),
        times(estimator.known(node.args[0])[1], _REGEX),
    )
    return cost, None if overload.name == "matches" else (0, size[1])


def _contains(estimator: Sizes, _: Overload, node: Call, target: Node | None) -> Estimate:
    assert target is not None
    return times(_traversed(estimator.known(target)), _traversed(estimator.known(node.args[0]))), None


def _edge(estimator: Sizes, _: Overload, node: Call, __: Node | None) -> Estimate:
    return _traversed(estimator.known(node.args[0])), None


def _format(estimator: Sizes, _: Overload, __: Call, target: Node | None) -> Estimate:
    assert target is not None
    return _traversed(estimator.known(target)), None


def _validated(estimator: Sizes, _: Overload, node: Call, __: Node | None) -> Estimate:
    return times(_traversed(estimator.known(node.args[0])), _FORMAT_REGEX * _REGEX), None


def _quote(estimator: Sizes, _: Overload, node: Call, __: Node | None) -> Estimate:
    size = estimator.known(node.args[0])
    # For an unknown size the sum overflows upstream and becomes small.
    return _traversed(size), (size[0] + 2, (size[1] * 2 + 2) % (MOST + 1))


def _string(estimator: Sizes, overload: Overload, node: Call, _: Node | None) -> Estimate:
    if overload.args[0].kind != "bytes":
        return 1, None
    size = estimator.known(node.args[0])
    return _traversed(size), (size[0] // 4, size[1])


def _bytes(estimator: Sizes, overload: Overload, node: Call, _: Node | None) -> Estimate:
    if overload.args[0].kind != "string":
        return 1, None
    size = estimator.known(node.args[0])
    # The product overflows upstream. No text that fits into a request comes near that.
    return _traversed(size), (size[0], size[1] * 4 % (MOST + 1))


def _made(factor: float, size: Range) -> Estimate:
    return capped(times(size[1], factor) + _ALLOCATED), size


def _number(node: Node, otherwise: int) -> int:
    if isinstance(node, Literal) and node.value.__class__ is int and node.value >= 0:
        return int(node.value)
    return otherwise


def _slice(estimator: Sizes, _: Overload, node: Call, target: Node | None) -> Estimate:
    assert target is not None
    most = estimator.known(target)[1]
    return _made(1, exactly(max(_number(node.args[1], most) - _number(node.args[0], 0), 0)))


def _range(_: Sizes, __: Overload, node: Call, ___: Node | None) -> Estimate:
    return _made(1, exactly(_number(node.args[0], MOST)))


def _reverse(estimator: Sizes, _: Overload, __: Call, target: Node | None) -> Estimate:
    assert target is not None
    return _made(1, estimator.known(target))


def _flatten(estimator: Sizes, _: Overload, node: Call, target: Node | None) -> Estimate:
    assert target is not None
    return _made(_number(node.args[0], MOST) if node.args else 1, estimator.known(target))


def _distinct(estimator: Sizes, overload: Overload, _: Call, target: Node | None) -> Estimate:
    assert target is not None
    size = estimator.known(target)
    texts = overload.name == "sort" and overload.args[0].params[0].kind in ("string", "bytes")
    return _made(2.1 if texts else 2.0, multiplied(size, size))


def _sets(estimator: Sizes, overload: Overload, node: Call, _: Node | None) -> Estimate:
    size = multiplied(estimator.known(node.args[0]), estimator.known(node.args[1]))
    return capped(times(size[1], 2.0 if overload.name == "sets.equivalent" else 1.0) + 1), None


_Rule = Callable[[Sizes, Overload, Call, Node | None], Estimate]
_BY_NAME: dict[str, _Rule] = {
    **dict.fromkeys(_COMPARISONS, _compared),
    **dict.fromkeys(_READ_LISTS, _read_list),
    **dict.fromkeys(_SAME_SIZE, _same_size),
    **dict.fromkeys(_READ, _read),
    "url": _same_size,
    "ip.isCanonical": _canonical,
    "containsIP": _contained,
    "containsCIDR": _contained,
    "_+_": _added,
    "@in": _in,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "matches": _regex,
    "find": _regex,
    "findAll": _regex,
    "contains": _contains,
    "startsWith": _edge,
    "endsWith": _edge,
    "format": _format,
    "validate": _validated,
    "strings.quote": _quote,
    "string": _string,
    "bytes": _bytes,
    "slice": _slice,
    "lists.range": _range,
    "reverse": _reverse,
    "flatten": _flatten,
    "distinct": _distinct,
    "sort": _distinct,
    "sets.contains": _sets,
    "sets.intersects": _sets,
    "sets.equivalent": _sets,
}
