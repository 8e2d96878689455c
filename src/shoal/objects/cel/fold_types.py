"""Type checks comprehensions: the types of their variables and of their result."""

from __future__ import annotations

from typing import Protocol

from shoal.objects.cel.library.lists import COMPARABLE
from shoal.objects.cel.syntax import Fold, Node
from shoal.objects.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    Bindings,
    Type,
    all_fit,
    fits,
    is_open,
    list_of,
    map_of,
    optional_of,
    substituted,
)


class Checker(Protocol):
    """The running check."""

    bound: Bindings
    scopes: list[dict[str, Type]]

    def type_of(self, node: Node) -> Type: ...

    def resolved(self, given: Type) -> Type: ...

    def fresh(self) -> Type: ...

    def shown(self, given: Type) -> str: ...

    def fail(self, at: int, message: str) -> Type: ...

    def expect_bool(self, node: Node, given: Type) -> None: ...

    def no_overload(self, node: Node, name: str, args: list[Type], member: bool = False) -> Type: ...


def fold_type(checker: Checker, node: Fold) -> Type:
    over = checker.resolved(checker.type_of(node.range))
    if node.macro in ("optMap", "optFlatMap"):
        return _optional(checker, node, over)
    names = _variables(checker, node, over)
    checker.scopes.append(dict(zip(node.names, names, strict=True)))
    args = [checker.type_of(arg) for arg in node.args]
    checker.scopes.pop()
    return _result(checker, node, names, args)


def _optional(checker: Checker, node: Fold, over: Type) -> Type:
    held: Type = DYN
    if over.kind == "optional_type":
        held = over.params[0]
    elif not is_open(over):
        return checker.no_overload(node, "hasValue", [over], member=True)
    checker.scopes.append({node.names[0]: held})
    given = checker.type_of(node.args[0])
    checker.scopes.pop()
    if node.macro == "optMap":
        return optional_of(given)
    wanted = optional_of(checker.fresh())
    if not fits(checker.bound, given, wanted):
        return checker.no_overload(node, "_?_:_", [BOOL, given, wanted])
    return substituted(checker.bound, wanted)


def _variables(checker: Checker, node: Fold, over: Type) -> list[Type]:
    two = len(node.names) == 2
    if over.kind == "list":
        return [INT, over.params[0]] if two else [over.params[0]]
    if over.kind == "map":
        return list(over.params) if two else [over.params[0]]
    if is_open(over):
        fits(checker.bound, DYN, over)
        return [DYN] * len(node.names)
    told = f"expression of type '{checker.shown(over)}' cannot be range of a comprehension"
    checker.fail(node.range.at, f"{told} (must be list, map, or dynamic)")
    return [ERROR] * len(node.names)


def _result(checker: Checker, node: Fold, names: list[Type], args: list[Type]) -> Type:
    macro = node.macro
    if macro in ("all", "exists"):
        checker.expect_bool(node.args[0], args[0])
        return BOOL
    given = args[-1]
    if macro == "exists_one":
        _condition(checker, node, args[0], INT)
        return BOOL
    if macro == "filter":
        _condition(checker, node, args[0], list_of(names[0]))
        return list_of(names[0])
    if macro == "sortBy":
        kind = checker.resolved(given)
        if not is_open(kind) and kind.kind not in {known.kind for known in COMPARABLE}:
            return checker.no_overload(node, "@sortByAssociatedKeys", [list_of(names[0]), list_of(given)], member=True)
        return list_of(names[0])
    result = _transformed(checker, node, names, given)
    if len(args) == 2:
        _condition(checker, node, args[0], result)
    return result


def _transformed(checker: Checker, node: Fold, names: list[Type], given: Type) -> Type:
    if node.macro == "transformMap":
        return map_of(names[0], given)
    if node.macro == "transformMapEntry":
        kind = checker.resolved(given)
        made = kind if kind.kind == "map" else map_of(DYN, DYN)
        if kind.kind != "map" and not is_open(kind):
            checker.no_overload(node, "cel.@mapInsert", [made, given])
        return made
    return list_of(given)


def _condition(checker: Checker, node: Fold, condition: Type, result: Type) -> None:
    if not all_fit(checker.bound, [condition], [BOOL]):
        checker.no_overload(node.args[0], "_?_:_", [condition, result, result])
