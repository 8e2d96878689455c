"""Estimates the worst-case cost of an expression before any value is known. Kubernetes rejects rules that cost too
much.

Follows cel-go's estimate and Kubernetes' additions to it, whose numbers decide which rules a cluster accepts. Macros
are counted as the expressions cel-go expands them to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shoal.objects.cel.ast import (
    CallExpr,
    ComprehensionExpr,
    ConditionalExpr,
    ExprNode,
    IdentExpr,
    ListExpr,
    LiteralExpr,
    LogicExpr,
    MapExpr,
    SelectExpr,
)
from shoal.objects.cel.call_cost import estimate_call
from shoal.objects.cel.checker import CheckedExpr
from shoal.objects.cel.size_ranges import (
    UNKNOWN_SIZE,
    SizeRange,
    fixed_size,
    multiply_ranges,
    saturate,
    scale_size,
    union_ranges,
)
from shoal.objects.cel.types import SCALARS, CELType

SizePath = tuple[str, ...]
SizeProvider = Callable[[SizePath], int | None]
"""Returns the maximum size of the value at a path: `("spec", "names", "@items")`."""

_LIST_COST, _MAP_COST = 10, 30
_ACCUMULATOR_SIZE = fixed_size(0)


@dataclass(frozen=True, slots=True)
class EntrySizes:
    """Sizes of the items of a list or map constructed by the expression."""

    container: str
    key: SizeRange
    value: SizeRange

    def union(self, other: EntrySizes | None) -> EntrySizes | None:
        if other is None:
            return None
        return EntrySizes(self.container, union_ranges(self.key, other.key), union_ranges(self.value, other.value))


@dataclass(frozen=True, slots=True)
class _LocalVariable:
    path: SizePath
    size: SizeRange | None


def estimate_cost(checked: CheckedExpr, size_at: SizeProvider) -> int:
    return _CostEstimator(checked, size_at).cost(checked.root)


class _CostEstimator:
    def __init__(self, checked: CheckedExpr, size_at: SizeProvider) -> None:
        self.checked = checked
        self.size_at = size_at
        self.paths: dict[int, SizePath] = {}
        self.sizes: dict[int, SizeRange] = {}
        self.entries: dict[int, EntrySizes] = {}
        self.locals: list[dict[str, _LocalVariable]] = []

    def type_of(self, node: ExprNode) -> CELType:
        return self.checked.types[id(node)]

    def find_local(self, name: str) -> _LocalVariable | None:
        return next((scope[name] for scope in reversed(self.locals) if name in scope), None)

    def path_of(self, node: ExprNode) -> SizePath:
        if isinstance(node, IdentExpr) and (found := self.find_local(node.name)):
            return found.path
        return self.paths.get(id(node), ())

    def size_at_path(self, path: SizePath) -> SizeRange | None:
        most = self.size_at(path[1:]) if path else None
        return None if most is None else (0, most)

    def size(self, node: ExprNode) -> SizeRange | None:
        if (known := self.sizes.get(id(node))) is not None:
            return known
        if isinstance(node, LiteralExpr):
            return fixed_size(len(node.value) if isinstance(node.value, (str, bytes)) else 1)
        if isinstance(node, (ListExpr, MapExpr)):
            return fixed_size(len(node.items if isinstance(node, ListExpr) else node.entries))
        if (found := self.size_at_path(self.path_of(node))) is not None:
            self.sizes[id(node)] = found
            return found
        if is_scalar(self.type_of(node)):
            return fixed_size(1)
        local = self.find_local(node.name) if isinstance(node, IdentExpr) else None
        return local.size if local else None

    def item_size(self, node: ExprNode) -> SizeRange | None:
        """Returns the size of a list's items, for calls that read them. None if the items have no type."""
        params = self.type_of(node).params
        if not params:
            return None
        path = self.path_of(node)
        return (self.size_at_path((*path, "@items")) if path else None) or UNKNOWN_SIZE

    def cost(self, node: ExprNode) -> int:
        if isinstance(node, LiteralExpr):
            return 0
        if (name := self.checked.type_names.get(id(node))) is not None:
            self.paths[id(node)] = (name,)
            return 1
        if isinstance(node, IdentExpr):
            found = self.find_local(node.name)
            self.paths[id(node)] = found.path if found else (node.name,)
            return 1
        if isinstance(node, SelectExpr):
            return self._select_cost(node)
        if isinstance(node, CallExpr):
            return self._call_cost(node)
        if isinstance(node, LogicExpr):
            return saturate(sum(self.cost(term) for term in node.terms))
        if isinstance(node, ConditionalExpr):
            return self._conditional_cost(node)
        if isinstance(node, ListExpr):
            return self._list_cost(node)
        if isinstance(node, MapExpr):
            return self._map_cost(node)
        assert isinstance(node, ComprehensionExpr)
        return saturate(self._comprehension_cost(node))

    def _select_cost(self, node: SelectExpr) -> int:
        cost = self.cost(node.operand)
        if node.test_only:
            return cost
        if node.optional:
            return saturate(cost + 1)
        self.paths[id(node)] = (*self.path_of(node.operand), node.field)
        return saturate(cost + 1) if self.type_of(node.operand).kind in ("map", "object", "param") else cost

    def _call_cost(self, node: CallExpr) -> int:
        namespaced = id(node) in self.checked.namespaced_calls
        target = None if namespaced else node.target
        args_cost = sum(self.cost(arg) for arg in node.args) + (0 if target is None else self.cost(target))
        overloads = self.checked.calls[id(node)]
        name = overloads[0].name
        if name == "dyn":
            self._copy_sizes(node, node.args[0])
            return saturate(args_cost + 1)
        worst, result = 0, None
        for overload in overloads:
            cost, size = estimate_call(self, overload, node, target)
            worst = max(worst, cost)
            result = size if result is None else union_ranges(result, size) if size else result
            if name == "_[_]" and overload.args[0].kind in ("list", "map"):
                entries = self.entries.get(id(node.args[0]))
                result = entries.value if entries else None
                step = "@items" if overload.args[0].kind == "list" else "@values"
                self.paths[id(node)] = (*self.path_of(node.args[0]), step)
            result = self.size(node) if result is None else result
        if result is not None:
            self.sizes[id(node)] = result
        if name == "_+_":
            self._join_entries(node, *node.args)
        return saturate(args_cost + worst)

    def _copy_sizes(self, node: ExprNode, source: ExprNode) -> None:
        if (size := self.size(source)) is not None:
            self.sizes[id(node)] = size
        if (entries := self.entries.get(id(source))) is not None:
            self.entries[id(node)] = entries

    def _join_entries(self, node: ExprNode, first: ExprNode, second: ExprNode) -> None:
        one, other = self.entries.get(id(first)), self.entries.get(id(second))
        if one is not None and (joined := one.union(other)) is not None:
            self.entries[id(node)] = joined

    def _conditional_cost(self, node: ConditionalExpr) -> int:
        condition, yes, no = (self.cost(part) for part in (node.condition, node.if_true, node.if_false))
        self.sizes[id(node)] = union_ranges(self.size_or_unknown(node.if_true), self.size_or_unknown(node.if_false))
        self._join_entries(node, node.if_true, node.if_false)
        return saturate(condition + max(yes, no))

    def size_or_unknown(self, node: ExprNode) -> SizeRange:
        return self.size(node) or UNKNOWN_SIZE

    def _union_sizes(self, nodes: list[ExprNode]) -> SizeRange:
        spread: SizeRange | None = None
        for node in nodes:
            spread = self.size_or_unknown(node) if spread is None else union_ranges(spread, self.size_or_unknown(node))
        return spread or fixed_size(0)

    def _list_cost(self, node: ListExpr) -> int:
        items = [item for item, _ in node.items]
        cost = sum(map(self.cost, items)) + _LIST_COST
        self.entries[id(node)] = EntrySizes("list", fixed_size(1), self._union_sizes(items))
        return saturate(cost)

    def _map_cost(self, node: MapExpr) -> int:
        keys, values = [key for key, _, _ in node.entries], [value for _, value, _ in node.entries]
        cost = sum(map(self.cost, keys + values)) + _MAP_COST
        self.entries[id(node)] = EntrySizes("map", self._union_sizes(keys), self._union_sizes(values))
        return saturate(cost)

    def _variables(self, node: ComprehensionExpr) -> dict[str, _LocalVariable]:
        entries, path = self.entries.get(id(node.iter_range)), self.path_of(node.iter_range)
        over = entries.container if entries else self.type_of(node.iter_range).kind
        key, value = (entries.key, entries.value) if entries else (None, None)
        if len(node.iter_vars) == 2:
            steps = ("@indices", "@items") if over == "list" else ("@keys", "@values")
            return {
                node.iter_vars[0]: _LocalVariable((*path, steps[0]), key),
                node.iter_vars[1]: _LocalVariable((*path, steps[1]), value),
            }
        if over == "list":
            return {node.iter_vars[0]: _LocalVariable((*path, "@items"), value)}
        return {node.iter_vars[0]: _LocalVariable((*path, "@keys"), key)}

    def _comprehension_cost(self, node: ComprehensionExpr) -> int:
        range_cost = self.cost(node.iter_range)
        if node.macro in ("optMap", "optFlatMap"):
            self.locals.append({node.iter_vars[0]: _LocalVariable((), None)})
            inner = self.cost(node.args[0])
            self.locals.pop()
            return range_cost + 1 + (1 if node.macro == "optMap" else 0) + _LIST_COST + range_cost + 1 + inner
        rounds = self.size_or_unknown(node.iter_range)
        self.locals.append(self._variables(node))
        args = [self.cost(arg) for arg in node.args]
        sizes = [self.size(arg) for arg in node.args]
        first_variable = next(iter(self.locals.pop().values()))
        before, per_round, after = self._loop_costs(node, args)
        size, value = fixed_size(1), sizes[-1]
        if node.macro in ("map", "filter", "transformList", "transformMap", "transformMapEntry"):
            size = rounds
        if node.macro == "filter":
            value = self.size_at_path(first_variable.path) or first_variable.size
        if node.macro in ("map", "filter", "transformList"):
            self.entries[id(node)] = EntrySizes(
                "list", fixed_size(1), union_ranges(_ACCUMULATOR_SIZE, value or UNKNOWN_SIZE)
            )
        self.sizes[id(node)] = size
        total = range_cost + before + scale_size(rounds[1], per_round) + after
        if node.macro == "sortBy":
            factor = 2.1 if self.type_of(node.args[0]).kind in ("string", "bytes") else 2.0
            self.sizes[id(node)] = multiply_ranges(rounds, rounds)
            total += _LIST_COST + 2 + saturate(scale_size(rounds[1], rounds[1]) * factor) + 1 + _LIST_COST
        return total

    def _loop_costs(self, node: ComprehensionExpr, args: list[int]) -> tuple[int, int, int]:
        """Returns the costs before the loop, per iteration, and after the loop."""
        value, condition = args[-1], args[0] if len(args) == 2 else 0
        return {
            "all": (0, 3 + value, 1),
            "exists": (0, 4 + value, 1),
            "exists_one": (0, 2 + value, 2),
            "filter": (_LIST_COST, 13 + value, 1),
            "map": (_LIST_COST, 12 + value + condition, 1),
            "transformList": (_LIST_COST, 12 + value + condition, 1),
            "transformMap": (_MAP_COST, 3 + value + condition, 1),
            "transformMapEntry": (_MAP_COST, 2 + value + condition, 1),
            "sortBy": (_LIST_COST, 12 + value, 1),
        }[node.macro]


def is_scalar(given: CELType) -> bool:
    return given.kind in SCALARS or (given.kind == "optional_type" and is_scalar(given.params[0]))
