"""CEL, the expression language of Kubernetes' validation rules and policies, on decoded JSON values.

`compile_expression("self.replicas <= self.max", {"self": object_type})` returns a CELProgram or raises CELCompileError.
`program.evaluate([obj], limit=PER_CALL_LIMIT)` returns value, error and cost.

Pure. The functions are those of kube-apiserver's environment. Costs are counted as cel-go counts them. An evaluation
that exceeds its limit ends with `CostLimitExceeded`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from shoal.objects.cel.checker import check
from shoal.objects.cel.environment import Environment
from shoal.objects.cel.errors import CelError, CompileError, CostExceeded
from shoal.objects.cel.parser import parse
from shoal.objects.cel.planner import InstantiationError, Outcome, Program
from shoal.objects.cel.types import Type

__all__ = [
    "PER_CALL_LIMIT",
    "CelError",
    "CompileError",
    "CostExceeded",
    "Environment",
    "InstantiationError",
    "Outcome",
    "Program",
    "Type",
    "check_in",
    "compile",
    "compile_in",
]

PER_CALL_LIMIT: Final = 1_000_000
"""Maximum cost of one evaluation."""


def compile(source: str, variables: Mapping[str, Type]) -> Program:  # noqa: A001
    return compile_in(source, Environment(variables), list(variables))


def check_in(source: str, environment: Environment) -> Type:
    """Returns the type of an expression that is not evaluated."""
    checked = check(source, parse(source), environment)
    return checked.types[id(checked.root)]


def compile_in(source: str, environment: Environment, places: Sequence[str]) -> Program:
    """`variables` are all names a value is passed for, in order. The environment may declare fewer."""
    return Program(check(source, parse(source), environment), places)
