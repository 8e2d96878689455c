"""Type checks an expression: every name is declared, every call has an overload, literals are valid.

Messages and positions are cel-go's. Values only known at run time are `dyn` and pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shoal.objects.cel.ast import (
    CallExpr,
    ComprehensionExpr,
    ConditionalExpr,
    ExprNode,
    IdentExpr,
    ListExpr,
    LiteralExpr,
    LogicExpr,
    MapExpr,
    SelectExpr,
    StructExpr,
    qualified_name,
)
from shoal.objects.cel.comprehension_types import comprehension_type
from shoal.objects.cel.environment import CELEnvironment
from shoal.objects.cel.errors import CELCompileError, CELError
from shoal.objects.cel.library.conversions import TYPE_NAMES
from shoal.objects.cel.library.times import parse_duration, parse_timestamp
from shoal.objects.cel.overloads import Overload
from shoal.objects.cel.regex import compile_regex
from shoal.objects.cel.types import (
    BOOL,
    DYN,
    ERROR,
    CELType,
    TypeBindings,
    are_assignable,
    is_assignable,
    is_dynamic,
    list_of,
    map_of,
    optional_of,
    resolve,
    substitute,
    type_param,
    type_type,
)
from shoal.objects.cel.values import kind_of


@dataclass(slots=True)
class CheckedExpr:
    """Results of the check, by `id` of the node."""

    root: ExprNode
    types: dict[int, CELType] = field(default_factory=dict)
    calls: dict[int, tuple[Overload, ...]] = field(default_factory=dict)
    """Possible overloads of a call. More than one only if the argument types are not known before run time."""
    type_names: dict[int, str] = field(default_factory=dict)
    """Nodes that name a type."""
    namespaced_calls: set[int] = field(default_factory=set)
    """Calls whose receiver is part of the function's name."""
    used_variables: set[str] = field(default_factory=set)
    """Environment variables the expression reads."""
    qualified_variables: dict[int, str] = field(default_factory=dict)
    """Select nodes that name a variable with dots."""
    unescape_fields: bool = True


def check(source: str, root: ExprNode, environment: CELEnvironment) -> CheckedExpr:
    checker = ExprChecker(source, root, environment)
    checker.type_of(root)
    if checker.errors:
        raise CELCompileError(source, checker.errors)
    checked = checker.checked
    for key, given in checked.types.items():
        checked.types[key] = substitute(checker.bindings, given, final=True)
    _check_literals(source, checked)
    return checked


