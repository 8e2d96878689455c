"""matchConditions of webhooks: CEL about a request, compiled once. Pure.

Known are `object`, `oldObject` and `request`; an expression that asks the authorizer is refused as one that does not
compile.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from shoal.objects.errors import Cause, invalid_value

if TYPE_CHECKING:
    from shoal.objects import cel

Object = dict[str, Any]

VARIABLES = ("object", "oldObject", "request")
PER_CALL = 1_000_000
"""What one evaluation may cost."""
BUDGET = 2_500_000
"""What all conditions of a webhook may cost together."""


class Undecided(Exception):
    """No condition says no, and some say nothing."""


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> cel.Program | str:
    """The text of what is wrong where it does not compile."""
    # Only configurations with conditions need CEL; who has none starts without it.
    from shoal.objects import cel  # noqa: PLC0415
    from shoal.objects.cel.types import DYN  # noqa: PLC0415

    try:
        program = cel.compile(expression, dict.fromkeys(VARIABLES, DYN))
    except cel.CompileError as error:
        return f"compilation failed: {error}"
    return program if program.result.kind == "bool" else f"must evaluate to bool but got {program.result}"


def compiling(conditions: Iterable[Object], path: str) -> list[Cause]:
    """What is wrong with the expressions."""
    causes = []
    for i, condition in enumerate(conditions):
        expression = condition.get("expression") or ""
        if not expression.strip():
            continue
        program = _compiled(expression)
        if isinstance(program, str):
            causes.append(invalid_value(f"{path}[{i}].expression", expression, program))
    return causes


def matches(conditions: Iterable[str], obj: Object | None, old: Object | None, request: Object) -> bool:
    """Whether every condition is met. One that is not settles it, whatever is wrong with the others."""
    values = [obj, old, request]
    problems: list[str] = []
    left = BUDGET
    for expression in conditions:
        program = _compiled(expression)
        if isinstance(program, str):
            problems.append(program)  # of a configuration from before it was looked at
            continue
        outcome = program.evaluate(values, min(PER_CALL, left))
        left -= outcome.cost
        if outcome.error is None and outcome.value is not True:
            return False
        if outcome.error is not None:
            problems.append(f"expression '{expression}' resulted in error: {outcome.error}")
        if left <= 0:
            problems.append(
                "validation failed due to running out of cost budget, no further validation rules will be run"
            )
            break
    if problems:
        raise Undecided(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return True
