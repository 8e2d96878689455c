"""Device selectors: CEL expressions over one `device`. They are compiled for validation only, never evaluated. Pure.

`cel.bind(name, value, expression)` is available in these expressions only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from shoal.objects.cel import CELCompileError, CELEnvironment
from shoal.objects.cel.ast import CallExpr, ComprehensionExpr, ExprNode, IdentExpr, ListExpr, LiteralExpr
from shoal.objects.cel.checker import check
from shoal.objects.cel.cost_estimate import estimate_cost
from shoal.objects.cel.library.quantities import QUANTITY
from shoal.objects.cel.parser import parse
from shoal.objects.cel.types import BOOL, DYN, STRING, CELType, map_of
from shoal.objects.errors import Cause, forbidden_field, invalid_value

COST_LIMIT = 1_000_000
_MAX_ATTRIBUTES = 32
"""The limit of attributes and capacities of a device together."""
_DEVICE_TYPE = CELType(
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
_ENVIRONMENT = CELEnvironment({"device": _DEVICE_TYPE}, unescape_fields=False)
_MAX_DOMAIN_SIZES: Mapping[tuple[str, ...], int] = {
    (): _MAX_ATTRIBUTES,
    ("@keys",): 63,
    ("@values",): _MAX_ATTRIBUTES,
    ("@values", "@keys"): 32,
    ("@values", "@values"): 64,
}
_MAX_SIZES: Mapping[tuple[str, ...], int] = {("driver",): 63, ("allowMultipleAllocations",): 1} | {
    (field, *path): size for field in ("attributes", "capacity") for path, size in _MAX_DOMAIN_SIZES.items()
}


def validate_cel_selector(expression: str, path: str) -> list[Cause]:
    """Returns the compile error or the exceeded cost limit as causes."""
    compile_error, cost = _compile_selector(expression)
    if compile_error:
        return [invalid_value(path, expression, compile_error)]
    return [forbidden_field(path, "too complex, exceeds cost limit")] if cost > COST_LIMIT else []


@lru_cache(maxsize=256)
def _compile_selector(expression: str) -> tuple[str, int]:
    try:
        checked = check(expression, _expand_cel_bind(parse(expression)), _ENVIRONMENT)
    except CELCompileError as error:
        return f"compilation failed: {error}", 0
    result = checked.types[id(checked.root)]
    if result.kind not in ("bool", "dyn"):
        result_name = str(result).replace("dyn", "google.protobuf.Any")
        return f"must evaluate to bool or the unknown type, not {result_name}", 0
    return "", estimate_cost(checked, lambda path: _MAX_SIZES.get(tuple(path)))


def _expand_cel_bind(node: ExprNode) -> ExprNode:
    """Rewrites `cel.bind(a, 1, a + 1)` to `[1].map(a, a + 1)[0]`, which has the same type and the same errors."""
    for each in fields(node):
        setattr(node, each.name, _expand_inside(getattr(node, each.name)))
    if not (isinstance(node, CallExpr) and node.function == "bind" and len(node.args) == 3):
        return node
    name, value, expression = node.args
    if not (isinstance(node.target, IdentExpr) and node.target.name == "cel" and isinstance(name, IdentExpr)):
        return node
    once = ListExpr(value.offset, [(value, False)], depth=node.depth)
    mapped = ComprehensionExpr(node.offset, "map", once, [name.name], [expression], depth=node.depth)
    return CallExpr(node.offset, "_[_]", None, [mapped, LiteralExpr(node.offset, 0)], depth=node.depth)


def _expand_inside(value: Any) -> Any:
    if isinstance(value, ExprNode):
        return _expand_cel_bind(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return type(value)(_expand_inside(each) for each in value)  # type: ignore[call-arg]
    return value
