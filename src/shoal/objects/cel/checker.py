"""Type checks an expression: every name is declared, every call has an overload, literals are valid.

Messages and positions are cel-go's. Values only known at run time are `dyn` and pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shoal.objects.cel.environment import Environment
from shoal.objects.cel.errors import CelError, CompileError
from shoal.objects.cel.fold_types import fold_type
from shoal.objects.cel.library.conversions import TYPE_NAMES
from shoal.objects.cel.library.times import read_duration, read_timestamp
from shoal.objects.cel.overloads import Overload
from shoal.objects.cel.regex import regex
from shoal.objects.cel.syntax import (
    Call,
    Choice,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    Logic,
    MapLiteral,
    Node,
    Select,
    Struct,
    qualified,
)
from shoal.objects.cel.types import (
    BOOL,
    DYN,
    ERROR,
    Bindings,
    Type,
    all_fit,
    fits,
    is_open,
    list_of,
    map_of,
    optional_of,
    param,
    resolved,
    substituted,
    type_of,
)
from shoal.objects.cel.values import kind_of


@dataclass(slots=True)
class Checked:
    """Results of the check, by `id` of the node."""

    root: Node
    types: dict[int, Type] = field(default_factory=dict)
    calls: dict[int, tuple[Overload, ...]] = field(default_factory=dict)
    """Possible overloads of a call. More than one only if the argument types are not known before run time."""
    constants: dict[int, str] = field(default_factory=dict)
    """Nodes that name a type."""
    namespaced: set[int] = field(default_factory=set)
    """Calls whose receiver is part of the function's name."""
    used: set[str] = field(default_factory=set)
    """Environment variables the expression reads."""
    variables: dict[int, str] = field(default_factory=dict)
    """Select nodes that name a variable with dots."""
    escapes: bool = True


def check(source: str, root: Node, environment: Environment) -> Checked:
    checker = Checker(source, root, environment)
    checker.type_of(root)
    if checker.problems:
        raise CompileError(source, checker.problems)
    found = checker.found
    for key, given in found.types.items():
        found.types[key] = substituted(checker.bound, given, final=True)
    _check_literals(source, found)
    return found


