"""Type checks comprehensions: the types of their variables and of their result."""

from __future__ import annotations

from typing import Protocol

from shoal.objects.cel.ast import ComprehensionExpr, ExprNode
from shoal.objects.cel.library.lists import COMPARABLE
from shoal.objects.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    CELType,
    TypeBindings,
    are_assignable,
    is_assignable,
    is_dynamic,
    list_of,
    map_of,
    optional_of,
    substitute,
)


class CheckerContext(Protocol):
    """The running check."""

    bindings: TypeBindings
    scopes: list[dict[str, CELType]]

    def type_of(self, node: ExprNode) -> CELType: ...

    def resolve(self, given: CELType) -> CELType: ...

    def fresh_type_param(self) -> CELType: ...

    def display_name(self, given: CELType) -> str: ...

    def report(self, at: int, message: str) -> CELType: ...

    def expect_bool(self, node: ExprNode, given: CELType) -> None: ...

    def report_no_overload(self, node: ExprNode, name: str, args: list[CELType], member: bool = False) -> CELType: ...


def comprehension_type(checker: CheckerContext, node: ComprehensionExpr) -> CELType:
    range_type = checker.resolve(checker.type_of(node.iter_range))
    if node.macro in ("optMap", "optFlatMap"):
        return _optional_map_type(checker, node, range_type)
    variable_types = _variable_types(checker, node, range_type)
    checker.scopes.append(dict(zip(node.iter_vars, variable_types, strict=True)))
    args = [checker.type_of(arg) for arg in node.args]
    checker.scopes.pop()
    return _result_type(checker, node, variable_types, args)


def _optional_map_type(checker: CheckerContext, node: ComprehensionExpr, range_type: CELType) -> CELType:
    value_type: CELType = DYN
    if range_type.kind == "optional_type":
        value_type = range_type.params[0]
    elif not is_dynamic(range_type):
        return checker.report_no_overload(node, "hasValue", [range_type], member=True)
    checker.scopes.append({node.iter_vars[0]: value_type})
    given = checker.type_of(node.args[0])
    checker.scopes.pop()
    if node.macro == "optMap":
        return optional_of(given)
    expected = optional_of(checker.fresh_type_param())
    if not is_assignable(checker.bindings, given, expected):
        return checker.report_no_overload(node, "_?_:_", [BOOL, given, expected])
    return substitute(checker.bindings, expected)


def _variable_types(checker: CheckerContext, node: ComprehensionExpr, range_type: CELType) -> list[CELType]:
    two = len(node.iter_vars) == 2
    if range_type.kind == "list":
        return [INT, range_type.params[0]] if two else [range_type.params[0]]
    if range_type.kind == "map":
        return list(range_type.params) if two else [range_type.params[0]]
    if is_dynamic(range_type):
        is_assignable(checker.bindings, DYN, range_type)
        return [DYN] * len(node.iter_vars)
    message = f"expression of type '{checker.display_name(range_type)}' cannot be range of a comprehension"
    checker.report(node.iter_range.offset, f"{message} (must be list, map, or dynamic)")
    return [ERROR] * len(node.iter_vars)


def _result_type(
    checker: CheckerContext, node: ComprehensionExpr, variable_types: list[CELType], args: list[CELType]
) -> CELType:
    macro = node.macro
    if macro in ("all", "exists"):
        checker.expect_bool(node.args[0], args[0])
        return BOOL
    given = args[-1]
    if macro == "exists_one":
        _check_condition(checker, node, args[0], INT)
        return BOOL
    if macro == "filter":
        _check_condition(checker, node, args[0], list_of(variable_types[0]))
        return list_of(variable_types[0])
    if macro == "sortBy":
        kind = checker.resolve(given)
        if not is_dynamic(kind) and kind.kind not in {known.kind for known in COMPARABLE}:
            return checker.report_no_overload(
                node, "@sortByAssociatedKeys", [list_of(variable_types[0]), list_of(given)], member=True
            )
        return list_of(variable_types[0])
    result = _transform_type(checker, node, variable_types, given)
    if len(args) == 2:
        _check_condition(checker, node, args[0], result)
    return result


def _transform_type(
    checker: CheckerContext, node: ComprehensionExpr, variable_types: list[CELType], given: CELType
) -> CELType:
    if node.macro == "transformMap":
        return map_of(variable_types[0], given)
    if node.macro == "transformMapEntry":
        kind = checker.resolve(given)
        entry_type = kind if kind.kind == "map" else map_of(DYN, DYN)
        if kind.kind != "map" and not is_dynamic(kind):
            checker.report_no_overload(node, "cel.@mapInsert", [entry_type, given])
        return entry_type
    return list_of(given)


def _check_condition(checker: CheckerContext, node: ComprehensionExpr, condition: CELType, result: CELType) -> None:
    if not are_assignable(checker.bindings, [condition], [BOOL]):
        checker.report_no_overload(node.args[0], "_?_:_", [condition, result, result])
