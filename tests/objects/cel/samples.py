"""The object of the recorded expressions and its schema: a field of every CEL type."""

from __future__ import annotations

from typing import Any

from shoal.objects import cel
from shoal.objects.cel.types import DYN
from shoal.objects.celvalidation.decltype import decl_type_of

ITEM: dict[str, Any] = {
    "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
}  # fmt: skip
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "i": {"type": "integer"},
        "j": {"type": "integer"},
        "n": {"type": "number"},
        "b": {"type": "boolean"},
        "s": {"type": "string"},
        "t": {"type": "string", "maxLength": 10},
        "e": {"type": "string", "enum": ["a", "bcd"]},
        "ts": {"type": "string", "format": "date-time"},
        "du": {"type": "string", "format": "duration"},
        "dt": {"type": "string", "format": "date"},
        "by": {"type": "string", "format": "byte"},
        "li": {"type": "array", "items": {"type": "integer"}},
        "ls": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 8}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "lm": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": ITEM,
        },
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "mi": {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "integer"}},
        "o": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y-z": {"type": "string"}, "namespace": {"type": "string"}},
        },
        "ios": {"x-kubernetes-int-or-string": True},
        "ios2": {"x-kubernetes-int-or-string": True},
        "nu": {"type": "string", "nullable": True},
        "ld": {"type": "array", "items": {"type": "string", "format": "date-time"}},
        "ll": {
            "type": "array",
            "maxItems": 4,
            "items": {"type": "array", "maxItems": 3, "items": {"type": "integer"}},
        },
    },
}
OBJECT: dict[str, Any] = {
    "i": 3, "j": -7, "n": 2, "b": True, "s": "Hello Wörld", "t": "abc", "e": "a", "ts": "2024-02-03T04:05:06.789Z",
    "du": "1h30m", "dt": "2024-02-03", "by": "aGVsbG8=", "li": [5, 2, 9, 2], "ls": ["x", "y", "x"],
    "set": ["a", "b"], "lm": [{"k": "a", "v": 1}, {"k": "b"}], "m": {"k1": "v1", "k2": "v2"},
    "mi": {"a": 1, "b": 2}, "o": {"x": 1, "y-z": "q", "namespace": "ns"}, "ios": 5, "ios2": "25%", "nu": None,
    "ld": ["2024-01-01T00:00:00Z", "2023-01-01T00:00:00Z"], "ll": [[1, 2], [3]],
}  # fmt: skip


def self_type() -> Any:
    kind = decl_type_of(SCHEMA, root=False)
    assert kind is not None
    return kind


def evaluate(source: str, limit: int = cel.PER_CALL_LIMIT, **variables: Any) -> cel.EvalResult:
    """Evaluates an expression whose variables are only known at run time."""
    return cel.compile_expression(source, dict.fromkeys(variables, DYN)).evaluate(list(variables.values()), limit)


def value(source: str, **variables: Any) -> Any:
    found = evaluate(source, **variables)
    assert found.error is None, found.error
    return found.value


def eval_error(source: str, **variables: Any) -> str:
    found = evaluate(source, **variables)
    assert found.error is not None, found.value
    return str(found.error)
