"""Estimates the worst-case cost of an expression before any value is known. Kubernetes rejects rules that cost too
much.

Follows cel-go's estimate and Kubernetes' additions to it, whose numbers decide which rules a cluster accepts. Macros
are counted as the expressions cel-go expands them to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shoal.objects.cel.checker import Checked
from shoal.objects.cel.estimate_calls import call_estimate
from shoal.objects.cel.ranges import UNKNOWN, Range, capped, exactly, multiplied, times, union
from shoal.objects.cel.syntax import (
    Call,
    Choice,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    Logic,
    MapLiteral,
    Node,
    Select,
)
from shoal.objects.cel.types import SCALARS, Type

Path = tuple[str, ...]
SizeAt = Callable[[Path], int | None]
"""Returns the maximum size of the value at a path: `("spec", "names", "@items")`."""

_LIST, _MAP = 10, 30
_ACCUMULATOR = exactly(0)


@dataclass(frozen=True, slots=True)
class Entries:
    """Sizes of the items of a list or map constructed by the expression."""

    over: str
    key: Range
    value: Range

    def union(self, other: Entries | None) -> Entries | None:
        if other is None:
            return None
        return Entries(self.over, union(self.key, other.key), union(self.value, other.value))


@dataclass(frozen=True, slots=True)
class _Local:
    path: Path
    size: Range | None


def estimate(checked: Checked, size_at: SizeAt) -> int:
    return _Estimator(checked, size_at).cost(checked.root)


class _Estimator:
    def __init__(self, checked: Checked, size_at: SizeAt) -> None:
        self.checked = checked
        self.size_at = size_at
        self.paths: dict[int, Path] = {}
        self.sizes: dict[int, Range] = {}
        self.entries: dict[int, Entries] = {}
        self.locals: list[dict[str, _Local]] = []

    def kind(self, node: Node) -> Type:
        return self.checked.types[id(node)]

    def local(self, name: str) -> _Local | None:
        return next((scope[name] for scope in reversed(self.locals) if name in scope), None)

    def path(self, node: Node) -> Path:
        if isinstance(node, Ident) and (found := self.local(node.name)):
            return found.path
        return self.paths.get(id(node), ())

    def sized(self, path: Path) -> Range | None:
        most = self.size_at(path[1:]) if path else None
        return None if most is None else (0, most)

    def size(self, node: Node) -> Range | None:
        if (known := self.sizes.get(id(node))) is not None:
            return known
        if isinstance(node, Literal):
            return exactly(len(node.value) if isinstance(node.value, (str, bytes)) else 1)
        if isinstance(node, (ListLiteral, MapLiteral)):
            return exactly(len(node.items if isinstance(node, ListLiteral) else node.entries))
        if (found := self.sized(self.path(node))) is not None:
            self.sizes[id(node)] = found
            return found
        if is_scalar(self.kind(node)):
            return exactly(1)
        local = self.local(node.name) if isinstance(node, Ident) else None
        return local.size if local else None

    def item_size(self, node: Node) -> Range | None:
        """Returns the size of a list's items, for calls that read them. None if the items have no type."""
        params = self.kind(node).params
        if not params:
            return None
        path = self.path(node)
        return (self.sized((*path, "@items")) if path else None) or UNKNOWN

    def cost(self, node: Node) -> int:
        if isinstance(node, Literal):
            return 0
        if (name := self.checked.constants.get(id(node))) is not None:
            self.paths[id(node)] = (name,)
            return 1
        if isinstance(node, Ident):
            found = self.local(node.name)
            self.paths[id(node)] = found.path if found else (node.name,)
            return 1
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, Logic):
            return capped(sum(self.cost(term) for term in node.terms))
        if isinstance(node, Choice):
            return self._choice(node)
        if isinstance(node, ListLiteral):
            return self._list(node)
        if isinstance(node, MapLiteral):
            return self._map(node)
        assert isinstance(node, Fold)
        return capped(self._fold(node))

    def _select(self, node: Select) -> int:
        cost = self.cost(node.operand)
        if node.test:
            return cost
        if node.optional:
            return capped(cost + 1)
        self.paths[id(node)] = (*self.path(node.operand), node.field)
        return capped(cost + 1) if self.kind(node.operand).kind in ("map", "object", "param") else cost

    def _call(self, node: Call) -> int:
        namespaced = id(node) in self.checked.namespaced
        target = None if namespaced else node.target
        given = sum(self.cost(arg) for arg in node.args) + (0 if target is None else self.cost(target))
        overloads = self.checked.calls[id(node)]
        name = overloads[0].name
        if name == "dyn":
            self._copy(node, node.args[0])
            return capped(given + 1)
        worst, result = 0, None
        for overload in overloads:
            cost, size = call_estimate(self, overload, node, target)
            worst = max(worst, cost)
            result = size if result is None else union(result, size) if size else result
            if name == "_[_]" and overload.args[0].kind in ("list", "map"):
                entries = self.entries.get(id(node.args[0]))
                result = entries.value if entries else None
                step = "@items" if overload.args[0].kind == "list" else "@values"
                self.paths[id(node)] = (*self.path(node.args[0]), step)
            result = self.size(node) if result is None else result
        if result is not None:
            self.sizes[id(node)] = result
        if name == "_+_":
            self._join(node, *node.args)
        return capped(given + worst)

    def _copy(self, node: Node, source: Node) -> None:
        if (size := self.size(source)) is not None:
            self.sizes[id(node)] = size
        if (entries := self.entries.get(id(source))) is not None:
            self.entries[id(node)] = entries

    def _join(self, node: Node, first: Node, second: Node) -> None:
        one, other = self.entries.get(id(first)), self.entries.get(id(second))
        if one is not None and (joined := one.union(other)) is not None:
            self.entries[id(node)] = joined

    def _choice(self, node: Choice) -> int:
        condition, yes, no = (self.cost(part) for part in (node.condition, node.yes, node.no))
        self.sizes[id(node)] = union(self.known(node.yes), self.known(node.no))
        self._join(node, node.yes, node.no)
        return capped(condition + max(yes, no))

    def known(self, node: Node) -> Range:
        return self.size(node) or UNKNOWN

    def _spread(self, nodes: list[Node]) -> Range:
        spread: Range | None = None
        for node in nodes:
            spread = self.known(node) if spread is None else union(spread, self.known(node))
        return spread or exactly(0)

    def _list(self, node: ListLiteral) -> int:
        items = [item for item, _ in node.items]
        cost = sum(map(self.cost, items)) + _LIST
        self.entries[id(node)] = Entries("list", exactly(1), self._spread(items))
        return capped(cost)

    def _map(self, node: MapLiteral) -> int:
        keys, values = [key for key, _, _ in node.entries], [value for _, value, _ in node.entries]
        cost = sum(map(self.cost, keys + values)) + _MAP
        self.entries[id(node)] = Entries("map", self._spread(keys), self._spread(values))
        return capped(cost)

    def _variables(self, node: Fold) -> dict[str, _Local]:
        entries, path = self.entries.get(id(node.range)), self.path(node.range)
        over = entries.over if entries else self.kind(node.range).kind
        key, value = (entries.key, entries.value) if entries else (None, None)
        if len(node.names) == 2:
            steps = ("@indices", "@items") if over == "list" else ("@keys", "@values")
            return {node.names[0]: _Local((*path, steps[0]), key), node.names[1]: _Local((*path, steps[1]), value)}
        if over == "list":
            return {node.names[0]: _Local((*path, "@items"), value)}
        return {node.names[0]: _Local((*path, "@keys"), key)}

    def _fold(self, node: Fold) -> int:
        over = self.cost(node.range)
        if node.macro in ("optMap", "optFlatMap"):
            self.locals.append({node.names[0]: _Local((), None)})
            inner = self.cost(node.args[0])
            self.locals.pop()
            return over + 1 + (1 if node.macro == "optMap" else 0) + _LIST + over + 1 + inner
        rounds = self.known(node.range)
        self.locals.append(self._variables(node))
        args = [self.cost(arg) for arg in node.args]
        sizes = [self.size(arg) for arg in node.args]
        held = next(iter(self.locals.pop().values()))
        before, per_round, after = self._shape(node, args)
        size, value = exactly(1), sizes[-1]
        if node.macro in ("map", "filter", "transformList", "transformMap", "transformMapEntry"):
            size = rounds
        if node.macro == "filter":
            value = self.sized(held.path) or held.size
        if node.macro in ("map", "filter", "transformList"):
            self.entries[id(node)] = Entries("list", exactly(1), union(_ACCUMULATOR, value or UNKNOWN))
        self.sizes[id(node)] = size
        total = over + before + times(rounds[1], per_round) + after
        if node.macro == "sortBy":
            factor = 2.1 if self.kind(node.args[0]).kind in ("string", "bytes") else 2.0
            self.sizes[id(node)] = multiplied(rounds, rounds)
            total += _LIST + 2 + capped(times(rounds[1], rounds[1]) * factor) + 1 + _LIST
        return total

    def _shape(self, node: Fold, args: list[int]) -> tuple[int, int, int]:
        """Returns the costs before the loop, per iteration, and after the loop."""
        value, condition = args[-1], args[0] if len(args) == 2 else 0
        return {
            "all": (0, 3 + value, 1),
            "exists": (0, 4 + value, 1),
            "exists_one": (0, 2 + value, 2),
            "filter": (_LIST, 13 + value, 1),
            "map": (_LIST, 12 + value + condition, 1),
            "transformList": (_LIST, 12 + value + condition, 1),
            "transformMap": (_MAP, 3 + value + condition, 1),
            "transformMapEntry": (_MAP, 2 + value + condition, 1),
            "sortBy": (_LIST, 12 + value, 1),
        }[node.macro]


def is_scalar(given: Type) -> bool:
    return given.kind in SCALARS or (given.kind == "optional_type" and is_scalar(given.params[0]))
