"""Type-checks the expressions of a ValidatingAdmissionPolicy against the schemas of its kinds, for warnings in its
status.

The result does not affect admission: at evaluation objects are untyped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from shoal.kinds.admissionregistration.policies.environment import NAMESPACE_TYPE, REQUEST_TYPE, VARIABLES_TYPE_NAME
from shoal.kinds.admissionregistration.policies.expressions import variable_type_of
from shoal.kinds.builtin_schemas import builtin_schema
from shoal.objects import cel
from shoal.objects.cel.library.authz import AUTHORIZER
from shoal.objects.cel.types import DYN, CELType
from shoal.objects.celvalidation.decltype import decl_type_of

Object = dict[str, Any]

MAX_TYPES: Final = 10
MAX_CHECKED_CHARS: Final = 20_000
"""Characters of expressions that are checked, for all kinds together: this takes less than 100 ms. Expressions beyond
are not checked.
"""


class TypedKind(NamedTuple):
    display_name: str
    """`apps/v1, Kind=Deployment`"""
    object_type: CELType


def object_type_of(name: str, schema: Object) -> CELType:
    """Returns the CEL type of a kind by its published schema. Recursion ends in an object without fields."""
    decl = decl_type_of(_expand_refs(schema, frozenset()), root=True, name=name)
    return DYN if decl is None else decl.cel_type


def _expand_refs(schema: Object, ancestors: frozenset[str]) -> Object:
    reference = _ref_of(schema)
    if reference:
        if reference in ancestors:
            return {"type": "object"}
        ancestors |= {reference}
        schema = builtin_schema(reference.rpartition("/")[2])
    if schema.get("format") == "int-or-string":
        return {"x-kubernetes-int-or-string": True}
    expanded: Object = {key: schema[key] for key in ("type", "format") if key in schema}
    expanded |= {key: value for key, value in schema.items() if key.startswith("x-kubernetes-")}
    if properties := schema.get("properties"):
        expanded["properties"] = {name: _expand_refs(each, ancestors) for name, each in properties.items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            expanded[key] = _expand_refs(schema[key], ancestors)
    return expanded


def _ref_of(schema: Object) -> str:
    ref: str = schema.get("$ref") or ""
    return ref or next((ref for each in schema.get("allOf") or () if (ref := _ref_of(each))), "")


def type_warnings(spec: Object, kinds: list[TypedKind], params: CELType | None) -> list[Object]:
    """Returns the warnings of the status. `params` is DYN if its kind is unknown, and None if there is none."""
    budget = MAX_CHECKED_CHARS // (len(kinds) or 1)
    budget -= sum(len(variable.get("expression") or "") for variable in spec.get("variables") or ())
    if budget < 0:
        return []
    environments = [(kind.display_name, _typed_environment(spec, kind.object_type, params)) for kind in kinds]
    warnings: list[Object] = []
    for i, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            text = validation.get(field)
            if not text:
                continue
            budget -= len(text)
            if budget < 0:
                return warnings
            messages = [
                f"{display_name}: {issue}\n"
                for display_name, cel_environment in environments
                for issue in _compile_errors(text, cel_environment)
            ]
            if messages:
                warnings.append({"fieldRef": f"spec.validations[{i}].{field}", "warning": "\n".join(messages)})
    return warnings


def _typed_environment(spec: Object, object_type: CELType, params: CELType | None) -> cel.CELEnvironment:
    names: dict[str, CELType] = {
        "object": object_type,
        "oldObject": object_type,
        "request": REQUEST_TYPE,
        "namespaceObject": NAMESPACE_TYPE,
    }
    names["authorizer"] = AUTHORIZER
    if params is not None:
        names["params"] = params
    variables: dict[str, CELType] = {}
    for variable in spec.get("variables") or ():
        cel_environment = _with_variables(names, variables)
        try:
            variable_type = variable_type_of(
                cel.check_in_environment(variable.get("expression") or "", cel_environment)
            )
        except cel.CELCompileError:
            variable_type = DYN
        variables[variable.get("name") or ""] = variable_type
    return _with_variables(names, variables)


def _compile_errors(text: str, cel_environment: cel.CELEnvironment) -> list[str]:
    try:
        cel.check_in_environment(text, cel_environment)
    except cel.CELCompileError as error:
        return [str(error)]
    return []


def _with_variables(names: Mapping[str, CELType], variables: Mapping[str, CELType]) -> cel.CELEnvironment:
    return cel.CELEnvironment({**names, "variables": CELType("object", (), VARIABLES_TYPE_NAME, dict(variables))})
