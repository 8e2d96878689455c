"""Plans a checked AST into a program: one closure per node, variables resolved to frame slots, fixed costs added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from shoal.objects.cel.calls import call, same_scalars, same_texts
from shoal.objects.cel.checker import Checked
from shoal.objects.cel.errors import CelError, CompileError, CostExceeded, no_overload
from shoal.objects.cel.folds import fold
from shoal.objects.cel.overloads import Overload
from shoal.objects.cel.regex import regex
from shoal.objects.cel.selects import optional_select, presence, select
from shoal.objects.cel.steps import (
    COST,
    FAILURES,
    FIRST,
    Frame,
    Run,
    Step,
    as_error,
    charge,
    charged,
    choice,
    constant,
    logic,
    logic_of_two,
)
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
)
from shoal.objects.cel.types import SCALARS, Type
from shoal.objects.cel.values import Made, Optional, TypeValue, Value, kind_of

_CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})
_LIST_COST, _MAP_COST, _STRUCT_COST = 10, 30, 40
_HASHED = (str, int, float, bool)


class InstantiationError(CompileError):
    """A valid expression with a constant that cannot be computed."""

    def __init__(self, message: str) -> None:
        Exception.__init__(self, message)
        self.problems = [message]


class Outcome(NamedTuple):
    value: Value
    error: CelError | CostExceeded | None
    cost: int


class Program:
    """A compiled expression: compiled once, evaluated often."""

    def __init__(self, checked: Checked, variables: Sequence[str]) -> None:
        self.checked = checked
        self.result: Type = checked.types[id(checked.root)]
        self.uses = frozenset(checked.used)
        """The variables it reads."""
        planner = _Planner(checked, variables)
        step = planner.step(checked.root)
        self._run = step.run
        self._cost = step.cost
        self._locals = [None] * planner.deepest

    def evaluate(self, values: Sequence[Value], limit: int) -> Outcome:
        """`values` are in the order of the variables it was compiled with."""
        frame: Frame = [self._cost, limit, *values, *self._locals]
        try:
            charge(frame, 0)
            value = self._run(frame)
            charge(frame, 0)
        except CostExceeded as exceeded:
            return Outcome(None, exceeded, frame[0])
        except FAILURES as problem:
            return Outcome(None, as_error(problem), frame[0])
        except RecursionError:
            return Outcome(None, CelError("the values are nested too deeply"), frame[0])
        return Outcome(value, None, frame[0])


class _Planner:
    def __init__(self, checked: Checked, variables: Sequence[str]) -> None:
        self.checked = checked
        self.places = {name: FIRST + index for index, name in enumerate(variables)}
        self.base = FIRST + len(variables)
        self.depth = 0
        self.deepest = 0

    def bind(self, names: list[str]) -> list[int]:
        """Allocates slots for the variables of a comprehension. In its body they hide outer variables of the same
        name.
        """
        places = [self.base + self.depth + index for index in range(len(names))]
        self.depth += len(names)
        self.deepest = max(self.deepest, self.depth)
        return places

    def inside(self, names: list[str], places: list[int], nodes: list[Node]) -> list[Step]:
        outer = self.places
        self.places = {**outer, **dict(zip(names, places, strict=True))}
        steps = [self.step(node) for node in nodes]
        self.places = outer
        self.depth -= len(names)
        return steps

    def kind(self, node: Node) -> Type:
        return self.checked.types[id(node)]

    def step(self, node: Node) -> Step:
        if isinstance(node, Literal):
            return constant(node.value)
        name = self.checked.constants.get(id(node))
        if name is not None:
            return constant(TypeValue(name))
        name = node.name if isinstance(node, Ident) else self.checked.variables.get(id(node))
        if name is not None:
            place = self.places[name]
            return Step(lambda frame: frame[place], 1, attribute=True)
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, Logic):
            return self._logic(node)
        if isinstance(node, Choice):
            condition, yes, no = self.step(node.condition), self.step(node.yes), self.step(node.no)
            branches = [charged(branch, 1 if branch.attribute else 0) for branch in (yes, no)]
            return Step(choice(condition.run, *branches), condition.cost)
        if isinstance(node, ListLiteral):
            return self._list(node)
        if isinstance(node, MapLiteral):
            return self._map(node)
        if isinstance(node, Struct):
            return self._struct(node)
        assert isinstance(node, Fold)
        over = self.step(node.range)
        places = self.bind(node.names)
        return fold(node.macro, over, places, self.inside(node.names, places, node.args))

    def _select(self, node: Select) -> Step:
        operand = self.step(node.operand)
        kind = self.kind(node.operand)
        held = kind.kind == "optional_type"
        if held:
            kind = kind.params[0]
        key = kind.keys.get(node.field, node.field)
        known = kind.kind == "object"
        escapes = self.checked.escapes
        cost = operand.cost if operand.attribute or isinstance(node.operand, Choice) else operand.cost + 1
        if node.test:
            return Step(presence(operand.run, key, known, escapes), cost)
        if node.optional or held:
            return Step(optional_select(operand.run, key, known, escapes), cost, attribute=True)
        return Step(select(operand.run, key, known, escapes), cost + 1, attribute=True)

    def _call(self, node: Call) -> Step:
        nodes = node.args if node.target is None or id(node) in self.checked.namespaced else [node.target, *node.args]
        overloads = self.checked.calls[id(node)]
        args = [self.step(arg) for arg in nodes]
        types = [self.kind(arg) for arg in nodes]
        name = overloads[0].name
        if name in ("_[_]", "_[?_]"):
            return _index(overloads, args, types)
        if name in ("_==_", "_!=_") and types[0].kind == types[1].kind:
            if types[0].kind in SCALARS:
                return same_scalars(name == "_==_", args)
            if types[0].kind in ("string", "bytes"):
                return same_texts(name == "_==_", args)
        if name in ("or", "orValue"):
            return _or(name, args)
        if name in ("find", "findAll") and args[1].constant:
            _check_pattern(args[1].run([]))
        if name == "@in" and args[1].constant and types[1].kind == "list":
            return _among(args, overloads, types)
        step = call(overloads, args, types)
        if name in _CONVERSIONS and len(args) == 1 and args[0].constant:
            return _computed(step)
        return step

    def _logic(self, node: Logic) -> Step:
        decides = node.function == "_||_"
        terms = [self.step(term) for term in node.terms]
        runs = [terms[0].run, *(charged(term) for term in terms[1:])]
        run = logic_of_two(runs[0], runs[1], decides) if len(runs) == 2 else logic(runs, decides)
        return Step(run, terms[0].cost)

    def _list(self, node: ListLiteral) -> Step:
        steps = [self.step(item) for item, _ in node.items]
        if any(optional for _, optional in node.items):
            parts = [(step.run, optional) for step, (_, optional) in zip(steps, node.items, strict=True)]
            return Step(lambda frame: _with_optionals(parts, frame), _LIST_COST + sum(step.cost for step in steps))
        if all(step.constant for step in steps):
            return constant([step.run([]) for step in steps])
        runs = [step.run for step in steps]
        return Step(lambda frame: [run(frame) for run in runs], _LIST_COST + sum(step.cost for step in steps))

    def _map(self, node: MapLiteral) -> Step:
        entries = [(self.step(key), self.step(value), optional) for key, value, optional in node.entries]
        runs = [(key.run, value.run, optional) for key, value, optional in entries]

        def run(frame: Frame) -> dict[Value, Value]:
            made: dict[Value, Value] = {}
            for key, value, optional in runs:
                name, held = key(frame), value(frame)
                if name.__class__ is float or not isinstance(name, _HASHED):
                    raise CelError("unsupported key type")
                if name in made:
                    raise CelError(f"Failed with repeated key: {name}")
                if not optional:
                    made[name] = held
                elif held.__class__ is not Optional:
                    raise CelError(f"cannot initialize optional entry '{name}' from non-optional value {held}")
                elif held.present:
                    made[name] = held.value
            return made

        step = Step(run, _MAP_COST + sum(key.cost + value.cost for key, value, _ in entries))
        if all(key.constant and value.constant and not optional for key, value, optional in entries):
            return _computed(step)
        return step

    def _struct(self, node: Struct) -> Step:
        made = self.kind(node)
        steps = [(name, self.step(value), optional) for _, name, value, optional in node.fields]
        runs = [(name, step.run, optional) for name, step, optional in steps]
        texts = frozenset(name for name, kind in made.fields.items() if kind.kind == "string")

        def run(frame: Frame) -> Made:
            fields: dict[str, Value] = {}
            for name, held, optional in runs:
                value = held(frame)
                if optional:
                    if value.__class__ is not Optional:
                        raise CelError(f"cannot initialize optional entry '{name}' from non-optional value {value}")
                    if not value.present:
                        continue
                    value = value.value
                if name in texts and value.__class__ is not str:
                    raise CelError(f"unexpected type {kind_of(value)} for {made.name}Type '{name}' field")
                fields[name] = value
            return Made(made.name, fields)

        return Step(run, _STRUCT_COST + sum(step.cost for _, step, _ in steps))


def _with_optionals(parts: list[tuple[Any, bool]], frame: Frame) -> list[Value]:
    made = []
    for run, optional in parts:
        value = run(frame)
        if not optional:
            made.append(value)
        elif value.__class__ is not Optional:
            raise CelError(f"cannot initialize optional list element from non-optional value {value}")
        elif value.present:
            made.append(value.value)
    return made


def _computed(step: Step) -> Step:
    try:
        return constant(step.run([0, 1 << 62]))
    except FAILURES as problem:
        raise InstantiationError(str(as_error(problem))) from None


def _check_pattern(pattern: str) -> None:
    try:
        regex(pattern)
    except ValueError as why:
        raise InstantiationError(str(why)) from None


def _index(overloads: Sequence[Overload], args: list[Step], types: list[Type]) -> Step:
    operand, index = args
    cost = operand.cost if operand.attribute else operand.cost + 1
    cost += index.cost - 1 if index.attribute else index.cost
    step = call(overloads, [Step(operand.run), Step(index.run)], types)
    if overloads[0].name == "_[?_]":
        return Step(_found_costs(step), cost, attribute=True)
    return Step(step.run, cost + step.cost, attribute=True)


def _found_costs(step: Step) -> Run:
    """An absent item costs nothing."""
    run, sure = step.run, step.cost

    def held(frame: Frame) -> Value:
        value = run(frame)
        frame[COST] += sure if value.present else sure - 1
        return value

    return held


def _or(name: str, args: list[Step]) -> Step:
    held, other = args[0].run, charged(args[1])
    whole = name == "or"

    def run(frame: Frame) -> Value:
        value = held(frame)
        if value.__class__ is not Optional:
            raise no_overload()
        if not value.present:
            return other(frame)
        return value if whole else value.value

    return Step(run, args[0].cost)


def _among(args: list[Step], overloads: Sequence[Overload], types: list[Type]) -> Step:
    """Plans `x in ['a', 'b']`: a constant list becomes a set and, as upstream, costs nothing."""
    items = args[1].run([])
    if not items:
        return constant(False)
    if any(item.__class__ is not str for item in items):
        step = call(overloads, args, types)
        free = all(item.__class__ in _HASHED for item in items)
        return Step(_any_of(args[0].run, items), args[0].cost) if free else step
    among, item = frozenset(items), args[0].run

    def run(frame: Frame) -> bool:
        value = item(frame)
        return value.__class__ is str and value in among

    return Step(run, args[0].cost)


def _any_of(item: Any, items: list[Value]) -> Any:
    from_bools = frozenset(value for value in items if value.__class__ is bool)
    numbers = frozenset(value for value in items if value.__class__ is not bool and value.__class__ is not str)
    texts = frozenset(value for value in items if value.__class__ is str)

    def run(frame: Frame) -> bool:
        value = item(frame)
        if value.__class__ is bool:
            return value in from_bools
        if value.__class__ is str:
            return value in texts
        return isinstance(value, (int, float)) and value in numbers

    return run
