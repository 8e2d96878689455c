"""Plans a checked AST into a program: one closure per node, variables resolved to frame slots, fixed costs added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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
)
from shoal.objects.cel.calls import plan_call, plan_scalar_equality, plan_string_equality
from shoal.objects.cel.checker import CheckedExpr
from shoal.objects.cel.comprehensions import fold
from shoal.objects.cel.errors import CELCompileError, CELError, CostLimitExceeded, no_overload
from shoal.objects.cel.field_access import eval_has, eval_optional_select, eval_select
from shoal.objects.cel.interpretable import (
    COST,
    EVAL_ERRORS,
    FIRST_VARIABLE,
    EvalFrame,
    EvalFunc,
    Interpretable,
    charge,
    constant,
    eval_binary_logic,
    eval_conditional,
    eval_logic,
    to_cel_error,
    with_cost,
)
from shoal.objects.cel.overloads import Overload
from shoal.objects.cel.pause import PAUSE_COST, PauseFunc, current_pause
from shoal.objects.cel.regex import compile_regex
from shoal.objects.cel.types import SCALARS, CELType
from shoal.objects.cel.values import OptionalValue, StructValue, TypeValue, Value, kind_of

_CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})
_LIST_COST, _MAP_COST, _STRUCT_COST = 10, 30, 40
_HASHABLE = (str, int, float, bool)


class InstantiationError(CELCompileError):
    """A valid expression with a constant that cannot be computed."""

    def __init__(self, message: str) -> None:
        Exception.__init__(self, message)
        self.errors = [message]


class EvalResult(NamedTuple):
    value: Value
    error: CELError | CostLimitExceeded | None
    cost: int


class CELProgram:
    """A compiled expression: compiled once, evaluated often."""

    def __init__(self, checked: CheckedExpr, variables: Sequence[str]) -> None:
        self.checked = checked
        self.result: CELType = checked.types[id(checked.root)]
        self.used_variables = frozenset(checked.used_variables)
        """The variables it reads."""
        planner = _Planner(checked, variables)
        step = planner.plan(checked.root)
        self._eval = step.evaluate
        self._cost = step.cost
        self._locals = [None] * planner.max_depth

    def evaluate(self, values: Sequence[Value], limit: int, pause: PauseFunc | None = None) -> EvalResult:
        """`values` are in the order of the variables it was compiled with. `pause` is called every PAUSE_COST units and
        in long functions; what it raises ends the evaluation.
        """
        if pause is None or current_pause.get() is pause:
            return self._evaluate(values, limit, pause)
        token = current_pause.set(pause)
        try:
            return self._evaluate(values, limit, pause)
        finally:
            current_pause.reset(token)

    def _evaluate(self, values: Sequence[Value], limit: int, pause: PauseFunc | None) -> EvalResult:
        next_limit = limit if pause is None else min(limit, PAUSE_COST)
        frame: EvalFrame = [self._cost, next_limit, (limit, pause), *values, *self._locals]
        try:
            charge(frame, 0)
            value = self._eval(frame)
            charge(frame, 0)
        except CostLimitExceeded as exceeded:
            return EvalResult(None, exceeded, frame[0])
        except EVAL_ERRORS as problem:
            return EvalResult(None, to_cel_error(problem), frame[0])
        except RecursionError:
            return EvalResult(None, CELError("the values are nested too deeply"), frame[0])
        return EvalResult(value, None, frame[0])


class _Planner:
    def __init__(self, checked: CheckedExpr, variables: Sequence[str]) -> None:
        self.checked = checked
        self.slots = {name: FIRST_VARIABLE + index for index, name in enumerate(variables)}
        self.first_local = FIRST_VARIABLE + len(variables)
        self.depth = 0
        self.max_depth = 0

    def bind(self, names: list[str]) -> list[int]:
        """Allocates slots for the variables of a comprehension. In its body they hide outer variables of the same
        name.
        """
        slots = [self.first_local + self.depth + index for index in range(len(names))]
        self.depth += len(names)
        self.max_depth = max(self.max_depth, self.depth)
        return slots

    def plan_in_scope(self, names: list[str], slots: list[int], nodes: list[ExprNode]) -> list[Interpretable]:
        outer = self.slots
        self.slots = {**outer, **dict(zip(names, slots, strict=True))}
        steps = [self.plan(node) for node in nodes]
        self.slots = outer
        self.depth -= len(names)
        return steps

    def type_of(self, node: ExprNode) -> CELType:
        return self.checked.types[id(node)]

    def plan(self, node: ExprNode) -> Interpretable:
        if isinstance(node, LiteralExpr):
            return constant(node.value)
        name = self.checked.type_names.get(id(node))
        if name is not None:
            return constant(TypeValue(name))
        name = node.name if isinstance(node, IdentExpr) else self.checked.qualified_variables.get(id(node))
        if name is not None:
            slot = self.slots[name]
            return Interpretable(lambda frame: frame[slot], 1, is_attribute=True)
        if isinstance(node, SelectExpr):
            return self._plan_select(node)
        if isinstance(node, CallExpr):
            return self._plan_call(node)
        if isinstance(node, LogicExpr):
            return self._plan_logic(node)
        if isinstance(node, ConditionalExpr):
            condition, yes, no = self.plan(node.condition), self.plan(node.if_true), self.plan(node.if_false)
            branches = [with_cost(branch, 1 if branch.is_attribute else 0) for branch in (yes, no)]
            return Interpretable(eval_conditional(condition.evaluate, *branches), condition.cost)
        if isinstance(node, ListExpr):
            return self._plan_list(node)
        if isinstance(node, MapExpr):
            return self._plan_map(node)
        if isinstance(node, StructExpr):
            return self._plan_struct(node)
        assert isinstance(node, ComprehensionExpr)
        iter_range = self.plan(node.iter_range)
        slots = self.bind(node.iter_vars)
        return fold(node.macro, iter_range, slots, self.plan_in_scope(node.iter_vars, slots, node.args))

    def _plan_select(self, node: SelectExpr) -> Interpretable:
        operand = self.plan(node.operand)
        kind = self.type_of(node.operand)
        is_optional = kind.kind == "optional_type"
        if is_optional:
            kind = kind.params[0]
        key = kind.wire_names.get(node.field, node.field)
        is_typed = kind.kind == "object"
        escapes = self.checked.unescape_fields
        cost = operand.cost if operand.is_attribute or isinstance(node.operand, ConditionalExpr) else operand.cost + 1
        if node.test_only:
            return Interpretable(eval_has(operand.evaluate, key, is_typed, escapes), cost)
        if node.optional or is_optional:
            return Interpretable(
                eval_optional_select(operand.evaluate, key, is_typed, escapes), cost, is_attribute=True
            )
        return Interpretable(eval_select(operand.evaluate, key, is_typed, escapes), cost + 1, is_attribute=True)

    def _plan_call(self, node: CallExpr) -> Interpretable:
        nodes = (
            node.args if node.target is None or id(node) in self.checked.namespaced_calls else [node.target, *node.args]
        )
        overloads = self.checked.calls[id(node)]
        args = [self.plan(arg) for arg in nodes]
        types = [self.type_of(arg) for arg in nodes]
        name = overloads[0].name
        if name in ("_[_]", "_[?_]"):
            return _plan_index(overloads, args, types)
        if name in ("_==_", "_!=_") and types[0].kind == types[1].kind:
            if types[0].kind in SCALARS:
                return plan_scalar_equality(name == "_==_", args)
            if types[0].kind in ("string", "bytes"):
                return plan_string_equality(name == "_==_", args)
        if name in ("or", "orValue"):
            return _plan_or(name, args)
        if name in ("find", "findAll") and args[1].is_constant:
            _check_pattern(args[1].evaluate([]))
        if name == "@in" and args[1].is_constant and types[1].kind == "list":
            return _plan_constant_in(args, overloads, types)
        step = plan_call(overloads, args, types)
        if name in _CONVERSIONS and len(args) == 1 and args[0].is_constant:
            return _fold_constant(step)
        return step

    def _plan_logic(self, node: LogicExpr) -> Interpretable:
        decides = node.function == "_||_"
        terms = [self.plan(term) for term in node.terms]
        runs = [terms[0].evaluate, *(with_cost(term) for term in terms[1:])]
        run = eval_binary_logic(runs[0], runs[1], decides) if len(runs) == 2 else eval_logic(runs, decides)
        return Interpretable(run, terms[0].cost)

    def _plan_list(self, node: ListExpr) -> Interpretable:
        steps = [self.plan(item) for item, _ in node.items]
        if any(optional for _, optional in node.items):
            parts = [(step.evaluate, optional) for step, (_, optional) in zip(steps, node.items, strict=True)]
            return Interpretable(
                lambda frame: _eval_list_with_optionals(parts, frame), _LIST_COST + sum(step.cost for step in steps)
            )
        if all(step.is_constant for step in steps):
            return constant([step.evaluate([]) for step in steps])
        runs = [step.evaluate for step in steps]
        return Interpretable(lambda frame: [run(frame) for run in runs], _LIST_COST + sum(step.cost for step in steps))

    def _plan_map(self, node: MapExpr) -> Interpretable:
        entries = [(self.plan(key), self.plan(value), optional) for key, value, optional in node.entries]
        runs = [(key.evaluate, value.evaluate, optional) for key, value, optional in entries]

        def run(frame: EvalFrame) -> dict[Value, Value]:
            result: dict[Value, Value] = {}
            for key, value, optional in runs:
                name, held = key(frame), value(frame)
                if name.__class__ is float or not isinstance(name, _HASHABLE):
                    raise CELError("unsupported key type")
                if name in result:
                    raise CELError(f"Failed with repeated key: {name}")
                if not optional:
                    result[name] = held
                elif held.__class__ is not OptionalValue:
                    raise CELError(f"cannot initialize optional entry '{name}' from non-optional value {held}")
                elif held.present:
                    result[name] = held.value
            return result

        step = Interpretable(run, _MAP_COST + sum(key.cost + value.cost for key, value, _ in entries))
        if all(key.is_constant and value.is_constant and not optional for key, value, optional in entries):
            return _fold_constant(step)
        return step

    def _plan_struct(self, node: StructExpr) -> Interpretable:
        struct_type = self.type_of(node)
        steps = [(name, self.plan(value), optional) for _, name, value, optional in node.fields]
        runs = [(name, step.evaluate, optional) for name, step, optional in steps]
        texts = frozenset(name for name, kind in struct_type.fields.items() if kind.kind == "string")

        def run(frame: EvalFrame) -> StructValue:
            fields: dict[str, Value] = {}
            for name, held, optional in runs:
                value = held(frame)
                if optional:
                    if value.__class__ is not OptionalValue:
                        raise CELError(f"cannot initialize optional entry '{name}' from non-optional value {value}")
                    if not value.present:
                        continue
                    value = value.value
                if name in texts and value.__class__ is not str:
                    raise CELError(f"unexpected type {kind_of(value)} for {struct_type.name}Type '{name}' field")
                fields[name] = value
            return StructValue(struct_type.name, fields)

        return Interpretable(run, _STRUCT_COST + sum(step.cost for _, step, _ in steps))


def _eval_list_with_optionals(parts: list[tuple[Any, bool]], frame: EvalFrame) -> list[Value]:
    result = []
    for run, optional in parts:
        value = run(frame)
        if not optional:
            result.append(value)
        elif value.__class__ is not OptionalValue:
            raise CELError(f"cannot initialize optional list element from non-optional value {value}")
        elif value.present:
            result.append(value.value)
    return result


def _fold_constant(step: Interpretable) -> Interpretable:
    try:
        return constant(step.evaluate([0, 1 << 62]))
    except EVAL_ERRORS as problem:
        raise InstantiationError(str(to_cel_error(problem))) from None


def _check_pattern(pattern: str) -> None:
    try:
        compile_regex(pattern)
    except ValueError as why:
        raise InstantiationError(str(why)) from None


def _plan_index(overloads: Sequence[Overload], args: list[Interpretable], types: list[CELType]) -> Interpretable:
    operand, index = args
    cost = operand.cost if operand.is_attribute else operand.cost + 1
    cost += index.cost - 1 if index.is_attribute else index.cost
    step = plan_call(overloads, [Interpretable(operand.evaluate), Interpretable(index.evaluate)], types)
    if overloads[0].name == "_[?_]":
        return Interpretable(_charge_if_present(step), cost, is_attribute=True)
    return Interpretable(step.evaluate, cost + step.cost, is_attribute=True)


def _charge_if_present(step: Interpretable) -> EvalFunc:
    """An absent item costs nothing."""
    run, fixed_cost = step.evaluate, step.cost

    def eval_and_charge(frame: EvalFrame) -> Value:
        value = run(frame)
        frame[COST] += fixed_cost if value.present else fixed_cost - 1
        return value

    return eval_and_charge


def _plan_or(name: str, args: list[Interpretable]) -> Interpretable:
    optional, other = args[0].evaluate, with_cost(args[1])
    wants_optional = name == "or"

    def run(frame: EvalFrame) -> Value:
        value = optional(frame)
        if value.__class__ is not OptionalValue:
            raise no_overload()
        if not value.present:
            return other(frame)
        return value if wants_optional else value.value

    return Interpretable(run, args[0].cost)


def _plan_constant_in(args: list[Interpretable], overloads: Sequence[Overload], types: list[CELType]) -> Interpretable:
    """Plans `x in ['a', 'b']`: a constant list becomes a set and, as upstream, costs nothing."""
    items = args[1].evaluate([])
    if not items:
        return constant(False)
    if any(item.__class__ is not str for item in items):
        step = plan_call(overloads, args, types)
        all_hashable = all(item.__class__ in _HASHABLE for item in items)
        return Interpretable(_eval_constant_in(args[0].evaluate, items), args[0].cost) if all_hashable else step
    members, item = frozenset(items), args[0].evaluate

    def run(frame: EvalFrame) -> bool:
        value = item(frame)
        return value.__class__ is str and value in members

    return Interpretable(run, args[0].cost)


def _eval_constant_in(item: Any, items: list[Value]) -> Any:
    bools = frozenset(value for value in items if value.__class__ is bool)
    numbers = frozenset(value for value in items if value.__class__ is not bool and value.__class__ is not str)
    texts = frozenset(value for value in items if value.__class__ is str)

    def run(frame: EvalFrame) -> bool:
        value = item(frame)
        if value.__class__ is bool:
            return value in bools
        if value.__class__ is str:
            return value in texts
        return isinstance(value, (int, float)) and value in numbers

    return run
