"""Optional values: `optional.of`, `orValue`. Their syntax (`?.`, `[?]`) is in the planner."""

from __future__ import annotations

from shoal.objects.cel.errors import CELError
from shoal.objects.cel.overloads import Overload, conversion_cost, function_overload, method_overload
from shoal.objects.cel.types import BOOL, list_of, optional_of, type_param
from shoal.objects.cel.values import OPTIONAL_NONE, OptionalValue, Value

V = type_param("V")
OPTIONAL = optional_of(V)


def _of_non_zero(value: Value) -> OptionalValue:
    return OptionalValue(value) if value else OPTIONAL_NONE


def _value(held: OptionalValue) -> Value:
    if not held.present:
        raise CELError("optional.none() dereference")
    return held.value


def _unwrap(items: list[OptionalValue]) -> list[Value]:
    return [item.value for item in items if item.present]


OVERLOADS: list[Overload] = [
    function_overload("optional.of", (V,), OPTIONAL, OptionalValue),
    function_overload("optional.ofNonZeroValue", (V,), OPTIONAL, _of_non_zero),
    function_overload("optional.none", (), OPTIONAL, lambda: OPTIONAL_NONE),
    method_overload("value", (OPTIONAL,), V, _value),
    method_overload("hasValue", (OPTIONAL,), BOOL, lambda held: held.present),
    function_overload("optional.unwrap", (list_of(OPTIONAL),), list_of(V), _unwrap, conversion_cost),
    method_overload("unwrapOpt", (list_of(OPTIONAL),), list_of(V), _unwrap, conversion_cost),
    # The planner short-circuits both: it evaluates the second argument only if needed.
    method_overload("or", (OPTIONAL, OPTIONAL), OPTIONAL, lambda held, other: held if held.present else other),
    method_overload("orValue", (OPTIONAL, V), V, lambda held, other: held.value if held.present else other),
]
