"""Applies one mutation of a MutatingAdmissionPolicy to an object: an apply configuration or a JSON patch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.kinds.policies.evaluation import BUDGET, Evaluation, Inputs, OutOfBudget, namespace_shown
from shoal.kinds.policies.expressions import Expression
from shoal.objects import jsonpatch
from shoal.objects.apply.merge import merge, problems
from shoal.objects.apply.typed import DEDUCED, Node
from shoal.objects.cel import CelError
from shoal.objects.cel.library.patches import as_json, misnamed
from shoal.objects.cel.values import Made, Value
from shoal.objects.errors import BadRequest, Invalid, TooLarge

Object = dict[str, Any]


class Failed(Exception):
    """The mutation failed; failurePolicy decides about the request."""


def mutated(
    kind: str, expression: Expression, variables: Mapping[str, Expression], inputs: Inputs, root: Node | None
) -> Object | None:
    """Returns the mutated object; None if the mutation does not apply. `schema_node` gives the merge rules of its
    schema.
    """
    if expression.program is None:
        raise Failed(expression.problem)
    namespace = namespace_shown(inputs.namespace)
    try:
        value, error = Evaluation(inputs, variables, BUDGET, namespace=namespace).run(expression)
    except OutOfBudget as spent:
        raise Failed(str(spent)) from None
    if error:
        raise Failed(error)
    assert inputs.object is not None
    if kind == "JSONPatch":
        return _patched(inputs.object, [_operation(each) for each in value])
    return _applied(inputs.object, value, root or DEDUCED)


def _operation(made: Value) -> Object:
    if made.__class__ is not Made:
        raise Failed("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
    fields = made.fields
    operation: Object = {"op": fields.get("op", ""), "path": fields.get("path", "")}
    if fields.get("from"):
        operation["from"] = fields["from"]
    if "value" in fields:
        value = fields["value"]
        if value.__class__ is Made:
            _check_names(value)
        operation["value"] = _on_the_wire(
            value, "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
        )
    return operation


def _patched(obj: Object, operations: list[Object]) -> Object | None:
    try:
        made: Object = jsonpatch.apply(obj, operations)
    except (Invalid, BadRequest, TooLarge) as error:
        said = str(error.__cause__ or error)
        if said.endswith(": test failed"):
            return None  # a failed `test` means the patch does not apply
        raise Failed(f"JSON Patch: {said}") from None
    return made


def _applied(obj: Object, value: Value, root: Node) -> Object:
    _check_names(value)
    config: Object = _on_the_wire(value, "invalid return type")
    config |= {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
    wrong = problems(config, root)
    if wrong:
        said = wrong[0] if len(wrong) == 1 else "\n  ".join(["errors:", *wrong])
        raise Failed(f"error applying patch: failed to convert patch object to typed object: {said}")
    atomic = _atomics(config, root, "")
    if atomic:
        said = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise Failed(f"error applying patch: invalid ApplyConfiguration: {said}")
    try:
        merged: Object = merge(obj, config, root)
    except ValueError as error:
        raise Failed(f"error applying patch: failed to merge patch: {error}") from None
    return merged


def _check_names(value: Value) -> None:
    wrong = misnamed(value, value.kind)
    if wrong:
        raise Failed("type mismatch: " + "\n".join(wrong))


def _on_the_wire(value: Value, told: str) -> Any:
    try:
        return as_json(value)
    except CelError as error:
        raise Failed(f"{told}: {error}") from None


def _atomics(value: Any, node: Node, path: str) -> list[str]:
    """Returns the paths of atomic values in the configuration: merging would replace them as a whole and lose the
    rest.
    """
    found = []
    if type(value) is dict and node.maps:
        if not node.granular:
            found.append(path)
        for name, inner in value.items():
            field = node.fields.get(name)
            if field is not None:
                found += _atomics(inner, field.node, f"{path}.{name}")
    elif type(value) is list and node.lists:
        if not node.associative:
            found.append(path)
        for index, inner in enumerate(value):
            found += _atomics(inner, node.items, f"{path}[{index}]")
    return found