class Checker:
    """One check. `comprehension_types` uses it as CheckerContext."""

    def __init__(self, source: str, root: Node, environment: Environment) -> None:
        self.source = source
        self.found = Checked(root, escapes=environment.escapes)
        self.problems: list[tuple[int, str]] = []
        self.bound: Bindings = {}
        self.scopes: list[dict[str, Type]] = []
        self._environment = environment
        self._variables = environment.variables
        self._functions = environment.functions
        self._fresh = 0

    def fail(self, at: int, message: str) -> Type:
        self.problems.append((at, message))
        return ERROR

    def fresh(self) -> Type:
        self._fresh += 1
        return param(f"_var{self._fresh}")

    def resolved(self, given: Type) -> Type:
        return resolved(self.bound, given)

    def shown(self, given: Type) -> str:
        return str(substituted(self.bound, given, final=True))

    def type_of(self, node: Node) -> Type:
        given = self._type_of(node)
        self.found.types[id(node)] = given
        return given

    def _type_of(self, node: Node) -> Type:
        if isinstance(node, Literal):
            return TYPE_NAMES[kind_of(node.value)]
        if isinstance(node, Ident):
            return self._named(node, node.name) or self.fail(
                node.at, f"undeclared reference to '{node.name}' (in container '')"
            )
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, Logic):
            return self._logic(node)
        if isinstance(node, Choice):
            return self._choice(node)
        if isinstance(node, ListLiteral):
            return list_of(self._joined([self._held(item, optional) for item, optional in node.items]))
        if isinstance(node, MapLiteral):
            keys = self._joined([self.type_of(key) for key, _, _ in node.entries])
            return map_of(keys, self._joined([self._held(value, optional) for _, value, optional in node.entries]))
        if isinstance(node, Struct):
            return self._struct(node)
        assert isinstance(node, Fold)
        return fold_type(self, node)

    def _named(self, node: Node, name: str) -> Type | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if name in self._variables:
            self.found.used.add(name)
            return self._variables[name]
        if name in TYPE_NAMES:
            self.found.constants[id(node)] = name
            return type_of(TYPE_NAMES[name])
        made = self._environment.structs(name)
        if made is None:
            return None
        self.found.constants[id(node)] = name
        return type_of(made)

    def _struct(self, node: Struct) -> Type:
        made = self._environment.structs(node.name)
        if made is None:
            return self.fail(node.at, f"undeclared reference to '{node.name}' (in container '')")
        for at, name, value, optional in node.fields:
            given = self.resolved(self.type_of(value))
            if optional:
                if given.kind == "optional_type":
                    given = self.resolved(given.params[0])
                elif not is_open(given):
                    inner = self.shown(given)
                    self.fail(value.at, f"expected type 'optional_type({inner})' but found '{inner}'")
            wanted = made.fields.get(name)
            if wanted is None or not fits(self.bound, given, wanted):
                what = "" if wanted is None else self.shown(wanted)
                told = f"expected type of field '{name}' is '{what}' but provided type is '{self.shown(given)}'"
                self.fail(at, told)
        return made

    def _select(self, node: Select) -> Type:
        if not node.test and not node.optional and (name := qualified(node)) is not None:
            root = name.split(".", 1)[0]
            known = any(root in scope for scope in self.scopes)
            if not known and (found := self._named(node, name)) is not None:
                if name in self._variables:
                    self.found.variables[id(node)] = name
                return found
        operand = self.resolved(self.type_of(node.operand))
        optional = node.optional
        if operand.kind == "optional_type":
            operand, optional = self.resolved(operand.params[0]), True
        given: Type = DYN
        if operand.kind == "map":
            given = operand.params[1]
        elif operand.kind == "object":
            found = operand.fields.get(node.field)
            given = found if found is not None else self.fail(node.at, f"undefined field '{node.field}'")
        elif operand.kind == "param":
            fits(self.bound, DYN, operand)
        elif not is_open(operand):
            self.fail(node.at, f"type '{self.shown(operand)}' does not support field selection")
        if node.test:
            return BOOL
        return optional_of(given) if optional else given

    def _call(self, node: Call) -> Type:
        args = [self.type_of(arg) for arg in node.args]
        if node.target is None:
            return self._resolve(node, node.function, args)
        prefix = qualified(node.target)
        if prefix is not None and f"{prefix}.{node.function}" in self._functions:
            self.found.namespaced.add(id(node))
            return self._resolve(node, f"{prefix}.{node.function}", args)
        return self._resolve(node, node.function, [self.type_of(node.target), *args], member=True)

    def _resolve(self, node: Call, name: str, args: list[Type], member: bool = False) -> Type:
        overloads = self._functions.get(name)
        if overloads is None:
            return self.fail(node.at, f"undeclared reference to '{name}' (in container '')")
        chosen: list[Overload] = []
        result: Type | None = None
        for overload in overloads:
            if overload.member is not member or len(overload.args) != len(args):
                continue
            names: dict[str, Type] = {}
            wanted = [self._instance(arg, names) for arg in overload.args]
            if not all_fit(self.bound, args, wanted):
                continue
            chosen.append(overload)
            given = substituted(self.bound, self._instance(overload.result, names))
            if result is None:
                result = given
            elif not is_open(result) and str(result) != str(given):
                result = DYN
        if result is None:
            return self.no_overload(node, name, args, member)
        self.found.calls[id(node)] = tuple(chosen)
        return result

    def no_overload(self, node: Node, name: str, args: list[Type], member: bool = False) -> Type:
        shown = [self.shown(arg) for arg in args]
        receiver, rest = (f"{shown[0]}.", shown[1:]) if member else ("", shown)
        told = f"found no matching overload for '{name}' applied to '{receiver}({', '.join(rest)})'"
        return self.fail(node.at, told)

    def _instance(self, given: Type, names: dict[str, Type]) -> Type:
        """Replaces the type parameters of an overload by fresh ones of this call."""
        if given.kind == "param":
            if given.name not in names:
                names[given.name] = self.fresh()
            return names[given.name]
        if not given.params:
            return given
        return Type(given.kind, tuple(self._instance(inner, names) for inner in given.params), given.name)

    def _logic(self, node: Logic) -> Type:
        given = [(term, self.type_of(term)) for term in node.terms]
        for term, kind in given:
            self.expect_bool(term, kind)
        return BOOL

    def expect_bool(self, node: Node, given: Type) -> None:
        if not fits(self.bound, given, BOOL):
            self.fail(node.at, f"expected type 'bool' but found '{self.shown(given)}'")

    def _choice(self, node: Choice) -> Type:
        args = [self.type_of(part) for part in (node.condition, node.yes, node.no)]
        result = self.fresh()
        if not all_fit(self.bound, args, (BOOL, result, result)):
            return self.no_overload(node, "_?_:_", args)
        return substituted(self.bound, result)

    def _held(self, node: Node, optional: bool) -> Type:
        """Returns the type of an item; for `?item`, the type of the optional's value."""
        given = self.type_of(node)
        if not optional:
            return given
        inner = self.resolved(given)
        if inner.kind == "optional_type":
            return inner.params[0]
        if not is_open(inner):
            self.fail(node.at, f"expected type 'optional_type({inner})' but found '{inner}'")
        return DYN

    def _joined(self, given: list[Type]) -> Type:
        if not given:
            return self.fresh()
        joined = given[0]
        for kind in given[1:]:
            if not fits(self.bound, joined, kind):
                return DYN
            if is_open(self.resolved(kind)):
                joined = kind
        return joined


