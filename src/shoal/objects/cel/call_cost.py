"""Worst-case cost of one call without its arguments, and the maximum size of its result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from shoal.objects.cel.ast import CallExpr, ExprNode, LiteralExpr
from shoal.objects.cel.overloads import TRAVERSAL_COST, Overload
from shoal.objects.cel.size_ranges import (
    MAX_UINT64,
    SizeRange,
    add_ranges,
    fixed_size,
    multiply_ranges,
    saturate,
    scale_size,
)
from shoal.objects.cel.types import CELType

CallEstimate = tuple[int, SizeRange | None]
_REGEX_COST = 0.25
_LIST_RESULT_COST = 11
_FORMAT_REGEX_LENGTH = 128
_COMPARISONS = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
_LIST_READERS = frozenset({"isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"})
_SAME_SIZE_FUNCTIONS = frozenset({"lowerAscii", "upperAscii", "substring", "trim"})
_PARSE_FUNCTIONS = frozenset({"cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"})
_OPAQUE_KINDS = ("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver")
_MAX_ADDRESS_BYTES = 16
"""Bytes of the longest address."""


class ArgumentSizes(Protocol):
    """Known types and sizes of the arguments."""

    def type_of(self, node: ExprNode) -> CELType: ...

    def size(self, node: ExprNode) -> SizeRange | None: ...

    def size_or_unknown(self, node: ExprNode) -> SizeRange: ...

    def item_size(self, node: ExprNode) -> SizeRange | None: ...


def estimate_call(
    estimator: ArgumentSizes, overload: Overload, node: CallExpr, target: ExprNode | None
) -> CallEstimate:
    estimate = _BY_NAME.get(overload.name)
    return estimate(estimator, overload, node, target) if estimate else (1, None)


def _traversal_cost(size: SizeRange, factor: float = TRAVERSAL_COST) -> int:
    return scale_size(size[1], factor)


def _comparison(estimator: ArgumentSizes, overload: Overload, node: CallExpr, _: ExprNode | None) -> CallEstimate:
    kinds = [estimator.type_of(arg) for arg in node.args]
    if overload.name == "_==_" and kinds[0].kind == kinds[1].kind:
        if kinds[0].kind in _OPAQUE_KINDS:
            return 1, None
        if kinds[0].kind == "kubernetes.NamedFormat":
            return scale_size(64, TRAVERSAL_COST), None
        if kinds[0].kind == "kubernetes.URL":
            size = estimator.size(node.args[1])
            return _traversal_cost(size if size is not None else fixed_size(1)), None
    if overload.name not in ("_==_", "_!=_") and overload.args[0].kind not in ("string", "bytes"):
        return 1, None
    shortest = min(estimator.size_or_unknown(arg)[1] for arg in node.args)
    return scale_size(shortest, TRAVERSAL_COST), None


def _add(estimator: ArgumentSizes, overload: Overload, node: CallExpr, _: ExprNode | None) -> CallEstimate:
    if overload.args[0].kind not in ("string", "bytes", "list"):
        return 1, None
    size = add_ranges(estimator.size_or_unknown(node.args[0]), estimator.size_or_unknown(node.args[1]))
    return (1 if overload.args[0].kind == "list" else _traversal_cost(size)), size


def _in(estimator: ArgumentSizes, overload: Overload, node: CallExpr, _: ExprNode | None) -> CallEstimate:
    return (estimator.size_or_unknown(node.args[1])[1] if overload.args[1].kind == "list" else 1), None


def _read_list(estimator: ArgumentSizes, _: Overload, __: CallExpr, target: ExprNode | None) -> CallEstimate:
    if target is None:
        return 1, None
    size = estimator.size_or_unknown(target)
    item = estimator.item_size(target)
    if item is None:
        return _traversal_cost(size), None
    texts = estimator.type_of(target).params[0].kind in ("string", "bytes")
    return scale_size(size[1], 1 + (_traversal_cost(item) if texts else 0)), None


def _same_size(estimator: ArgumentSizes, _: Overload, node: CallExpr, target: ExprNode | None) -> CallEstimate:
    size = estimator.size_or_unknown(target if target is not None else node.args[0])
    return _traversal_cost(size), size


def _parse(estimator: ArgumentSizes, overload: Overload, node: CallExpr, target: ExprNode | None) -> CallEstimate:
    if overload.is_member:
        return 1, None
    return _traversal_cost(estimator.size_or_unknown(node.args[0])), None


def _canonical(estimator: ArgumentSizes, _: Overload, node: CallExpr, __: ExprNode | None) -> CallEstimate:
    return _traversal_cost(estimator.size_or_unknown(node.args[0]), 2 * TRAVERSAL_COST), None


def _contains_address(estimator: ArgumentSizes, overload: Overload, node: CallExpr, _: ExprNode | None) -> CallEstimate:
    cost = scale_size(2 * _MAX_ADDRESS_BYTES, TRAVERSAL_COST)
    if overload.name == "containsCIDR":
        cost += scale_size(_MAX_ADDRESS_BYTES, TRAVERSAL_COST) + 1
    if overload.args[1].kind == "string":
        cost += _traversal_cost(estimator.size_or_unknown(node.args[0]))
    return saturate(cost), None


def _replace(estimator: ArgumentSizes, _: Overload, node: CallExpr, target: ExprNode | None) -> CallEstimate:
    assert target is not None
    size, old, new = (estimator.size_or_unknown(part) for part in (target, *node.args[:2]))
    cost = _traversal_cost(size, 2 * TRAVERSAL_COST)
    count_most = kept_most = count_least = kept_least = 0
    if old[0] == 0:
        count_most, kept_most = saturate(size[1] + 1), size[1]
    elif new[1] <= old[0]:
        kept_most = size[1]
    else:
        count_most = math.ceil(size[1] / old[0])
    if old[1] == 0:
        count_least, kept_least = saturate(size[0] + 1), size[0]
    elif old[1] <= new[0]:
        kept_least = size[0]
    else:
        count_least = math.ceil(size[0] / old[1])
    return cost, add_ranges(multiply_ranges((count_least, count_most), new), (kept_least, kept_most))


def _split(estimator: ArgumentSizes, _: Overload, node: CallExpr, target: ExprNode | None) -> CallEstimate:
    assert target is not None
    size = estimator.size_or_unknown(target)
    most = size[1]
    if len(node.args) > 1 and isinstance(node.args[1], LiteralExpr) and node.args[1].value.__class__ is int:
        most = node.args[1].value % (MAX_UINT64 + 1)
    return _traversal_cost(size, 2 * TRAVERSAL_COST), (0, most)


def _join(estimator: ArgumentSizes, _: Overload, node: CallExpr, target: ExprNode | None) -> CallEstimate:
    assert target is not None
    items, item = estimator.size_or_unknown(target), estimator.item_size(target)
    size = multiply_ranges(items, item) if item is not None else fixed_size(0)
    if node.args:
        between = (max(items[0] - 1, 0), max(items[1] - 1, 0))
        size = add_ranges(size, multiply_ranges(estimator.size_or_unknown(node.args[0]), between))
    return _traversal_cost(size), size


def _regex(estimator: ArgumentSizes, overload: Overload, node: CallExpr, target: ExprNode | None) -> CallEstimate:
    if target is None:
        return 1, None
    size = estimator.size_or_unknown(target)
    cost = scale_size(
        scale_size(saturate(size[1] + 1), TRAVERSAL_COST),
        scale_size(estimator.size_or_unknown(node.args[0])[1], _REGEX_COST),
    )
    return cost, None if overload.name == "matches" else (0, size[1])


def _contains(estimator: ArgumentSizes, _: Overload, node: CallExpr, target: ExprNode | None) -> CallEstimate:
    assert target is not None
    return scale_size(
        _traversal_cost(estimator.size_or_unknown(target)), _traversal_cost(estimator.size_or_unknown(node.args[0]))
    ), None


def _starts_or_ends_with(estimator: ArgumentSizes, _: Overload, node: CallExpr, __: ExprNode | None) -> CallEstimate:
    return _traversal_cost(estimator.size_or_unknown(node.args[0])), None


def _format(estimator: ArgumentSizes, _: Overload, __: CallExpr, target: ExprNode | None) -> CallEstimate:
    assert target is not None
    return _traversal_cost(estimator.size_or_unknown(target)), None


def _validate(estimator: ArgumentSizes, _: Overload, node: CallExpr, __: ExprNode | None) -> CallEstimate:
    return scale_size(
        _traversal_cost(estimator.size_or_unknown(node.args[0])), _FORMAT_REGEX_LENGTH * _REGEX_COST
    ), None


def _quote(estimator: ArgumentSizes, _: Overload, node: CallExpr, __: ExprNode | None) -> CallEstimate:
    size = estimator.size_or_unknown(node.args[0])
    # For an unknown size the sum overflows upstream and becomes small.
    return _traversal_cost(size), (size[0] + 2, (size[1] * 2 + 2) % (MAX_UINT64 + 1))


def _string(estimator: ArgumentSizes, overload: Overload, node: CallExpr, _: ExprNode | None) -> CallEstimate:
    if overload.args[0].kind != "bytes":
        return 1, None
    size = estimator.size_or_unknown(node.args[0])
    return _traversal_cost(size), (size[0] // 4, size[1])


def _bytes(estimator: ArgumentSizes, overload: Overload, node: CallExpr, _: ExprNode | None) -> CallEstimate:
    if overload.args[0].kind != "string":
        return 1, None
    size = estimator.size_or_unknown(node.args[0])
    # The product overflows upstream. No text that fits into a request comes near that.
    return _traversal_cost(size), (size[0], size[1] * 4 % (MAX_UINT64 + 1))


def _allocate(factor: float, size: SizeRange) -> CallEstimate:
    return saturate(scale_size(size[1], factor) + _LIST_RESULT_COST), size


def _literal_int(node: ExprNode, otherwise: int) -> int:
    if isinstance(node, LiteralExpr) and node.value.__class__ is int and node.value >= 0:
        return int(node.value)
    return otherwise


def _slice(estimator: ArgumentSizes, _: Overload, node: CallExpr, target: ExprNode | None) -> CallEstimate:
    assert target is not None
    most = estimator.size_or_unknown(target)[1]
    return _allocate(1, fixed_size(max(_literal_int(node.args[1], most) - _literal_int(node.args[0], 0), 0)))


def _range(_: ArgumentSizes, __: Overload, node: CallExpr, ___: ExprNode | None) -> CallEstimate:
    return _allocate(1, fixed_size(_literal_int(node.args[0], MAX_UINT64)))


def _reverse(estimator: ArgumentSizes, _: Overload, __: CallExpr, target: ExprNode | None) -> CallEstimate:
    assert target is not None
    return _allocate(1, estimator.size_or_unknown(target))


def _flatten(estimator: ArgumentSizes, _: Overload, node: CallExpr, target: ExprNode | None) -> CallEstimate:
    assert target is not None
    return _allocate(_literal_int(node.args[0], MAX_UINT64) if node.args else 1, estimator.size_or_unknown(target))


def _distinct(estimator: ArgumentSizes, overload: Overload, _: CallExpr, target: ExprNode | None) -> CallEstimate:
    assert target is not None
    size = estimator.size_or_unknown(target)
    texts = overload.name == "sort" and overload.args[0].params[0].kind in ("string", "bytes")
    return _allocate(2.1 if texts else 2.0, multiply_ranges(size, size))


def _sets(estimator: ArgumentSizes, overload: Overload, node: CallExpr, _: ExprNode | None) -> CallEstimate:
    size = multiply_ranges(estimator.size_or_unknown(node.args[0]), estimator.size_or_unknown(node.args[1]))
    return saturate(scale_size(size[1], 2.0 if overload.name == "sets.equivalent" else 1.0) + 1), None


_EstimateFunc = Callable[[ArgumentSizes, Overload, CallExpr, ExprNode | None], CallEstimate]
_BY_NAME: dict[str, _EstimateFunc] = {
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys(_LIST_READERS, _read_list),
    **dict.fromkeys(_SAME_SIZE_FUNCTIONS, _same_size),
    **dict.fromkeys(_PARSE_FUNCTIONS, _parse),
    "url": _same_size,
    "ip.isCanonical": _canonical,
    "containsIP": _contains_address,
    "containsCIDR": _contains_address,
    "_+_": _add,
    "@in": _in,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "matches": _regex,
    "find": _regex,
    "findAll": _regex,
    "contains": _contains,
    "startsWith": _starts_or_ends_with,
    "endsWith": _starts_or_ends_with,
    "format": _format,
    "validate": _validate,
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
