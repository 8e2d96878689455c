"""Macros: `has` and the comprehensions, with the variables they bind."""

from __future__ import annotations

from shoal.objects.cel.errors import CompileError
from shoal.objects.cel.syntax import Fold, Ident, Node, Select

_SHAPES: dict[tuple[str, int], tuple[int, int]] = {
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

_ACCUMULATORS = ("__result__", "@result")


def expanded(source: str, at: int, function: str, target: Node | None, args: list[Node]) -> Node | None:
    """Returns the node of a macro, or None for an ordinary call."""
    if function == "has" and target is None and len(args) == 1:
        tested = args[0]
        if not isinstance(tested, Select) or tested.optional:
            raise CompileError(source, [(tested.at, "invalid argument to has() macro")])
        return Select(at, tested.operand, tested.field, test=True)
    shape = _SHAPES.get((function, len(args)))
    if shape is None or target is None:
        return None
    variables, _ = shape
    names = [_name(source, arg) for arg in args[:variables]]
    if len(set(names)) != len(names):
        raise CompileError(source, [(args[1].at, f"duplicate variable name: {names[0]}")])
    macro = "exists_one" if function == "existsOne" else function
    return Fold(at, macro, target, names, args[variables:])


def _name(source: str, node: Node) -> str:
    if not isinstance(node, Ident):
        raise CompileError(source, [(node.at, "argument must be a simple name")])
    if node.name in _ACCUMULATORS:
        raise CompileError(source, [(node.at, "iteration variable overwrites accumulator variable")])
    return node.name
