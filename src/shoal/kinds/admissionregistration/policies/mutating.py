"""Applies one mutation of a MutatingAdmissionPolicy to an object: an apply configuration or a JSON patch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.kinds.admissionregistration.policies.evaluation import (
    POLICY_COST_BUDGET,
    BudgetExceededError,
    CELEvaluation,
    EvaluationInputs,
    namespace_object,
)
from shoal.kinds.admissionregistration.policies.expressions import CELExpression
from shoal.objects import jsonpatch
from shoal.objects.apply.merge import merge, typed_errors
from shoal.objects.apply.typed import DEDUCED, TypedNode
from shoal.objects.cel import CELError
from shoal.objects.cel.library.mutation import to_json, type_name_errors
from shoal.objects.cel.values import StructValue, Value
from shoal.objects.errors import BadRequest, Invalid, TooLarge

Object = dict[str, Any]


class MutationError(Exception):
    """The mutation failed; failurePolicy decides about the request."""


def apply_mutation(
    patch_type: str,
    expression: CELExpression,
    variables: Mapping[str, CELExpression],
    schema_node: TypedNode | None,
    inputs: EvaluationInputs,
) -> Object | None:
    """Returns the mutated object; None if the mutation does not apply. `schema_node` gives the merge rules of its
    schema.
    """
    if expression.program is None:
        raise MutationError(expression.error)
    namespace = namespace_object(inputs.namespace)
    try:
        value, error = CELEvaluation(inputs, variables, POLICY_COST_BUDGET, namespace=namespace).evaluate(expression)
    except BudgetExceededError as spent:
        raise MutationError(str(spent)) from None
    if error:
        raise MutationError(error)
    assert inputs.new_object is not None
    if patch_type == "JSONPatch":
        return _apply_json_patch(inputs.new_object, [_to_patch_operation(each) for each in value])
    return _apply_configuration(inputs.new_object, value, schema_node or DEDUCED)


def _to_patch_operation(patch: Value) -> Object:
    if patch.__class__ is not StructValue:
        raise MutationError("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
    fields = patch.fields
    operation: Object = {"op": fields.get("op", ""), "path": fields.get("path", "")}
    if fields.get("from"):
        operation["from"] = fields["from"]
    if "value" in fields:
        value = fields["value"]
        if value.__class__ is StructValue:
            _check_type_names(value)
        operation["value"] = _to_json(
            value, "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
        )
    return operation


def _apply_json_patch(obj: Object, operations: list[Object]) -> Object | None:
    try:
        patched: Object = jsonpatch.apply(obj, operations)
    except (Invalid, BadRequest, TooLarge) as error:
        message = str(error.__cause__ or error)
        if message.endswith(": test failed"):
            return None  # a failed `test` means the patch does not apply
        raise MutationError(f"JSON Patch: {message}") from None
    return patched


def _apply_configuration(obj: Object, value: Value, schema_node: TypedNode) -> Object:
    _check_type_names(value)
    config: Object = _to_json(value, "invalid return type")
    config |= {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
    schema_errors = typed_errors(config, schema_node)
    if schema_errors:
        message = schema_errors[0] if len(schema_errors) == 1 else "\n  ".join(["errors:", *schema_errors])
        raise MutationError(f"error applying patch: failed to convert patch object to typed object: {message}")
    atomic = _atomic_paths(config, schema_node, "")
    if atomic:
        message = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise MutationError(f"error applying patch: invalid ApplyConfiguration: {message}")
    try:
        merged: Object = merge(obj, config, schema_node)
    except ValueError as error:
        raise MutationError(f"error applying patch: failed to merge patch: {error}") from None
    return merged


def _check_type_names(value: Value) -> None:
    name_errors = type_name_errors(value, value.kind)
    if name_errors:
        raise MutationError("type mismatch: " + "\n".join(name_errors))


def _to_json(value: Value, error_prefix: str) -> Any:
    try:
        return to_json(value)
    except CELError as error:
        raise MutationError(f"{error_prefix}: {error}") from None


def _atomic_paths(value: Any, node: TypedNode, path: str) -> list[str]:
    """Returns the paths of atomic values in the configuration: merging would replace them as a whole and lose the
    rest.
    """
    paths = []
    if type(value) is dict and node.is_map:
        if not node.granular:
            paths.append(path)
        for name, inner in value.items():
            field = node.fields.get(name)
            if field is not None:
                paths += _atomic_paths(inner, field.node, f"{path}.{name}")
    elif type(value) is list and node.is_list:
        if not node.associative:
            paths.append(path)
        for index, inner in enumerate(value):
            paths += _atomic_paths(inner, node.items, f"{path}[{index}]")
    return paths
