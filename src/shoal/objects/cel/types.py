"""Static types and assignability. Type variables (`_T`) are bound while a call is resolved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Bindings = dict[str, "Type"]


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """`kind` is the name of the run-time type (`list`, `int`), `object`, `dyn`, `error` or `param`."""

    kind: str
    params: tuple[Type, ...] = ()
    name: str = ""
    fields: Mapping[str, Type] = field(default_factory=dict)
    """Fields of an object, by their names in expressions."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Wire names of fields whose name in expressions differs."""

    def __str__(self) -> str:
        if self.kind in ("object", "param"):
            return self.name
        shown = _SHOWN.get(self.kind, self.kind)
        return f"{shown}({', '.join(map(str, self.params))})" if self.params else shown


TIMESTAMP_NAME, DURATION_NAME = "google.protobuf.Timestamp", "google.protobuf.Duration"
_SHOWN = {TIMESTAMP_NAME: "timestamp", DURATION_NAME: "duration", "null_type": "null", "error": "!error!"}

DYN, ERROR = Type("dyn"), Type("error")
INT, UINT, DOUBLE, BOOL = Type("int"), Type("uint"), Type("double"), Type("bool")
STRING, BYTES, NULL = Type("string"), Type("bytes"), Type("null_type")
TIMESTAMP, DURATION = Type(TIMESTAMP_NAME), Type(DURATION_NAME)
SCALARS = frozenset({"int", "uint", "double", "bool", TIMESTAMP_NAME, DURATION_NAME})
_NULLABLE = frozenset({"object", "optional_type", TIMESTAMP_NAME, DURATION_NAME})


def list_of(item: Type) -> Type:
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,))


def type_of(value: Type) -> Type:
    return Type("type", (value,))


def opaque(kind: str) -> Type:
    return Type(kind)


def param(name: str) -> Type:
    return Type("param", (), name)


def is_open(given: Type) -> bool:
    """True if nothing is known before run time."""
    return given.kind in ("dyn", "error", "param")


def resolved(bound: Bindings, given: Type) -> Type:
    while given.kind == "param" and given.name in bound:
        given = bound[given.name]
    return given


def substituted(bound: Bindings, given: Type, *, final: bool = False) -> Type:
    """Replaces bound type variables. `final`: unbound variables become dyn."""
    given = resolved(bound, given)
    if given.kind == "param":
        return DYN if final else given
    if not given.params:
        return given
    return Type(given.kind, tuple(substituted(bound, inner, final=final) for inner in given.params), given.name)


def fits(bound: Bindings, given: Type, wanted: Type) -> bool:
    """True if `given` is assignable to `target`. Binds type variables of both."""
    given, wanted = resolved(bound, given), resolved(bound, wanted)
    if given is wanted:
        return True
    if wanted.kind == "param" or given.kind == "param":
        variable, other = (wanted, given) if wanted.kind == "param" else (given, wanted)
        if other.kind == "param" and other.name == variable.name:
            return True
        if _occurs(bound, variable.name, other):
            return False
        bound[variable.name] = other
        return True
    if is_open(given) or is_open(wanted):
        return True
    if given.kind == "null_type" and wanted.kind in _NULLABLE:
        return True
    if given.kind != wanted.kind:
        return False
    if given.kind == "object":
        return given.name == wanted.name
    if given.kind == "type":
        return True
    return all(fits(bound, a, b) for a, b in zip(given.params, wanted.params, strict=True))


def all_fit(bound: Bindings, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
    """As `is_assignable` for a list of arguments. No variable stays bound if one argument does not fit."""
    if len(given) != len(wanted):
        return False
    trial = dict(bound)
    if not all(fits(trial, a, b) for a, b in zip(given, wanted, strict=True)):
        return False
    bound.update(trial)
    return True


def _occurs(bound: Bindings, name: str, given: Type) -> bool:
    given = resolved(bound, given)
    return (given.kind == "param" and given.name == name) or any(_occurs(bound, name, inner) for inner in given.params)
