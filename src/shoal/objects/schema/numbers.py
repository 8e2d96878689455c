"""Numbers as Go sees them: JSON integers are int64, everything else is float64."""

from __future__ import annotations

import math
from typing import Any

_MAX_SAFE_INTEGER = 2**53 - 1
_TOLERANCE = 1e-9


def is_json_integer(value: float) -> bool:
    """True if a float counts as an integer: 1.0 does, and so does a value slightly off by rounding."""
    if not math.isfinite(value) or abs(value) > _MAX_SAFE_INTEGER:
        return False
    whole = math.trunc(value)
    if value == whole:
        return True
    return value > 0 and whole != 0 and abs(value - whole) / (abs(value) + abs(whole)) < _TOLERANCE


def is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int) and factor == int(factor):
        return value % int(factor) == 0
    return is_json_integer(1 / factor * value if factor < 1 else value / factor)


def go_value(value: Any) -> Any:
    """Returns the value as Go prints it: no `.0` on whole floats, keys sorted."""
    if value.__class__ is float:
        return int(value) if math.isfinite(value) and value == int(value) and abs(value) < 1e21 else value
    if value.__class__ is dict:
        return {key: go_value(value[key]) for key in sorted(value)}
    if value.__class__ is list:
        return [go_value(inner) for inner in value]
    return value
