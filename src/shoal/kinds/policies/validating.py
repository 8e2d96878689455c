"""Evaluates a ValidatingAdmissionPolicy for a request, one binding and one parameter.

`evaluate_policy` is a generator that yields after each expression, so that the caller can let other work run: one
expression may take a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from shoal.kinds.policies import Undecided
from shoal.kinds.policies.evaluation import (
    BUDGET,
    Evaluation,
    Inputs,
    OutOfBudget,
    conditions_met,
    namespace_shown,
)
from shoal.kinds.policies.reading import Check, Policy

LONGEST_MESSAGE: Final = 5 * 1024
LONGEST_ANNOTATION: Final = 10 * 1024


@dataclass(frozen=True, slots=True)
class Denial:
    index: int
    """Index of the validation, as the audit log counts."""
    message: str
    reason: str = ""
    """Empty: the expression failed to evaluate."""


@dataclass(slots=True)
class Verdict:
    denials: list[Denial] = field(default_factory=list)
    annotations: list[tuple[str, str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Errors of audit annotations. They deny the request, whatever the binding's actions are."""


def validated(policy: Policy, inputs: Inputs, verdict: Verdict) -> Iterator[None]:
    compiled = policy.compiled
    try:
        if not conditions_met(compiled.conditions, inputs, compiled.variables):
            return
        yield from _checks(policy, inputs, verdict)
        yield from _annotations(policy, inputs, verdict)
    except (Undecided, OutOfBudget) as error:
        verdict.denials = [] if policy.fails_open else [Denial(0, str(error))]
        verdict.annotations, verdict.failures = [], []


def _checks(policy: Policy, inputs: Inputs, verdict: Verdict) -> Iterator[None]:
    compiled, namespace = policy.compiled, namespace_shown(inputs.namespace)
    evaluation = Evaluation(inputs, compiled.variables, BUDGET, namespace=namespace)
    broken: list[tuple[int, Check]] = []
    for index, check in enumerate(compiled.checks):
        value, error = evaluation.run(check.expression)
        if error and not policy.fails_open:
            verdict.denials.append(Denial(index, error))
        elif not error and value is not True:
            broken.append((index, check))
        yield
    telling = Evaluation(inputs, compiled.variables, evaluation.left, authorized=False, namespace=namespace)
    for index, check in broken:
        try:
            message = _message(check, telling)
        except OutOfBudget as spent:
            verdict.denials = [denial for denial in verdict.denials if not denial.reason]
            if not policy.fails_open:
                verdict.denials += [Denial(number, f"failed messageExpression: {spent}") for number, _ in broken]
            break
        verdict.denials.append(Denial(index, message, check.reason))
        yield
    verdict.denials.sort(key=lambda denial: denial.index)


def _message(check: Check, telling: Evaluation) -> str:
    message = ""
    if check.told is not None:
        value, _ = telling.run(check.told)
        if value.__class__ is str:
            message = value.strip()
            if len(message.encode()) > LONGEST_MESSAGE or "\n" in message:
                message = ""
    return message or check.message.strip() or f"failed expression: {check.expression.text.strip()}"


def _annotations(policy: Policy, inputs: Inputs, verdict: Verdict) -> Iterator[None]:
    """An audit annotation denies no request with failurePolicy Ignore. It cannot use the authorizer."""
    compiled = policy.compiled
    if not compiled.annotations:
        return
    namespace = inputs.namespace
    shown = namespace and {key: value for key, value in namespace.items() if key not in ("apiVersion", "kind")}
    evaluation = Evaluation(inputs, compiled.variables, BUDGET, authorized=False, namespace=shown)
    for key, expression in compiled.annotations:
        value, error = evaluation.run(expression)
        if error:
            if not policy.fails_open:
                verdict.failures.append(error)
        elif value is not None and (text := value.strip()):
            verdict.annotations.append((key, text.encode()[:LONGEST_ANNOTATION].decode(errors="ignore")))
        yield
