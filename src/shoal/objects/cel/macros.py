"""Macros: `has` and the comprehensions, with the variables they bind."""

from __future__ import annotations

from shoal.objects.cel.ast import ComprehensionExpr, ExprNode, IdentExpr, SelectExpr
from shoal.objects.cel.errors import CELCompileError

_MACROS: dict[tuple[str, int], tuple[int, int]] = {
    ("all", 2): (1, 1),
    ("exists", 2): (1, 1),
    ("exists_one", 2): (1, 1),
    ("existsOne", 2): (1, 1),
    ("map", 2): (1, 1),
    ("map", 3): (1, 2),
    ("filter", 2): (1, 1),
    ("all", 3): (2, 1),
    ("exists", 3): (2, 1),
    ("existsOne", 3): (2, 1),
    ("exists_one", 3): (2, 1),
    ("transformList", 3): (2, 1),
    ("transformList", 4): (2, 2),
    ("transformMap", 3): (2, 1),
    ("transformMap", 4): (2, 2),
    ("transformMapEntry", 3): (2, 1),
    ("transformMapEntry", 4): (2, 2),
    ("sortBy", 2): (1, 1),
    ("optMap", 2): (1, 1),
    ("optFlatMap", 2): (1, 1),
}
"""By name and number of arguments: number of variables and number of expressions."""

_ACCUMULATOR_NAMES = ("__result__", "@result")


def expand_macro(source: str, at: int, function: str, target: ExprNode | None, args: list[ExprNode]) -> ExprNode | None:
    """Returns the node of a macro, or None for an ordinary call."""
    if function == "has" and target is None and len(args) == 1:
        operand = args[0]
        if not isinstance(operand, SelectExpr) or operand.optional:
            raise CELCompileError(source, [(operand.offset, "invalid argument to has() macro")])
        return SelectExpr(at, operand.operand, operand.field, test_only=True)
    arity = _MACROS.get((function, len(args)))
    if arity is None or target is None:
        return None
    variables, _ = arity
    names = [_variable_name(source, arg) for arg in args[:variables]]
    if len(set(names)) != len(names):
        raise CELCompileError(source, [(args[1].offset, f"duplicate variable name: {names[0]}")])
    macro = "exists_one" if function == "existsOne" else function
    return ComprehensionExpr(at, macro, target, names, args[variables:])


def _variable_name(source: str, node: ExprNode) -> str:
    if not isinstance(node, IdentExpr):
        raise CELCompileError(source, [(node.offset, "argument must be a simple name")])
    if node.name in _ACCUMULATOR_NAMES:
        raise CELCompileError(source, [(node.offset, "iteration variable overwrites accumulator variable")])
    return node.name
