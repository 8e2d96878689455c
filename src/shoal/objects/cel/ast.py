"""The AST of an expression. `offset` is the source position reported in errors. Macros are not expanded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, eq=False)
class ExprNode:
    offset: int
    depth: int = field(default=1, kw_only=True)


@dataclass(slots=True, eq=False)
class LiteralExpr(ExprNode):
    value: Any


@dataclass(slots=True, eq=False)
class IdentExpr(ExprNode):
    name: str


@dataclass(slots=True, eq=False)
class SelectExpr(ExprNode):
    """`operand.field`, `has(operand.field)` (`test`) or `operand.?field` (`optional`)."""

    operand: ExprNode
    field: str
    test_only: bool = False
    optional: bool = False


@dataclass(slots=True, eq=False)
class CallExpr(ExprNode):
    function: str
    target: ExprNode | None
    args: list[ExprNode]


@dataclass(slots=True, eq=False)
class LogicExpr(ExprNode):
    """`&&` or `||` of two or more terms."""

    function: str
    terms: list[ExprNode]


@dataclass(slots=True, eq=False)
class ConditionalExpr(ExprNode):
    condition: ExprNode
    if_true: ExprNode
    if_false: ExprNode


@dataclass(slots=True, eq=False)
class ListExpr(ExprNode):
    items: list[tuple[ExprNode, bool]]
    """Item, and true for `?item`."""


@dataclass(slots=True, eq=False)
class MapExpr(ExprNode):
    entries: list[tuple[ExprNode, ExprNode, bool]]
    """Key, value, and true for `?key: value`."""


@dataclass(slots=True, eq=False)
class StructExpr(ExprNode):
    """`Name{field: value}`"""

    name: str
    fields: list[tuple[int, str, ExprNode, bool]]
    """Offset of the colon, name, value, and true for `?field: value`."""


@dataclass(slots=True, eq=False)
class ComprehensionExpr(ExprNode):
    """A comprehension. `macro` names it, `iter_vars` are its one or two variables, `args` its expressions."""

    macro: str
    iter_range: ExprNode
    iter_vars: list[str]
    args: list[ExprNode]


def qualified_name(node: ExprNode | None) -> str | None:
    """Returns `a.b.c` if the node consists of names only."""
    if isinstance(node, IdentExpr):
        return node.name
    if isinstance(node, SelectExpr) and not node.test_only and not node.optional:
        prefix = qualified_name(node.operand)
        return f"{prefix}.{node.field}" if prefix is not None else None
    return None
