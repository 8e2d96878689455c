"""CEL, the expression language of Kubernetes' rules, over wire values.

    program = compile("self.replicas <= self.max", {"self": object_type})      # CompileError says what is wrong
    outcome = program.evaluate([obj], limit=PER_CALL_LIMIT)                    # value, error and cost

Pure. The functions are those kube-apiserver's environment has. Costs are counted as cel-go counts them; an
evaluation that exceeds its limit ends with `CostExceeded`.
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
"""What one evaluation may cost."""


def compile(source: str, variables: Mapping[str, Type]) -> Program:  # noqa: A001
    return compile_in(source, Environment(variables), list(variables))


def check_in(source: str, environment: Environment) -> Type:
    """The type of an expression that is not to be evaluated."""
    checked = check(source, parse(source), environment)
    return checked.types[id(checked.root)]


def compile_in(source: str, environment: Environment, places: Sequence[str]) -> Program:
    """`places`: all names a value is given for, in their order; the environment may know fewer."""
    return Program(check(source, parse(source), environment), places)
