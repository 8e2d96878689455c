"""matchConditions of webhooks: CEL expressions over a request, compiled once. Pure.

The variables are `object`, `oldObject`, `request`, `namespaceObject` (always null here) and `authorizer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from shoal.objects.errors import Cause

if TYPE_CHECKING:
    from shoal.kinds.policies.expressions import Expression

Object = dict[str, Any]


@lru_cache(maxsize=1024)
def _compiled(expression: str, params: bool) -> Expression:
    # CEL is imported lazily: a server without match conditions starts without it.
    from shoal.kinds.policies.environment import environment  # noqa: PLC0415
    from shoal.kinds.policies.expressions import CONDITION, compiled  # noqa: PLC0415

    return compiled(expression, environment(params=params), CONDITION)


def compiling(expression: str, path: str, *, params: bool = False) -> list[Cause]:
    """Returns the compile error as causes. `has_params`: the expression belongs to a policy with parameters."""
    from shoal.kinds.policies.expressions import refused  # noqa: PLC0415

    made = _compiled(expression, params)
    return [refused(path, expression, made)] if made.program is None else []


def matches(
    conditions: Iterable[str], obj: Object | None, old: Object | None, request: Object, ask: Callable[..., Any]
) -> bool:
    """Reports whether all conditions are true. A false condition decides, whatever errors the others have.

    Raises MatchError.
    """
    from shoal.kinds.policies.evaluation import Inputs, conditions_met  # noqa: PLC0415

    compiled = tuple(_compiled(expression, False) for expression in conditions)
    return conditions_met(compiled, Inputs(obj, old, request, None, ask))
