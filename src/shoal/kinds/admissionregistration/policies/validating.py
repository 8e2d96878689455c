"""Evaluates a ValidatingAdmissionPolicy for a request, one binding and one parameter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from shoal.kinds.admissionregistration.policies import MatchError
from shoal.kinds.admissionregistration.policies.compilation import AdmissionPolicy, CompiledValidation
from shoal.kinds.admissionregistration.policies.evaluation import (
    POLICY_COST_BUDGET,
    BudgetExceededError,
    CELEvaluation,
    EvaluationInputs,
    all_conditions_met,
    namespace_object,
)

MAX_MESSAGE_LENGTH: Final = 5 * 1024
MAX_AUDIT_ANNOTATION_LENGTH: Final = 10 * 1024


@dataclass(frozen=True, slots=True)
class PolicyDenial:
    index: int
    """Index of the validation, as the audit log counts."""
    message: str
    reason: str = ""
    """Empty: the expression failed to evaluate."""


@dataclass(slots=True)
class PolicyDecision:
    denials: list[PolicyDenial] = field(default_factory=list)
    audit_annotations: list[tuple[str, str]] = field(default_factory=list)
    audit_annotation_errors: list[str] = field(default_factory=list)
    """Errors of audit annotations. They deny the request, whatever the binding's actions are."""


def evaluate_policy(policy: AdmissionPolicy, inputs: EvaluationInputs) -> PolicyDecision:
    """The expressions of the policy have to be compiled."""
    expressions, decision = policy.expressions.compiled, PolicyDecision()
    try:
        if all_conditions_met(expressions.match_conditions, expressions.variables, inputs):
            _evaluate_validations(policy, inputs, decision)
            _evaluate_audit_annotations(policy, inputs, decision)
    except (MatchError, BudgetExceededError) as error:
        return PolicyDecision([] if policy.fails_open else [PolicyDenial(0, str(error))])
    return decision


def _evaluate_validations(policy: AdmissionPolicy, inputs: EvaluationInputs, decision: PolicyDecision) -> None:
    expressions, namespace = policy.expressions.compiled, namespace_object(inputs.namespace)
    evaluation = CELEvaluation(inputs, expressions.variables, POLICY_COST_BUDGET, namespace=namespace)
    failed: list[tuple[int, CompiledValidation]] = []
    for index, validation in enumerate(expressions.validations):
        value, error = evaluation.evaluate(validation.expression)
        if error and not policy.fails_open:
            decision.denials.append(PolicyDenial(index, error))
        elif not error and value is not True:
            failed.append((index, validation))
    message_evaluation = CELEvaluation(
        inputs, expressions.variables, evaluation.remaining_budget, has_authorizer=False, namespace=namespace
    )
    for index, validation in failed:
        try:
            message = _denial_message(validation, message_evaluation)
        except BudgetExceededError as spent:
            decision.denials = [denial for denial in decision.denials if not denial.reason]
            if not policy.fails_open:
                decision.denials += [
                    PolicyDenial(failed_index, f"failed messageExpression: {spent}") for failed_index, _ in failed
                ]
            break
        decision.denials.append(PolicyDenial(index, message, validation.reason))
    decision.denials.sort(key=lambda denial: denial.index)


def _denial_message(validation: CompiledValidation, evaluation: CELEvaluation) -> str:
    message = ""
    if validation.message_expression is not None:
        value, _ = evaluation.evaluate(validation.message_expression)
        if value.__class__ is str:
            message = value.strip()
            if len(message.encode()) > MAX_MESSAGE_LENGTH or "\n" in message:
                message = ""
    return message or validation.message.strip() or f"failed expression: {validation.expression.text.strip()}"


def _evaluate_audit_annotations(policy: AdmissionPolicy, inputs: EvaluationInputs, decision: PolicyDecision) -> None:
    """An audit annotation denies no request with failurePolicy Ignore. It cannot use the authorizer."""
    expressions = policy.expressions.compiled
    if not expressions.audit_annotations:
        return
    namespace = inputs.namespace
    namespace_view = namespace and {key: value for key, value in namespace.items() if key not in ("apiVersion", "kind")}
    evaluation = CELEvaluation(
        inputs, expressions.variables, POLICY_COST_BUDGET, has_authorizer=False, namespace=namespace_view
    )
    for key, expression in expressions.audit_annotations:
        value, error = evaluation.evaluate(expression)
        if error:
            if not policy.fails_open:
                decision.audit_annotation_errors.append(error)
        elif value is not None and (text := value.strip()):
            decision.audit_annotations.append(
                (key, text.encode()[:MAX_AUDIT_ANNOTATION_LENGTH].decode(errors="ignore"))
            )