def _check_literals(source: str, found: Checked) -> None:
    """Rejects constants that always fail, and lists of mixed types, which Kubernetes does not allow."""
    problems: list[tuple[int, str]] = []

    def visit(node: Node, mixed: bool = False) -> None:
        if isinstance(node, Call):
            literal = node.args[-1] if node.args else None
            text = literal.value if isinstance(literal, Literal) else None
            if literal is not None and isinstance(text, str) and not _sound(node.function, text):
                problems.append((literal.at, f"invalid {node.function} argument"))
            mixed = mixed or node.function == "format"
        elif isinstance(node, ListLiteral) and not mixed:
            _same_types(found, node.items, problems)
        elif isinstance(node, MapLiteral) and not mixed:
            _same_types(found, [(key, False) for key, _, _ in node.entries], problems)
            _same_types(found, [(value, optional) for _, value, optional in node.entries], problems)
        for child in _children(node):
            visit(child, mixed)

    visit(found.root)
    if problems:
        raise CompileError(source, problems)


def _sound(function: str, text: str) -> bool:
    try:
        if function == "duration":
            return read_duration(text) is not None
        if function == "timestamp":
            return read_timestamp(text) is not None
        return function != "matches" or regex(text) is not None
    except (ValueError, CelError):
        return False


def _same_types(found: Checked, nodes: list[tuple[Node, bool]], problems: list[tuple[int, str]]) -> None:
    first: Type | None = None
    for node, optional in nodes:
        given = found.types[id(node)]
        if optional and given.kind == "optional_type":
            given = given.params[0]
        if is_open(given):
            continue
        if first is None:
            first = given
        elif not fits({}, given, first):
            problems.append((node.at, f"expected type '{first}' but found '{given}'"))
            return


def _children(node: Node) -> list[Node]:
    if isinstance(node, Select):
        return [node.operand]
    if isinstance(node, Call):
        return node.args if node.target is None else [node.target, *node.args]
    if isinstance(node, Logic):
        return node.terms
    if isinstance(node, Choice):
        return [node.condition, node.yes, node.no]
    if isinstance(node, ListLiteral):
        return [item for item, _ in node.items]
    if isinstance(node, MapLiteral):
        return [part for key, value, _ in node.entries for part in (key, value)]
    if isinstance(node, Struct):
        return [value for _, _, value, _ in node.fields]
    return [node.range, *node.args] if isinstance(node, Fold) else []
