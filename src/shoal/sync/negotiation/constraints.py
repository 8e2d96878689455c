"""Merges the value constraints of two schemas at one path: bounds, enums, formats, patterns, junctors. Pure.

Each part returns the common constraint. `sink` receives where the first schema allowed more (`narrow`), and where
nothing is left that both allow (`conflict`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Protocol

import orjson

Object = dict[str, Any]

_LENGTHS = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties"))
_BOUNDS = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
_SINGLE = ("pattern", "anyOf", "oneOf", "not")
_INTEGERS, _FLOATS = ("int32", "int64"), ("float", "double")
_WIDER = {"int64": "int32", "double": "float"}
KEYS = frozenset(
    {
        *("enum", "format", "multipleOf", "uniqueItems", "nullable", "allOf", *_SINGLE),
        *(key for pair in (*_LENGTHS, *_BOUNDS) for key in pair),
    }
)
"""The keywords this module handles."""


class ComparisonSink(Protocol):
    def narrow(self, message: str) -> None: ...

    def conflict(self, message: str) -> None: ...


def common_constraints(existing: Object, new: Object, sink: ComparisonSink, builtin: bool = False) -> Object:
    """`builtin`: not every server publishes the enums it validates, so a schema without one may have the same."""
    result: Object = {}
    _merge_lengths(existing, new, result, sink)
    _merge_bounds(existing, new, result, sink)
    _merge_multiple_of(existing, new, result, sink)
    _merge_enum(existing, new, result, sink, builtin)
    _merge_format(existing, new, result, sink)
    _merge_flags(existing, new, result, sink)
    _merge_junctors(existing, new, result, sink)
    return result


def canonical_json(value: Any) -> bytes:
    """Equal for equal JSON: in Python 1 equals True."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def unique_values(values: Iterable[Any]) -> list[Any]:
    return list({canonical_json(value): value for value in values}.values())


def difference_text(key: str, existing: Any, new: Any) -> str:
    return f"{key} is {_json_text(new)}, not {_json_text(existing)}"


def _json_text(value: Any) -> str:
    return "none" if value is None else orjson.dumps(value).decode()


def _merge_lengths(existing: Object, new: Object, result: Object, sink: ComparisonSink) -> None:
    for least, most in _LENGTHS:
        for key, pick in ((least, max), (most, min)):
            given = [schema[key] for schema in (existing, new) if schema.get(key) is not None]
            if given:
                result[key] = pick(given)
            if result.get(key) != existing.get(key):
                sink.narrow(difference_text(key, existing.get(key), new.get(key)))
        if result.get(least, 0) > result.get(most, math.inf):
            sink.conflict(f"{least} is {result[least]}, {most} is {result[most]}")


def _merge_bounds(existing: Object, new: Object, result: Object, sink: ComparisonSink) -> None:
    for (bound, exclusive), pick in zip(_BOUNDS, (max, min), strict=True):
        given = [schema for schema in (existing, new) if schema.get(bound) is not None]
        if not given:
            continue
        result[bound] = pick(schema[bound] for schema in given)
        if any(schema.get(exclusive) for schema in given if schema[bound] == result[bound]):
            result[exclusive] = True
        if (result[bound], result.get(exclusive, False)) != (existing.get(bound), bool(existing.get(exclusive))):
            key = bound if result[bound] != existing.get(bound) else exclusive
            sink.narrow(difference_text(key, existing.get(key), new.get(key)))
    least, most = result.get("minimum", -math.inf), result.get("maximum", math.inf)
    if least > most or (least == most and (result.get("exclusiveMinimum") or result.get("exclusiveMaximum"))):
        sink.conflict(f"minimum is {least}, maximum is {most}")


def _merge_multiple_of(existing: Object, new: Object, result: Object, sink: ComparisonSink) -> None:
    ours, theirs = existing.get("multipleOf"), new.get("multipleOf")
    if ours is None and theirs is None:
        return
    if ours is None or theirs is None or ours == theirs:
        result["multipleOf"] = ours if theirs is None else theirs
    elif float(ours).is_integer() and float(theirs).is_integer():
        result["multipleOf"] = math.lcm(int(ours), int(theirs))
    else:
        sink.conflict(difference_text("multipleOf", ours, theirs))
        return
    if result["multipleOf"] != ours:
        sink.narrow(difference_text("multipleOf", ours, theirs))


def _merge_enum(existing: Object, new: Object, result: Object, sink: ComparisonSink, builtin: bool) -> None:
    ours, theirs = existing.get("enum"), new.get("enum")
    if ours is None or theirs is None:
        if ours is not None or theirs is not None:
            result["enum"] = ours if theirs is None else theirs
        if ours is None and theirs is not None and not builtin:
            sink.narrow(f"only {_json_text(theirs)} are accepted")
        return
    accepted = {canonical_json(value) for value in theirs}
    refused = [value for value in ours if canonical_json(value) not in accepted]
    result["enum"] = [value for value in ours if canonical_json(value) in accepted]
    if refused:
        sink.narrow(f"the values {_json_text(refused)} are not accepted")
    if not result["enum"]:
        sink.conflict(f"no value is accepted by both: {_json_text(theirs)}, not {_json_text(ours)}")


def _merge_format(existing: Object, new: Object, result: Object, sink: ComparisonSink) -> None:
    ours, theirs = existing.get("format"), new.get("format")
    if ours == theirs or not ours or not theirs:
        if ours or theirs:
            result["format"] = ours or theirs
    elif _WIDER.get(ours) == theirs or _WIDER.get(theirs) == ours:
        result["format"] = theirs if _WIDER.get(ours) == theirs else ours
    elif (ours in _INTEGERS and theirs in _FLOATS) or (ours in _FLOATS and theirs in _INTEGERS):
        result["format"] = ours if ours in _INTEGERS else theirs
    else:
        sink.conflict(difference_text("format", ours, theirs))
        return
    if result.get("format") != ours:
        sink.narrow(difference_text("format", ours, theirs))


def _merge_flags(existing: Object, new: Object, result: Object, sink: ComparisonSink) -> None:
    if existing.get("uniqueItems") or new.get("uniqueItems"):
        result["uniqueItems"] = True
        if not existing.get("uniqueItems"):
            sink.narrow("the items must be unique")
    if existing.get("nullable") and new.get("nullable"):
        result["nullable"] = True
    elif existing.get("nullable"):
        sink.narrow("null is not accepted")


def _merge_junctors(existing: Object, new: Object, result: Object, sink: ComparisonSink) -> None:
    """Constraints of both apply: a second pattern or anyOf goes below allOf."""
    ours = _all_constraints(existing)
    combined = unique_values([*ours, *_all_constraints(new)])
    if len(combined) == len(ours):
        result.update({key: existing[key] for key in (*_SINGLE, "allOf") if key in existing})
        return
    for part in combined[len(ours) :]:
        key = next(iter(part))
        sink.narrow(difference_text(key, existing.get(key), part[key]))
    for part in sorted(combined, key=canonical_json):
        key = next(iter(part))
        if len(part) == 1 and key in _SINGLE and key not in result:
            result[key] = part[key]
        else:
            result.setdefault("allOf", []).append(part)


def _all_constraints(schema: Object) -> list[Object]:
    single = [{key: schema[key]} for key in _SINGLE if schema.get(key) is not None]
    return unique_values([*single, *(part for part in schema.get("allOf") or () if part)])
