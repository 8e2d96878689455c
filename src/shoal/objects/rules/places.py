"""Compiles the CEL rules of a schema (`x-kubernetes-validations`) into a tree of the schema nodes that have rules.

Compile errors are stored, not raised: creating a definition reports them, and validating an object fails with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.objects import cel
from shoal.objects.cel import CompileError, InstantiationError, Program
from shoal.objects.cel.escaping import escaped
from shoal.objects.cel.estimate import estimate
from shoal.objects.cel.types import optional_of
from shoal.objects.rules.declared import Declared, declared
from shoal.objects.rules.paths import normalized

JsonSchema = dict[str, Any]

KEY = "x-kubernetes-validations"
_EMBEDDED = "x-kubernetes-embedded-resource"


@dataclass(slots=True)
class Rule:
    """One rule. Without a program it is invalid, and `error` says why."""

    text: str
    message: str = ""
    reason: str = ""
    path: str = ""
    """Path below the rule's node at which a failure is reported."""
    optional_old: bool = False
    program: Program | None = None
    error: str = ""
    cost: int = 0
    """Worst-case cost."""
    uses_old: bool = False
    message_text: str = ""
    message_program: Program | None = None
    message_error: str = ""
    message_cost: int = 0

    def shown(self) -> str:
        return self.message.strip() or self.text.strip()


@dataclass(slots=True)
class Place:
    """A schema node with rules, at it or below it. `schema` is that of the value. `all_of` holds further rules for the
    same value.
    """

    schema: JsonSchema
    declared: Declared | None
    rules: list[Rule]
    items: Place | None = None
    additional: Place | None = None
    properties: dict[str, Place] = field(default_factory=dict)
    all_of: list[Place] = field(default_factory=list)


def places(schema: JsonSchema) -> Place | None:
    """Returns the rules of a whole resource's schema, or None."""
    return _place(schema, schema, declared(schema, root=True)) if _has_rules(schema) else None


def compiled(schema: JsonSchema, kind: Declared, given: list[dict[str, Any]]) -> list[Rule]:
    """Compiles the rules of one schema node, in order."""
    return [_rule(schema, kind, rule) for rule in given]


def _has_rules(schema: JsonSchema) -> bool:
    if schema.get(KEY):
        return True
    inner = [schema.get("items"), schema.get("additionalProperties")]
    inner += (schema.get("properties") or {}).values()
    return any(isinstance(sub, dict) and _has_rules(sub) for sub in inner)


def _place(rules: JsonSchema, schema: JsonSchema, kind: Declared | None) -> Place | None:
    """`rules` is the schema itself or one of its allOf, which adds rules for the same value."""
    here = Place(schema, kind, compiled(schema, kind, rules.get(KEY) or []) if kind is not None else [])
    item = kind.item if kind is not None else None
    for name in ("items", "additionalProperties"):
        more, inner = rules.get(name), schema.get(name)
        if isinstance(more, dict) and isinstance(inner, dict):
            found = _place(more, inner, item)
            if name == "items":
                here.items = found
            else:
                here.additional = found
    for name, more in (rules.get("properties") or {}).items():
        inner = (schema.get("properties") or {}).get(name)
        if isinstance(inner, dict) and kind is not None and (known := _field(kind, name, inner)) is not None:
            found = _place(more, inner, known)
            if found is not None:
                here.properties[name] = found
    here.all_of = [found for part in rules.get("allOf") or () if (found := _place(part, schema, kind)) is not None]
    return here if here.rules or here.items or here.additional or here.properties or here.all_of else None


def _field(kind: Declared, name: str, schema: JsonSchema) -> Declared | None:
    """Returns the declaration of a property. A property whose name cannot be written in an expression is still
    validated by its own rules.
    """
    if escaped(name) is not None:
        return kind.named(name)
    return declared(schema, root=bool(schema.get(_EMBEDDED)))


def _rule(schema: JsonSchema, kind: Declared, given: dict[str, Any]) -> Rule:
    rule = Rule(
        text=given.get("rule") or "",
        message=given.get("message") or "",
        reason=given.get("reason") or "",
        path=normalized(given.get("fieldPath") or "", schema) or "",
        optional_old=bool(given.get("optionalOldSelf")),
        message_text=given.get("messageExpression") or "",
    )
    if not rule.text.strip():
        return rule
    variables = {"self": kind.type, "oldSelf": optional_of(kind.type) if rule.optional_old else kind.type}
    try:
        program = cel.compile(rule.text, variables)
    except InstantiationError as problem:
        rule.error = f"program instantiation failed: {problem}"
        return rule
    except CompileError as problem:
        rule.error = f"compilation failed: {problem}"
        return rule
    if program.result.kind != "bool":
        rule.error = "cel expression must evaluate to a bool"
        return rule
    rule.program, rule.uses_old = program, "oldSelf" in program.uses
    rule.cost = estimate(program.checked, kind.size_at)
    if rule.message_text:
        _message(rule, kind, variables)
    return rule


def _message(rule: Rule, kind: Declared, variables: dict[str, Any]) -> None:
    try:
        program = cel.compile(rule.message_text, variables)
    except InstantiationError as problem:
        rule.message_error = f"messageExpression instantiation failed: {problem}"
        return
    except CompileError as problem:
        rule.message_error = f"messageExpression compilation failed: {problem}"
        return
    if program.result.kind != "string":
        rule.message_error = "messageExpression must evaluate to a string"
        return
    rule.message_program = program
    rule.message_cost = estimate(program.checked, kind.size_at)
