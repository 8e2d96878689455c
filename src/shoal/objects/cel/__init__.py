"""CEL, the expression language of Kubernetes' validation rules and policies, on decoded JSON values.

`compile_expression("self.replicas <= self.max", {"self": object_type})` returns a CELProgram or raises CELCompileError.
`program.evaluate([obj], limit=PER_CALL_LIMIT)` returns value, error and cost.

Pure. The functions are those of kube-apiserver's environment. Costs are counted as cel-go counts them; what it
counts too low (values inside of compared or printed lists) costs more here, beyond a few values. An evaluation that
exceeds its limit ends with `CostLimitExceeded`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from shoal.objects.cel.checker import check
from shoal.objects.cel.environment import CELEnvironment
from shoal.objects.cel.errors import CELCompileError, CELError, CostLimitExceeded
from shoal.objects.cel.parser import parse
from shoal.objects.cel.pause import PauseFunc, no_pause
from shoal.objects.cel.planner import CELProgram, EvalResult, InstantiationError
from shoal.objects.cel.types import CELType

__all__ = [
    "PER_CALL_LIMIT",
    "CELCompileError",
    "CELEnvironment",
    "CELError",
    "CELProgram",
    "CELType",
    "CostLimitExceeded",
    "EvalResult",
    "InstantiationError",
    "PauseFunc",
    "check_in_environment",
    "compile_expression",
    "compile_in_environment",
    "no_pause",
]

PER_CALL_LIMIT: Final = 1_000_000
"""Maximum cost of one evaluation."""


def compile_expression(source: str, variables: Mapping[str, CELType]) -> CELProgram:
    return compile_in_environment(source, CELEnvironment(variables), list(variables))


def check_in_environment(source: str, environment: CELEnvironment) -> CELType:
    """Returns the type of an expression that is not evaluated."""
    checked = check(source, parse(source), environment)
    return checked.types[id(checked.root)]


def compile_in_environment(source: str, environment: CELEnvironment, variables: Sequence[str]) -> CELProgram:
    """`variables` are all names a value is passed for, in order. The environment may declare fewer."""
    return CELProgram(check(source, parse(source), environment), variables)
