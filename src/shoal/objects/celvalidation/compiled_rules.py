"""Compiles the CEL rules of a schema (`x-kubernetes-validations`) into a tree of the schema nodes that have rules.

Compile errors are stored, not raised: creating a definition reports them, and validating an object fails with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.objects import cel
from shoal.objects.cel import CELCompileError, CELProgram, InstantiationError
from shoal.objects.cel.cost_estimate import estimate_cost
from shoal.objects.cel.escaping import escape
from shoal.objects.cel.types import optional_of
from shoal.objects.celvalidation.decltype import DeclType, decl_type_of
from shoal.objects.celvalidation.fieldpath import normalize_field_path

JsonSchema = dict[str, Any]

VALIDATIONS_KEY = "x-kubernetes-validations"
_EMBEDDED = "x-kubernetes-embedded-resource"


@dataclass(slots=True)
class CELRule:
    """One rule. Without a program it is invalid, and `error` says why."""

    text: str
    message: str = ""
    reason: str = ""
    path: str = ""
    """Path below the rule's node at which a failure is reported."""
    optional_old_self: bool = False
    program: CELProgram | None = None
    error: str = ""
    estimated_cost: int = 0
    """Worst-case cost."""
    uses_old_self: bool = False
    message_expression: str = ""
    message_program: CELProgram | None = None
    message_error: str = ""
    message_cost: int = 0

    def display_text(self) -> str:
        return self.message.strip() or self.text.strip()


@dataclass(slots=True)
class RuleNode:
    """A schema node with rules, at it or below it. `schema` is that of the value. `all_of` holds further rules for the
    same value.
    """

    schema: JsonSchema
    decl_type: DeclType | None
    rules: list[CELRule]
    items: RuleNode | None = None
    additional_properties: RuleNode | None = None
    properties: dict[str, RuleNode] = field(default_factory=dict)
    all_of: list[RuleNode] = field(default_factory=list)


def build_rule_tree(schema: JsonSchema) -> RuleNode | None:
    """Returns the rules of a whole resource's schema, or None."""
    return _build_node(schema, schema, decl_type_of(schema, root=True)) if _has_rules(schema) else None


def compile_rules(schema: JsonSchema, decl_type: DeclType, given: list[dict[str, Any]]) -> list[CELRule]:
    """Compiles the rules of one schema node, in order."""
    return [_compile_rule(schema, decl_type, rule) for rule in given]


def _has_rules(schema: JsonSchema) -> bool:
    if schema.get(VALIDATIONS_KEY):
        return True
    inner = [schema.get("items"), schema.get("additionalProperties")]
    inner += (schema.get("properties") or {}).values()
    return any(isinstance(sub, dict) and _has_rules(sub) for sub in inner)


def _build_node(rules: JsonSchema, schema: JsonSchema, decl_type: DeclType | None) -> RuleNode | None:
    """`rules` is the schema itself or one of its allOf, which adds rules for the same value."""
    node = RuleNode(
        schema,
        decl_type,
        compile_rules(schema, decl_type, rules.get(VALIDATIONS_KEY) or []) if decl_type is not None else [],
    )
    item = decl_type.item if decl_type is not None else None
    for name in ("items", "additionalProperties"):
        sub_rules, inner = rules.get(name), schema.get(name)
        if isinstance(sub_rules, dict) and isinstance(inner, dict):
            child = _build_node(sub_rules, inner, item)
            if name == "items":
                node.items = child
            else:
                node.additional_properties = child
    for name, sub_rules in (rules.get("properties") or {}).items():
        inner = (schema.get("properties") or {}).get(name)
        if (
            isinstance(inner, dict)
            and decl_type is not None
            and (field_type := _field_decl(decl_type, name, inner)) is not None
        ):
            child = _build_node(sub_rules, inner, field_type)
            if child is not None:
                node.properties[name] = child
    node.all_of = [
        child for part in rules.get("allOf") or () if (child := _build_node(part, schema, decl_type)) is not None
    ]
    return node if node.rules or node.items or node.additional_properties or node.properties or node.all_of else None


def _field_decl(decl_type: DeclType, name: str, schema: JsonSchema) -> DeclType | None:
    """Returns the declaration of a property. A property whose name cannot be written in an expression is still
    validated by its own rules.
    """
    if escape(name) is not None:
        return decl_type.field_of(name)
    return decl_type_of(schema, root=bool(schema.get(_EMBEDDED)))


def _compile_rule(schema: JsonSchema, decl_type: DeclType, given: dict[str, Any]) -> CELRule:
    rule = CELRule(
        text=given.get("rule") or "",
        message=given.get("message") or "",
        reason=given.get("reason") or "",
        path=normalize_field_path(given.get("fieldPath") or "", schema) or "",
        optional_old_self=bool(given.get("optionalOldSelf")),
        message_expression=given.get("messageExpression") or "",
    )
    if not rule.text.strip():
        return rule
    variables = {
        "self": decl_type.cel_type,
        "oldSelf": optional_of(decl_type.cel_type) if rule.optional_old_self else decl_type.cel_type,
    }
    try:
        program = cel.compile_expression(rule.text, variables)
    except InstantiationError as problem:
        rule.error = f"program instantiation failed: {problem}"
        return rule
    except CELCompileError as problem:
        rule.error = f"compilation failed: {problem}"
        return rule
    if program.result.kind != "bool":
        rule.error = "cel expression must evaluate to a bool"
        return rule
    rule.program, rule.uses_old_self = program, "oldSelf" in program.used_variables
    rule.estimated_cost = estimate_cost(program.checked, decl_type.max_size_at)
    if rule.message_expression:
        _compile_message(rule, decl_type, variables)
    return rule


def _compile_message(rule: CELRule, decl_type: DeclType, variables: dict[str, Any]) -> None:
    try:
        program = cel.compile_expression(rule.message_expression, variables)
    except InstantiationError as problem:
        rule.message_error = f"messageExpression instantiation failed: {problem}"
        return
    except CELCompileError as problem:
        rule.message_error = f"messageExpression compilation failed: {problem}"
        return
    if program.result.kind != "string":
        rule.message_error = "messageExpression must evaluate to a string"
        return
    rule.message_program = program
    rule.message_cost = estimate_cost(program.checked, decl_type.max_size_at)
