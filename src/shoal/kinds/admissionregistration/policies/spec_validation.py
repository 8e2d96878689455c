"""Validates the expressions of a policy: they compile to the required result type. Messages are upstream's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from shoal.kinds.admissionregistration.policies.environment import environment
from shoal.kinds.admissionregistration.policies.expressions import (
    ANY_RESULT,
    APPLY_CONFIGURATION_RESULT,
    BOOL_RESULT,
    JSON_PATCH_RESULT,
    STRING_OR_NULL_RESULT,
    STRING_RESULT,
    CELExpression,
    compile_error_cause,
    compile_expression,
)
from shoal.kinds.validation.field import validate_enum
from shoal.objects.cel.escaping import RESERVED
from shoal.objects.cel.types import CELType
from shoal.objects.errors import Cause, invalid_value, not_supported, required_value
from shoal.objects.names import is_qualified_name

Object = dict[str, Any]

MAX_VALUE_EXPRESSION_LENGTH: Final = 5 * 1024
_match_identifier = re.compile("[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII).fullmatch
_PATCH_FIELDS: Final = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


@dataclass(slots=True)
class PolicyCompiler:
    has_params: bool
    variable_types: dict[str, CELType] | None
    """None: expressions cannot use `variables`."""

    def validate_variables(self, variables: list[Object]) -> list[Cause]:
        causes: list[Cause] = []
        for i, variable in enumerate(variables):
            path, name = f"spec.variables[{i}]", variable.get("name") or ""
            text = variable.get("expression") or ""
            if not name.strip():
                causes.append(required_value(f"{path}.name", "name is not specified"))
            elif not _match_identifier(name) or name in RESERVED:
                causes.append(invalid_value(f"{path}.name", name, "must be a valid CEL identifier"))
            if not text.strip():
                causes.append(required_value(f"{path}.expression", "expression is not specified"))
                continue
            compiled = self.compile(text, ANY_RESULT)
            assert self.variable_types is not None
            self.variable_types[name] = compiled.variable_type
            causes += _compile_causes(compiled, text, f"{path}.expression")
        return causes

    def compile(
        self,
        text: str,
        result_types: tuple[CELType, ...],
        *,
        has_authorizer: bool = True,
        has_patch_types: bool = False,
    ) -> CELExpression:
        variable_types: Mapping[str, CELType] | None = (
            None if self.variable_types is None else dict(self.variable_types)
        )
        return compile_expression(
            text,
            environment(
                has_params=self.has_params,
                has_authorizer=has_authorizer,
                variables=variable_types,
                has_patch_types=has_patch_types,
            ),
            result_types,
        )


def new_policy_compiler(spec: Object, *, has_variables: bool) -> PolicyCompiler:
    """`has_variables`: `variables` is declared even if the policy has none."""
    return PolicyCompiler(spec.get("paramKind") is not None, {} if has_variables or spec.get("variables") else None)


def _compile_causes(expression: CELExpression, value: str, path: str) -> list[Cause]:
    return [compile_error_cause(path, value, expression)] if expression.program is None else []


def validate_validation(policy_compiler: PolicyCompiler, validation: Object, path: str) -> list[Cause]:
    """Validates one entry of `validations`."""
    text, message = validation.get("expression") or "", validation.get("message") or ""
    message_expression, causes = validation.get("messageExpression") or "", []
    if not text.strip():
        causes.append(required_value(f"{path}.expression", "expression is not specified"))
    else:
        causes += _compile_causes(policy_compiler.compile(text, BOOL_RESULT), text, f"{path}.expression")
    if message_expression and not message_expression.strip():
        causes.append(invalid_value(f"{path}.messageExpression", message_expression, "must be non-empty if specified"))
    elif message_expression:
        compiled = policy_compiler.compile(message_expression, STRING_RESULT, has_authorizer=False)
        causes += _compile_causes(compiled, message_expression, f"{path}.messageExpression")
    if message and not message.strip():
        causes.append(invalid_value(f"{path}.message", message, "must be non-empty if specified"))
    elif "\n" in message.strip() or "\r" in message.strip():
        causes.append(invalid_value(f"{path}.message", message, "must not contain line breaks"))
    return causes + validate_enum(
        validation.get("reason"), f"{path}.reason", "Forbidden", "Invalid", "RequestEntityTooLarge"
    )


def validate_audit_annotation(
    policy_compiler: PolicyCompiler, annotation: Object, policy_name: str, path: str
) -> list[Cause]:
    key, text = annotation.get("key") or "", (annotation.get("valueExpression") or "").strip()
    causes: list[Cause] = []
    if policy_name:
        whole = f"{policy_name}/{key}"
        causes += [invalid_value(f"{path}.key", whole, message) for message in is_qualified_name(whole)]
    else:
        causes.append(invalid_value(f"{path}.key", key, "requires metadata.name be non-empty"))
    if not text:
        return [*causes, required_value(f"{path}.valueExpression", "valueExpression is not specified")]
    if len(text.encode()) > MAX_VALUE_EXPRESSION_LENGTH:
        detail = f"must not exceed {MAX_VALUE_EXPRESSION_LENGTH} bytes in length"
        return [*causes, required_value(f"{path}.valueExpression", detail)]
    compiled = policy_compiler.compile(text, STRING_OR_NULL_RESULT)
    return causes + _compile_causes(compiled, annotation["valueExpression"], f"{path}.valueExpression")


def validate_mutation(policy_compiler: PolicyCompiler, mutation: Object, path: str) -> list[Cause]:
    kind = mutation.get("patchType") or ""
    if not kind:
        return [required_value(f"{path}.patchType")]
    if kind not in _PATCH_FIELDS:
        return [not_supported(f"{path}.patchType", kind, sorted(_PATCH_FIELDS))]
    field = _PATCH_FIELDS[kind]
    (other_field,) = (each for each in _PATCH_FIELDS.values() if each != field)
    causes: list[Cause] = []
    patch = mutation.get(field)
    if patch is None:
        causes.append(required_value(f"{path}.{field}", f"must be specified when patchType is {kind}"))
    elif not (text := (patch.get("expression") or "").strip()):
        causes.append(required_value(f"{path}.{field}.expression"))
    else:
        compiled = policy_compiler.compile(
            text, JSON_PATCH_RESULT if kind == "JSONPatch" else APPLY_CONFIGURATION_RESULT, has_patch_types=True
        )
        causes += _compile_causes(compiled, text, f"{path}.{field}.expression")
    if mutation.get(other_field) is not None:
        detail = f"must not be specified when patchType is {kind}"
        causes.append(invalid_value(f"{path}.{other_field}", f"{{{other_field}}}", detail))
    return causes
