"""Evaluates expressions over the values of one request, within a shared cost budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from shoal.kinds.admissionregistration.policies import MatchError
from shoal.kinds.admissionregistration.policies.expressions import CELExpression
from shoal.objects.cel import PER_CALL_LIMIT, CELError, PauseFunc, no_pause
from shoal.objects.cel.library.authz import AuthorizeFunc, authorizer_value, resource_check_value
from shoal.objects.cel.values import LazyVariables, Value

Object = dict[str, Any]

POLICY_COST_BUDGET: Final = 10_000_000
"""The cost budget of one sort of a policy's expressions, per binding and parameter."""
MATCH_CONDITIONS_COST_BUDGET: Final = 2_500_000
BUDGET_EXCEEDED: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_NAMESPACE_METADATA = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "finalizers",
)  # fmt: skip


class BudgetExceededError(Exception):
    def __init__(self) -> None:
        super().__init__(BUDGET_EXCEEDED)


class EvaluationInputs(NamedTuple):
    """The values expressions can access. `request` is an AdmissionRequest without the objects."""

    new_object: Object | None
    old_object: Object | None
    request: Object
    namespace: Object | None
    authorize: AuthorizeFunc
    params: Object | None = None
    pause: PauseFunc = no_pause
    """Called every few milliseconds of an evaluation. It may let others run, or raise to end the evaluation."""


class EvaluationResult(NamedTuple):
    value: Value
    error: str = ""


class CELEvaluation:
    """Evaluates expressions with a budget. Variables are computed on first access, and once."""

    def __init__(
        self,
        inputs: EvaluationInputs,
        variables: Mapping[str, CELExpression],
        budget: int,
        *,
        has_authorizer: bool = True,
        namespace: Object | None = None,
    ) -> None:
        request = inputs.request
        authorize = inputs.authorize if has_authorizer else None
        resource = request["requestResource"]
        self.remaining_budget = budget
        self._variables = variables
        self._variable_cost = 0
        self._pause = inputs.pause
        self._values = [
            inputs.new_object,
            inputs.old_object,
            request,
            namespace,
            inputs.params,
            None if authorize is None else authorizer_value(authorize),
            None
            if authorize is None
            else resource_check_value(
                authorize,
                resource["group"],
                resource["resource"],
                request.get("subResource", ""),
                request.get("namespace", ""),
                request.get("name", ""),
            ),
            LazyVariables(self._evaluate_variable),
        ]

    def evaluate(self, expression: CELExpression) -> EvaluationResult:
        """Raises BudgetExceededError: no further expression may be evaluated."""
        if expression.program is None:
            return EvaluationResult(None, f"compilation error: {expression.error}")
        self._pause()
        outcome = expression.program.evaluate(self._values, PER_CALL_LIMIT, self._pause)
        cost, self._variable_cost = self._variable_cost + outcome.cost, 0
        if cost > self.remaining_budget:
            raise BudgetExceededError
        self.remaining_budget -= cost
        if outcome.error is not None:
            return EvaluationResult(None, f"expression '{expression.text}' resulted in error: {outcome.error}")
        return EvaluationResult(outcome.value)

    def _evaluate_variable(self, name: str) -> Value:
        expression = self._variables[name]
        if expression.program is None:
            raise CELError(f'composited variable "{name}" fails to compile: {expression.error}')
        outcome = expression.program.evaluate(self._values, PER_CALL_LIMIT, self._pause)
        self._variable_cost += outcome.cost
        if outcome.error is not None:
            raise CELError(f'composited variable "{name}" fails to evaluate: {outcome.error}')
        return outcome.value


def namespace_object(namespace: Object | None) -> Object | None:
    """Returns the namespace as expressions see it: without field ownership and owner references."""
    if namespace is None:
        return None
    metadata = namespace["metadata"]
    visible: Object = {"metadata": {key: metadata[key] for key in _NAMESPACE_METADATA if key in metadata}}
    return visible | {key: namespace[key] for key in ("spec", "status") if key in namespace}


def all_conditions_met(
    conditions: tuple[CELExpression, ...],
    variables: Mapping[str, CELExpression],
    inputs: EvaluationInputs,
) -> bool:
    """A false condition decides, whatever errors the others have. Raises MatchError."""
    if not conditions:
        return True
    request = {**inputs.request, "resource": inputs.request["requestResource"]}
    evaluation = CELEvaluation(inputs._replace(request=request), variables, MATCH_CONDITIONS_COST_BUDGET)
    errors: list[str] = []
    met = True
    try:
        for condition in conditions:
            value, error = evaluation.evaluate(condition)
            if error:
                errors.append(error)
            met = met and (bool(error) or value is True)
    except BudgetExceededError as error:
        raise MatchError(str(error)) from None
    if met and errors:
        unique = list(dict.fromkeys(errors))
        raise MatchError(unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]")
    return met
