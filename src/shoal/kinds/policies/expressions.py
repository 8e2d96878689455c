"""One expression of a policy or match condition: compiled once, or its compile error."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.kinds.policies.environment import PLACES
from shoal.objects import cel
from shoal.objects.cel.library.patches import OBJECT, PATCH
from shoal.objects.cel.types import BOOL, DYN, NULL, STRING, Type, list_of, map_of
from shoal.objects.errors import Cause, invalid_value

CONDITION = (BOOL,)
TEXT = (STRING,)
TEXT_OR_NULL = (STRING, NULL)
CONFIGURATION = (OBJECT,)
PATCHES = (list_of(PATCH),)
ANYTHING: tuple[Type, ...] = ()
_KEPT = frozenset({
    "bool", "bytes", "double", "int", "null_type", "string", "uint", "google.protobuf.Duration",
    "google.protobuf.Timestamp",
})  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    text: str
    program: cel.Program | None = None
    problem: str = ""
    internal: bool = False
    """The expression is valid, but no program can be built from it."""

    @property
    def type(self) -> Type:
        """The type other expressions see for a variable with this value."""
        return DYN if self.program is None else kept_type(self.program.result)


def compiled(text: str, environment: cel.Environment, wanted: tuple[Type, ...]) -> Expression:
    try:
        program = cel.compile_in(text, environment, PLACES)
    except cel.InstantiationError as error:
        return Expression(text, problem=f"program instantiation failed: {error}", internal=True)
    except cel.CompileError as error:
        return Expression(text, problem=f"compilation failed: {error}")
    found, names = _named(program.result), [_named(each) for each in wanted]
    if names and found not in names:
        what = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
        return Expression(text, problem=f"must evaluate to {what} but got {found}")
    return Expression(text, program)


def refused(path: str, shown: str, made: Expression) -> Cause:
    """Returns the validation cause of an expression that does not compile."""
    if made.internal:
        return Cause("InternalError", f"{path}: Internal error: {made.problem}", path)
    return invalid_value(path, shown, made.problem)


def _named(kind: Type) -> str:
    """Returns the type name that upstream's validation messages use. It differs from CEL's own."""
    name = kind.name if kind.kind == "object" else kind.kind
    return f"{name}({', '.join(map(_named, kind.params))})" if kind.params else name


def kept_type(kind: Type) -> Type:
    """Returns the type other expressions see for a variable of this type: object fields are not visible."""
    if kind.kind in _KEPT:
        return kind
    if kind.kind == "list":
        return list_of(kept_type(kind.params[0]))
    return map_of(*map(kept_type, kind.params)) if kind.kind == "map" else DYN
