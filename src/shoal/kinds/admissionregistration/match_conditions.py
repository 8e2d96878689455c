"""matchConditions of webhooks: CEL expressions over a request, compiled once. Pure.

The variables are `object`, `oldObject`, `request`, `namespaceObject` (always null here) and `authorizer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from shoal.objects.errors import Cause

if TYPE_CHECKING:
    from shoal.kinds.admissionregistration.policies.expressions import CELExpression

Object = dict[str, Any]


@lru_cache(maxsize=1024)
def _compile_condition(expression: str, has_params: bool) -> CELExpression:
    # CEL is imported lazily: a server without match conditions starts without it.
    from shoal.kinds.admissionregistration.policies.environment import environment  # noqa: PLC0415
    from shoal.kinds.admissionregistration.policies.expressions import BOOL_RESULT, compile_expression  # noqa: PLC0415

    return compile_expression(expression, environment(has_params=has_params), BOOL_RESULT)


def compile_causes(expression: str, path: str, *, has_params: bool = False) -> list[Cause]:
    """Returns the compile error as causes. `has_params`: the expression belongs to a policy with parameters."""
    from shoal.kinds.admissionregistration.policies.expressions import compile_error_cause  # noqa: PLC0415

    compiled = _compile_condition(expression, has_params)
    return [compile_error_cause(path, expression, compiled)] if compiled.program is None else []


def match_conditions_met(
    conditions: Iterable[str],
    new_object: Object | None,
    old: Object | None,
    request: Object,
    authorize: Callable[..., Any],
    pause: Callable[[], None],
) -> bool:
    """Reports whether all conditions are true. A false condition decides, whatever errors the others have. `pause` is
    called every few milliseconds.

    Raises MatchError.
    """
    from shoal.kinds.admissionregistration.policies.evaluation import EvaluationInputs, all_conditions_met  # noqa: PLC0415

    compiled = tuple(_compile_condition(expression, False) for expression in conditions)
    return all_conditions_met(compiled, {}, EvaluationInputs(new_object, old, request, None, authorize, pause=pause))
