"""Evaluates expressions over the values of one request, within a shared cost budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from shoal.kinds.policies import Undecided
from shoal.kinds.policies.expressions import Expression
from shoal.objects.cel import PER_CALL_LIMIT, CelError
from shoal.objects.cel.library.authz import Ask, authorizer, resource_check
from shoal.objects.cel.values import Lazy, Value

Object = dict[str, Any]

BUDGET: Final = 10_000_000
"""The cost budget of one sort of a policy's expressions, per binding and parameter."""
CONDITIONS_BUDGET: Final = 2_500_000
OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_NAMESPACE_METADATA = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "finalizers",
)  # fmt: skip


class OutOfBudget(Exception):
    def __init__(self) -> None:
        super().__init__(OUT_OF_BUDGET)


class Inputs(NamedTuple):
    """The values expressions can access. `request` is an AdmissionRequest without the objects."""

    object: Object | None
    old: Object | None
    request: Object
    namespace: Object | None
    ask: Ask
    params: Object | None = None


class Result(NamedTuple):
    value: Value
    error: str = ""


class Evaluation:
    """Evaluates expressions with a budget. Variables are computed on first access, and once."""

    def __init__(
        self,
        inputs: Inputs,
        variables: Mapping[str, Expression],
        budget: int,
        *,
        authorized: bool = True,
        namespace: Object | None = None,
    ) -> None:
        request = inputs.request
        ask = inputs.ask if authorized else None
        resource = request["requestResource"]
        self.left = budget
        self._variables = variables
        self._spent = 0
        self._values = [
            inputs.object,
            inputs.old,
            request,
            namespace,
            inputs.params,
            None if ask is None else authorizer(ask),
            None
            if ask is None
            else resource_check(
                ask,
                resource["group"],
                resource["resource"],
                request.get("subResource", ""),
                request.get("namespace", ""),
                request.get("name", ""),
            ),
            Lazy(self._variable),
        ]

    def run(self, expression: Expression) -> Result:
        """Raises BudgetExceededError: no further expression may be evaluated."""
        if expression.program is None:
            return Result(None, f"compilation error: {expression.problem}")
        outcome = expression.program.evaluate(self._values, PER_CALL_LIMIT)
        spent, self._spent = self._spent + outcome.cost, 0
        if spent > self.left:
            raise OutOfBudget
        self.left -= spent
        if outcome.error is not None:
            return Result(None, f"expression '{expression.text}' resulted in error: {outcome.error}")
        return Result(outcome.value)

    def _variable(self, name: str) -> Value:
        expression = self._variables[name]
        if expression.program is None:
            raise CelError(f'composited variable "{name}" fails to compile: {expression.problem}')
        outcome = expression.program.evaluate(self._values, PER_CALL_LIMIT)
        self._spent += outcome.cost
        if outcome.error is not None:
            raise CelError(f'composited variable "{name}" fails to evaluate: {outcome.error}')
        return outcome.value


def namespace_shown(namespace: Object | None) -> Object | None:
    """Returns the namespace as expressions see it: without field ownership and owner references."""
    if namespace is None:
        return None
    metadata = namespace["metadata"]
    shown: Object = {"metadata": {key: metadata[key] for key in _NAMESPACE_METADATA if key in metadata}}
    return shown | {key: namespace[key] for key in ("spec", "status") if key in namespace}


def conditions_met(
    conditions: tuple[Expression, ...], inputs: Inputs, variables: Mapping[str, Expression] | None = None
) -> bool:
    """A false condition decides, whatever errors the others have. Raises MatchError."""
    if not conditions:
        return True
    request = {**inputs.request, "resource": inputs.request["requestResource"]}
    evaluation = Evaluation(inputs._replace(request=request), variables or {}, CONDITIONS_BUDGET)
    problems: list[str] = []
    met = True
    try:
        for condition in conditions:
            value, error = evaluation.run(condition)
            if error:
                problems.append(error)
            met = met and (bool(error) or value is True)
    except OutOfBudget as error:
        raise Undecided(str(error)) from None
    if met and problems:
        unique = list(dict.fromkeys(problems))
        raise Undecided(unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]")
    return met
