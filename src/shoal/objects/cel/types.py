"""Static types and assignability. Type variables (`_T`) are bound while a call is resolved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

TypeBindings = dict[str, "CELType"]


@dataclass(frozen=True, slots=True, eq=False)
class CELType:
    """`kind` is the name of the run-time type (`list`, `int`), `object`, `dyn`, `error` or `param`."""

    kind: str
    params: tuple[CELType, ...] = ()
    name: str = ""
    fields: Mapping[str, CELType] = field(default_factory=dict)
    """Fields of an object, by their names in expressions."""
    wire_names: Mapping[str, str] = field(default_factory=dict)
    """Wire names of fields whose name in expressions differs."""

    def __str__(self) -> str:
        if self.kind in ("object", "param"):
            return self.name
        display_name = _DISPLAY_NAMES.get(self.kind, self.kind)
        return f"{display_name}({', '.join(map(str, self.params))})" if self.params else display_name


TIMESTAMP_NAME, DURATION_NAME = "google.protobuf.Timestamp", "google.protobuf.Duration"
_DISPLAY_NAMES = {TIMESTAMP_NAME: "timestamp", DURATION_NAME: "duration", "null_type": "null", "error": "!error!"}

DYN, ERROR = CELType("dyn"), CELType("error")
INT, UINT, DOUBLE, BOOL = CELType("int"), CELType("uint"), CELType("double"), CELType("bool")
STRING, BYTES, NULL = CELType("string"), CELType("bytes"), CELType("null_type")
TIMESTAMP, DURATION = CELType(TIMESTAMP_NAME), CELType(DURATION_NAME)
SCALARS = frozenset({"int", "uint", "double", "bool", TIMESTAMP_NAME, DURATION_NAME})
_NULLABLE = frozenset({"object", "optional_type", TIMESTAMP_NAME, DURATION_NAME})


def list_of(item: CELType) -> CELType:
    return CELType("list", (item,))


def map_of(key: CELType, value: CELType) -> CELType:
    return CELType("map", (key, value))


def optional_of(value: CELType) -> CELType:
    return CELType("optional_type", (value,))


def type_type(value: CELType) -> CELType:
    return CELType("type", (value,))


def opaque_type(kind: str) -> CELType:
    return CELType(kind)


def type_param(name: str) -> CELType:
    return CELType("param", (), name)


def is_dynamic(given: CELType) -> bool:
    """True if nothing is known before run time."""
    return given.kind in ("dyn", "error", "param")


def resolve(bindings: TypeBindings, given: CELType) -> CELType:
    while given.kind == "param" and given.name in bindings:
        given = bindings[given.name]
    return given


def substitute(bindings: TypeBindings, given: CELType, *, final: bool = False) -> CELType:
    """Replaces bound type variables. `final`: unbound variables become dyn."""
    given = resolve(bindings, given)
    if given.kind == "param":
        return DYN if final else given
    if not given.params:
        return given
    return CELType(given.kind, tuple(substitute(bindings, inner, final=final) for inner in given.params), given.name)


def is_assignable(bindings: TypeBindings, given: CELType, target: CELType) -> bool:
    """True if `given` is assignable to `target`. Binds type variables of both."""
    given, target = resolve(bindings, given), resolve(bindings, target)
    if given is target:
        return True
    if target.kind == "param" or given.kind == "param":
        variable, other = (target, given) if target.kind == "param" else (given, target)
        if other.kind == "param" and other.name == variable.name:
            return True
        if _occurs_in(bindings, variable.name, other):
            return False
        bindings[variable.name] = other
        return True
    if is_dynamic(given) or is_dynamic(target):
        return True
    if given.kind == "null_type" and target.kind in _NULLABLE:
        return True
    if given.kind != target.kind:
        return False
    if given.kind == "object":
        return given.name == target.name
    if given.kind == "type":
        return True
    return all(is_assignable(bindings, a, b) for a, b in zip(given.params, target.params, strict=True))


def are_assignable(bindings: TypeBindings, given: Sequence[CELType], targets: Sequence[CELType]) -> bool:
    """As `is_assignable` for a list of arguments. No variable stays bound if one argument does not fit."""
    if len(given) != len(targets):
        return False
    trial = dict(bindings)
    if not all(is_assignable(trial, a, b) for a, b in zip(given, targets, strict=True)):
        return False
    bindings.update(trial)
    return True


def _occurs_in(bindings: TypeBindings, name: str, given: CELType) -> bool:
    given = resolve(bindings, given)
    return (given.kind == "param" and given.name == name) or any(
        _occurs_in(bindings, name, inner) for inner in given.params
    )
