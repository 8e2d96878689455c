"""Validates the expressions of a policy: they compile to the required result type. Messages are upstream's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from shoal.kinds.checks import one_of
from shoal.kinds.policies.environment import environment
from shoal.kinds.policies.expressions import (
    ANYTHING,
    CONDITION,
    CONFIGURATION,
    PATCHES,
    TEXT,
    TEXT_OR_NULL,
    Expression,
    compiled,
    refused,
)
from shoal.objects.cel.escaping import RESERVED
from shoal.objects.cel.types import Type
from shoal.objects.errors import Cause, invalid_value, not_supported, required
from shoal.objects.names import is_qualified_name

Object = dict[str, Any]

LONGEST_VALUE_EXPRESSION: Final = 5 * 1024
_NAME = re.compile("[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII).fullmatch
_FIELDS: Final = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


@dataclass(slots=True)
class Compiler:
    params: bool
    variables: dict[str, Type] | None
    """None: expressions cannot use `variables`."""

    def variable_causes(self, variables: list[Object]) -> list[Cause]:
        causes: list[Cause] = []
        for i, variable in enumerate(variables):
            path, name = f"spec.variables[{i}]", variable.get("name") or ""
            text = variable.get("expression") or ""
            if not name.strip():
                causes.append(required(f"{path}.name", "name is not specified"))
            elif not _NAME(name) or name in RESERVED:
                causes.append(invalid_value(f"{path}.name", name, "must be a valid CEL identifier"))
            if not text.strip():
                causes.append(required(f"{path}.expression", "expression is not specified"))
                continue
            made = self.compiled(text, ANYTHING)
            assert self.variables is not None
            self.variables[name] = made.type
            causes += _problems(made, text, f"{path}.expression")
        return causes

    def compiled(
        self, text: str, wanted: tuple[Type, ...], *, authorizer: bool = True, makes: bool = False
    ) -> Expression:
        known: Mapping[str, Type] | None = None if self.variables is None else dict(self.variables)
        return compiled(
            text, environment(params=self.params, authorizer=authorizer, variables=known, makes=makes), wanted
        )


def compiler(spec: Object, *, always: bool) -> Compiler:
    """`has_variables`: `variables` is declared even if the policy has none."""
    return Compiler(spec.get("paramKind") is not None, {} if always or spec.get("variables") else None)


def _problems(made: Expression, shown: str, path: str) -> list[Cause]:
    return [refused(path, shown, made)] if made.program is None else []


def check_causes(compiling: Compiler, check: Object, path: str) -> list[Cause]:
    """Validates one entry of `validations`."""
    text, message = check.get("expression") or "", check.get("message") or ""
    told, causes = check.get("messageExpression") or "", []
    if not text.strip():
        causes.append(required(f"{path}.expression", "expression is not specified"))
    else:
        causes += _problems(compiling.compiled(text, CONDITION), text, f"{path}.expression")
    if told and not told.strip():
        causes.append(invalid_value(f"{path}.messageExpression", told, "must be non-empty if specified"))
    elif told:
        made = compiling.compiled(told, TEXT, authorizer=False)
        causes += _problems(made, told, f"{path}.messageExpression")
    if message and not message.strip():
        causes.append(invalid_value(f"{path}.message", message, "must be non-empty if specified"))
    elif re.search(r"[\n\r]", message.strip()):
        causes.append(invalid_value(f"{path}.message", message, "must not contain line breaks"))
    return causes + one_of(check.get("reason"), f"{path}.reason", "Forbidden", "Invalid", "RequestEntityTooLarge")


def annotation_causes(compiling: Compiler, annotation: Object, policy: str, path: str) -> list[Cause]:
    key, text = annotation.get("key") or "", (annotation.get("valueExpression") or "").strip()
    causes: list[Cause] = []
    if policy:
        whole = f"{policy}/{key}"
        causes += [invalid_value(f"{path}.key", whole, wrong) for wrong in is_qualified_name(whole)]
    else:
        causes.append(invalid_value(f"{path}.key", key, "requires metadata.name be non-empty"))
    if not text:
        return [*causes, required(f"{path}.valueExpression", "valueExpression is not specified")]
    if len(text.encode()) > LONGEST_VALUE_EXPRESSION:
        long = f"must not exceed {LONGEST_VALUE_EXPRESSION} bytes in length"
        return [*causes, required(f"{path}.valueExpression", long)]
    made = compiling.compiled(text, TEXT_OR_NULL)
    return causes + _problems(made, annotation["valueExpression"], f"{path}.valueExpression")


def mutation_causes(compiling: Compiler, mutation: Object, path: str) -> list[Cause]:
    kind = mutation.get("patchType") or ""
    if not kind:
        return [required(f"{path}.patchType")]
    if kind not in _FIELDS:
        return [not_supported(f"{path}.patchType", kind, sorted(_FIELDS))]
    own = _FIELDS[kind]
    (other,) = (each for each in _FIELDS.values() if each != own)
    causes: list[Cause] = []
    given = mutation.get(own)
    if given is None:
        causes.append(required(f"{path}.{own}", f"must be specified when patchType is {kind}"))
    elif not (text := (given.get("expression") or "").strip()):
        causes.append(required(f"{path}.{own}.expression"))
    else:
        made = compiling.compiled(text, PATCHES if kind == "JSONPatch" else CONFIGURATION, makes=True)
        causes += _problems(made, text, f"{path}.{own}.expression")
    if mutation.get(other) is not None:
        said = f"must not be specified when patchType is {kind}"
        causes.append(invalid_value(f"{path}.{other}", f"{{{other}}}", said))
    return causes
