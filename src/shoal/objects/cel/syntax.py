"""The AST of an expression. `offset` is the source position reported in errors. Macros are not expanded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, eq=False)
class Node:
    at: int
    depth: int = field(default=1, kw_only=True)


@dataclass(slots=True, eq=False)
class Literal(Node):
    value: Any


@dataclass(slots=True, eq=False)
class Ident(Node):
    name: str


@dataclass(slots=True, eq=False)
class Select(Node):
    """`operand.field`, `has(operand.field)` (`test`) or `operand.?field` (`optional`)."""

    operand: Node
    field: str
    test: bool = False
    optional: bool = False


@dataclass(slots=True, eq=False)
class Call(Node):
    function: str
    target: Node | None
    args: list[Node]


@dataclass(slots=True, eq=False)
class Logic(Node):
    """`&&` or `||` of two or more terms."""

    function: str
    terms: list[Node]


@dataclass(slots=True, eq=False)
class Choice(Node):
    condition: Node
    yes: Node
    no: Node


@dataclass(slots=True, eq=False)
class ListLiteral(Node):
    items: list[tuple[Node, bool]]
    """Item, and true for `?item`."""


@dataclass(slots=True, eq=False)
class MapLiteral(Node):
    entries: list[tuple[Node, Node, bool]]
    """Key, value, and true for `?key: value`."""


@dataclass(slots=True, eq=False)
class Struct(Node):
    """`Name{field: value}`"""

    name: str
    fields: list[tuple[int, str, Node, bool]]
    """Offset of the colon, name, value, and true for `?field: value`."""


@dataclass(slots=True, eq=False)
class Fold(Node):
    """A comprehension. `macro` names it, `iter_vars` are its one or two variables, `args` its expressions."""

    macro: str
    range: Node
    names: list[str]
    args: list[Node]


def qualified(node: Node | None) -> str | None:
    """Returns `a.b.c` if the node consists of names only."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test and not node.optional:
        prefix = qualified(node.operand)
        return f"{prefix}.{node.field}" if prefix is not None else None
    return None
