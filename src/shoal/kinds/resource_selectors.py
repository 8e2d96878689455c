"""Device selectors: CEL expressions over one `device`. They are compiled for validation only, never evaluated. Pure.

`cel.bind(name, value, expression)` is available in these expressions only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from shoal.objects.cel import CompileError, Environment
from shoal.objects.cel.checker import check
from shoal.objects.cel.estimate import estimate
from shoal.objects.cel.library.quantities import QUANTITY
from shoal.objects.cel.parser import parse
from shoal.objects.cel.syntax import Call, Fold, Ident, ListLiteral, Literal, Node
from shoal.objects.cel.types import BOOL, DYN, STRING, Type, map_of
from shoal.objects.errors import Cause, forbidden_field, invalid_value

COST_LIMIT = 1_000_000
_MOST = 32
"""The limit of attributes and capacities of a device together."""
_DEVICE = Type(
    "object",
    (),
    "kubernetes.DRADevice",
    {
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        "attributes": map_of(STRING, map_of(STRING, DYN)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    },
)
_ENVIRONMENT = Environment({"device": _DEVICE}, escapes=False)
_DOMAINS: Mapping[tuple[str, ...], int] = {
    (): _MOST,
    ("@keys",): 63,
    ("@values",): _MOST,
    ("@values", "@keys"): 32,
    ("@values", "@values"): 64,
}
_SIZES: Mapping[tuple[str, ...], int] = {("driver",): 63, ("allowMultipleAllocations",): 1} | {
    (field, *path): size for field in ("attributes", "capacity") for path, size in _DOMAINS.items()
}


def compiling(expression: str, path: str) -> list[Cause]:
    """Returns the compile error or the exceeded cost limit as causes."""
    problem, cost = _compiled(expression)
    if problem:
        return [invalid_value(path, expression, problem)]
    return [forbidden_field(path, "too complex, exceeds cost limit")] if cost > COST_LIMIT else []


@lru_cache(maxsize=256)
def _compiled(expression: str) -> tuple[str, int]:
    try:
        found = check(expression, _bound(parse(expression)), _ENVIRONMENT)
    except CompileError as error:
        return f"compilation failed: {error}", 0
    result = found.types[id(found.root)]
    if result.kind not in ("bool", "dyn"):
        shown = str(result).replace("dyn", "google.protobuf.Any")
        return f"must evaluate to bool or the unknown type, not {shown}", 0
    return "", estimate(found, lambda path: _SIZES.get(tuple(path)))


def _bound(node: Node) -> Node:
    """Rewrites `cel.bind(a, 1, a + 1)` to `[1].map(a, a + 1)[0]`, which has the same type and the same errors."""
    for each in fields(node):
        setattr(node, each.name, _inside(getattr(node, each.name)))
    if not (isinstance(node, Call) and node.function == "bind" and len(node.args) == 3):
        return node
    name, value, expression = node.args
    if not (isinstance(node.target, Ident) and node.target.name == "cel" and isinstance(name, Ident)):
        return node
    once = ListLiteral(value.at, [(value, False)], depth=node.depth)
    mapped = Fold(node.at, "map", once, [name.name], [expression], depth=node.depth)
    return Call(node.at, "_[_]", None, [mapped, Literal(node.at, 0)], depth=node.depth)


def _inside(value: Any) -> Any:
    if isinstance(value, Node):
        return _bound(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return type(value)(_inside(each) for each in value)  # type: ignore[call-arg]
    return value
