"""Optional values: `optional.of`, `orValue`. Their syntax (`?.`, `[?]`) is in the planner."""

from __future__ import annotations

from shoal.objects.cel.errors import CelError
from shoal.objects.cel.overloads import Overload, function, method
from shoal.objects.cel.types import BOOL, list_of, optional_of, param
from shoal.objects.cel.values import NONE, Optional, Value

V = param("V")
OPTIONAL = optional_of(V)


def _of_non_zero(value: Value) -> Optional:
    return Optional(value) if value else NONE


def _value(held: Optional) -> Value:
    if not held.present:
        raise CelError("optional.none() dereference")
    return held.value


def _unwrap(items: list[Optional]) -> list[Value]:
    return [item.value for item in items if item.present]


OVERLOADS: list[Overload] = [
    function("optional.of", (V,), OPTIONAL, Optional),
    function("optional.ofNonZeroValue", (V,), OPTIONAL, _of_non_zero),
    function("optional.none", (), OPTIONAL, lambda: NONE),
    method("value", (OPTIONAL,), V, _value),
    method("hasValue", (OPTIONAL,), BOOL, lambda held: held.present),
    function("optional.unwrap", (list_of(OPTIONAL),), list_of(V), _unwrap),
    method("unwrapOpt", (list_of(OPTIONAL),), list_of(V), _unwrap),
    # The planner short-circuits both: it evaluates the second argument only if needed.
    method("or", (OPTIONAL, OPTIONAL), OPTIONAL, lambda held, other: held if held.present else other),
    method("orValue", (OPTIONAL, V), V, lambda held, other: held.value if held.present else other),
]