class ExprChecker:
    """One check. `comprehension_types` uses it as CheckerContext."""

    def __init__(self, source: str, root: ExprNode, environment: CELEnvironment) -> None:
        self.source = source
        self.checked = CheckedExpr(root, unescape_fields=environment.unescape_fields)
        self.errors: list[tuple[int, str]] = []
        self.bindings: TypeBindings = {}
        self.scopes: list[dict[str, CELType]] = []
        self._environment = environment
        self._variables = environment.variables
        self._functions = environment.functions
        self._type_param_count = 0

    def report(self, at: int, message: str) -> CELType:
        self.errors.append((at, message))
        return ERROR

    def fresh_type_param(self) -> CELType:
        self._type_param_count += 1
        return type_param(f"_var{self._type_param_count}")

    def resolve(self, given: CELType) -> CELType:
        return resolve(self.bindings, given)

    def display_name(self, given: CELType) -> str:
        return str(substitute(self.bindings, given, final=True))

    def type_of(self, node: ExprNode) -> CELType:
        given = self._check_node(node)
        self.checked.types[id(node)] = given
        return given

    def _check_node(self, node: ExprNode) -> CELType:
        if isinstance(node, LiteralExpr):
            return TYPE_NAMES[kind_of(node.value)]
        if isinstance(node, IdentExpr):
            return self._resolve_name(node, node.name) or self.report(
                node.offset, f"undeclared reference to '{node.name}' (in container '')"
            )
        if isinstance(node, SelectExpr):
            return self._check_select(node)
        if isinstance(node, CallExpr):
            return self._check_call(node)
        if isinstance(node, LogicExpr):
            return self._check_logic(node)
        if isinstance(node, ConditionalExpr):
            return self._check_conditional(node)
        if isinstance(node, ListExpr):
            return list_of(self._join_types([self._item_type(item, optional) for item, optional in node.items]))
        if isinstance(node, MapExpr):
            keys = self._join_types([self.type_of(key) for key, _, _ in node.entries])
            return map_of(
                keys, self._join_types([self._item_type(value, optional) for _, value, optional in node.entries])
            )
        if isinstance(node, StructExpr):
            return self._check_struct(node)
        assert isinstance(node, ComprehensionExpr)
        return comprehension_type(self, node)

    def _resolve_name(self, node: ExprNode, name: str) -> CELType | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if name in self._variables:
            self.checked.used_variables.add(name)
            return self._variables[name]
        if name in TYPE_NAMES:
            self.checked.type_names[id(node)] = name
            return type_type(TYPE_NAMES[name])
        struct_type = self._environment.resolve_struct(name)
        if struct_type is None:
            return None
        self.checked.type_names[id(node)] = name
        return type_type(struct_type)

    def _check_struct(self, node: StructExpr) -> CELType:
        struct_type = self._environment.resolve_struct(node.name)
        if struct_type is None:
            return self.report(node.offset, f"undeclared reference to '{node.name}' (in container '')")
        for at, name, value, optional in node.fields:
            given = self.resolve(self.type_of(value))
            if optional:
                if given.kind == "optional_type":
                    given = self.resolve(given.params[0])
                elif not is_dynamic(given):
                    inner = self.display_name(given)
                    self.report(value.offset, f"expected type 'optional_type({inner})' but found '{inner}'")
            field_type = struct_type.fields.get(name)
            if field_type is None or not is_assignable(self.bindings, given, field_type):
                type_name = "" if field_type is None else self.display_name(field_type)
                message = (
                    f"expected type of field '{name}' is '{type_name}' but provided "
                    f"type is '{self.display_name(given)}'"
                )
                self.report(at, message)
        return struct_type

    def _check_select(self, node: SelectExpr) -> CELType:
        if not node.test_only and not node.optional and (name := qualified_name(node)) is not None:
            root = name.split(".", 1)[0]
            is_local = any(root in scope for scope in self.scopes)
            if not is_local and (found := self._resolve_name(node, name)) is not None:
                if name in self._variables:
                    self.checked.qualified_variables[id(node)] = name
                return found
        operand = self.resolve(self.type_of(node.operand))
        optional = node.optional
        if operand.kind == "optional_type":
            operand, optional = self.resolve(operand.params[0]), True
        given: CELType = DYN
        if operand.kind == "map":
            given = operand.params[1]
        elif operand.kind == "object":
            found = operand.fields.get(node.field)
            given = found if found is not None else self.report(node.offset, f"undefined field '{node.field}'")
        elif operand.kind == "param":
            is_assignable(self.bindings, DYN, operand)
        elif not is_dynamic(operand):
            self.report(node.offset, f"type '{self.display_name(operand)}' does not support field selection")
        if node.test_only:
            return BOOL
        return optional_of(given) if optional else given

    def _check_call(self, node: CallExpr) -> CELType:
        args = [self.type_of(arg) for arg in node.args]
        if node.target is None:
            return self._resolve_overload(node, node.function, args)
        prefix = qualified_name(node.target)
        if prefix is not None and f"{prefix}.{node.function}" in self._functions:
            self.checked.namespaced_calls.add(id(node))
            return self._resolve_overload(node, f"{prefix}.{node.function}", args)
        return self._resolve_overload(node, node.function, [self.type_of(node.target), *args], member=True)

    def _resolve_overload(self, node: CallExpr, name: str, args: list[CELType], member: bool = False) -> CELType:
        overloads = self._functions.get(name)
        if overloads is None:
            return self.report(node.offset, f"undeclared reference to '{name}' (in container '')")
        chosen: list[Overload] = []
        result: CELType | None = None
        for overload in overloads:
            if overload.is_member is not member or len(overload.args) != len(args):
                continue
            type_params: dict[str, CELType] = {}
            parameters = [self._instantiate(arg, type_params) for arg in overload.args]
            if not are_assignable(self.bindings, args, parameters):
                continue
            chosen.append(overload)
            given = substitute(self.bindings, self._instantiate(overload.result, type_params))
            if result is None:
                result = given
            elif not is_dynamic(result) and str(result) != str(given):
                result = DYN
        if result is None:
            return self.report_no_overload(node, name, args, member)
        self.checked.calls[id(node)] = tuple(chosen)
        return result

    def report_no_overload(self, node: ExprNode, name: str, args: list[CELType], member: bool = False) -> CELType:
        type_names = [self.display_name(arg) for arg in args]
        receiver, rest = (f"{type_names[0]}.", type_names[1:]) if member else ("", type_names)
        message = f"found no matching overload for '{name}' applied to '{receiver}({', '.join(rest)})'"
        return self.report(node.offset, message)

    def _instantiate(self, given: CELType, type_params: dict[str, CELType]) -> CELType:
        """Replaces the type parameters of an overload by fresh ones of this call."""
        if given.kind == "param":
            if given.name not in type_params:
                type_params[given.name] = self.fresh_type_param()
            return type_params[given.name]
        if not given.params:
            return given
        return CELType(given.kind, tuple(self._instantiate(inner, type_params) for inner in given.params), given.name)

    def _check_logic(self, node: LogicExpr) -> CELType:
        given = [(term, self.type_of(term)) for term in node.terms]
        for term, kind in given:
            self.expect_bool(term, kind)
        return BOOL

    def expect_bool(self, node: ExprNode, given: CELType) -> None:
        if not is_assignable(self.bindings, given, BOOL):
            self.report(node.offset, f"expected type 'bool' but found '{self.display_name(given)}'")

    def _check_conditional(self, node: ConditionalExpr) -> CELType:
        args = [self.type_of(part) for part in (node.condition, node.if_true, node.if_false)]
        result = self.fresh_type_param()
        if not are_assignable(self.bindings, args, (BOOL, result, result)):
            return self.report_no_overload(node, "_?_:_", args)
        return substitute(self.bindings, result)

    def _item_type(self, node: ExprNode, optional: bool) -> CELType:
        """Returns the type of an item; for `?item`, the type of the optional's value."""
        given = self.type_of(node)
        if not optional:
            return given
        inner = self.resolve(given)
        if inner.kind == "optional_type":
            return inner.params[0]
        if not is_dynamic(inner):
            self.report(node.offset, f"expected type 'optional_type({inner})' but found '{inner}'")
        return DYN

    def _join_types(self, given: list[CELType]) -> CELType:
        if not given:
            return self.fresh_type_param()
        joined = given[0]
        for kind in given[1:]:
            if not is_assignable(self.bindings, joined, kind):
                return DYN
            if is_dynamic(self.resolve(kind)):
                joined = kind
        return joined


