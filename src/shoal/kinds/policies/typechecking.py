"""Type-checks the expressions of a ValidatingAdmissionPolicy against the schemas of its kinds, for warnings in its
status.

The result does not affect admission: at evaluation objects are untyped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from shoal.kinds.definitions import definition
from shoal.kinds.policies.environment import NAMESPACE, REQUEST, VARIABLES
from shoal.kinds.policies.expressions import kept_type
from shoal.objects import cel
from shoal.objects.cel.library.authz import AUTHORIZER
from shoal.objects.cel.types import DYN, Type
from shoal.objects.rules.declared import declared

Object = dict[str, Any]

MOST_KINDS: Final = 10


class Kind(NamedTuple):
    shown: str
    """`apps/v1, Kind=Deployment`"""
    type: Type


def kind_type(name: str, schema: Object) -> Type:
    """Returns the CEL type of a kind by its published schema. Recursion ends in an object without fields."""
    found = declared(_expanded(schema, frozenset()), root=True, name=name)
    return DYN if found is None else found.type


def _expanded(schema: Object, above: frozenset[str]) -> Object:
    reference = _reference(schema)
    if reference:
        if reference in above:
            return {"type": "object"}
        above |= {reference}
        schema = definition(reference.rpartition("/")[2])
    if schema.get("format") == "int-or-string":
        return {"x-kubernetes-int-or-string": True}
    made: Object = {key: schema[key] for key in ("type", "format") if key in schema}
    made |= {key: value for key, value in schema.items() if key.startswith("x-kubernetes-")}
    if properties := schema.get("properties"):
        made["properties"] = {name: _expanded(each, above) for name, each in properties.items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            made[key] = _expanded(schema[key], above)
    return made


def _reference(schema: Object) -> str:
    found: str = schema.get("$ref") or ""
    return found or next((found for each in schema.get("allOf") or () if (found := _reference(each))), "")


def type_warnings(spec: Object, kinds: list[Kind], params: Type | None) -> list[Object]:
    """Returns the warnings of the status. `params` is DYN if its kind is unknown, and None if there is none."""
    known = [(kind.shown, _environment(spec, kind.type, params)) for kind in kinds]
    warnings: list[Object] = []
    for i, check in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            text = check.get(field)
            if not text:
                continue
            told = [f"{shown}: {issue}\n" for shown, names in known for issue in _issues(text, names)]
            if told:
                warnings.append({"fieldRef": f"spec.validations[{i}].{field}", "warning": "\n".join(told)})
    return warnings


def _environment(spec: Object, kind: Type, params: Type | None) -> cel.Environment:
    names: dict[str, Type] = {"object": kind, "oldObject": kind, "request": REQUEST, "namespaceObject": NAMESPACE}
    names["authorizer"] = AUTHORIZER
    if params is not None:
        names["params"] = params
    variables: dict[str, Type] = {}
    for variable in spec.get("variables") or ():
        known = _known(names, variables)
        try:
            made = kept_type(cel.check_in(variable.get("expression") or "", known))
        except cel.CompileError:
            made = DYN
        variables[variable.get("name") or ""] = made
    return _known(names, variables)


def _issues(text: str, known: cel.Environment) -> list[str]:
    try:
        cel.check_in(text, known)
    except cel.CompileError as error:
        return [str(error)]
    return []


def _known(names: Mapping[str, Type], variables: Mapping[str, Type]) -> cel.Environment:
    return cel.Environment({**names, "variables": Type("object", (), VARIABLES, dict(variables))})