def _check_literals(source: str, checked: CheckedExpr) -> None:
    """Rejects constants that always fail, and lists of mixed types, which Kubernetes does not allow."""
    errors: list[tuple[int, str]] = []

    def visit(node: ExprNode, mixed: bool = False) -> None:
        if isinstance(node, CallExpr):
            literal = node.args[-1] if node.args else None
            text = literal.value if isinstance(literal, LiteralExpr) else None
            if literal is not None and isinstance(text, str) and not _is_valid_literal(node.function, text):
                errors.append((literal.offset, f"invalid {node.function} argument"))
            mixed = mixed or node.function == "format"
        elif isinstance(node, ListExpr) and not mixed:
            _check_same_types(checked, node.items, errors)
        elif isinstance(node, MapExpr) and not mixed:
            _check_same_types(checked, [(key, False) for key, _, _ in node.entries], errors)
            _check_same_types(checked, [(value, optional) for _, value, optional in node.entries], errors)
        for child in _children(node):
            visit(child, mixed)

    visit(checked.root)
    if errors:
        raise CELCompileError(source, errors)


def _is_valid_literal(function: str, text: str) -> bool:
    try:
        if function == "duration":
            return parse_duration(text) is not None
        if function == "timestamp":
            return parse_timestamp(text) is not None
        return function != "matches" or compile_regex(text) is not None
    except (ValueError, CELError):
        return False


def _check_same_types(checked: CheckedExpr, nodes: list[tuple[ExprNode, bool]], errors: list[tuple[int, str]]) -> None:
    first: CELType | None = None
    for node, optional in nodes:
        given = checked.types[id(node)]
        if optional and given.kind == "optional_type":
            given = given.params[0]
        if is_dynamic(given):
            continue
        if first is None:
            first = given
        elif not is_assignable({}, given, first):
            errors.append((node.offset, f"expected type '{first}' but found '{given}'"))
            return


def _children(node: ExprNode) -> list[ExprNode]:
    if isinstance(node, SelectExpr):
        return [node.operand]
    if isinstance(node, CallExpr):
        return node.args if node.target is None else [node.target, *node.args]
    if isinstance(node, LogicExpr):
        return node.terms
    if isinstance(node, ConditionalExpr):
        return [node.condition, node.if_true, node.if_false]
    if isinstance(node, ListExpr):
        return [item for item, _ in node.items]
    if isinstance(node, MapExpr):
        return [part for key, value, _ in node.entries for part in (key, value)]
    if isinstance(node, StructExpr):
        return [value for _, _, value, _ in node.fields]
    return [node.iter_range, *node.args] if isinstance(node, ComprehensionExpr) else []
