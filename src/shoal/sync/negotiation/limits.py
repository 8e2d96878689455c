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


class Told(Protocol):
    def narrowed(self, message: str) -> None: ...

    def conflict(self, message: str) -> None: ...


def common_limits(existing: Object, new: Object, told: Told, builtin: bool = False) -> Object:
    """`builtin`: not every server publishes the enums it validates, so a schema without one may have the same."""
    made: Object = {}
    _lengths(existing, new, made, told)
    _bounds(existing, new, made, told)
    _multiple(existing, new, made, told)
    _enum(existing, new, made, told, builtin)
    _format(existing, new, made, told)
    _flags(existing, new, made, told)
    _junctors(existing, new, made, told)
    return made


def text(value: Any) -> bytes:
    """Equal for equal JSON: in Python 1 equals True."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def unique(values: Iterable[Any]) -> list[Any]:
    return list({text(value): value for value in values}.values())


def differs(key: str, existing: Any, new: Any) -> str:
    return f"{key} is {_shown(new)}, not {_shown(existing)}"


def _shown(value: Any) -> str:
    return "none" if value is None else orjson.dumps(value).decode()


def _lengths(existing: Object, new: Object, made: Object, told: Told) -> None:
    for least, most in _LENGTHS:
        for key, pick in ((least, max), (most, min)):
            given = [schema[key] for schema in (existing, new) if schema.get(key) is not None]
            if given:
                made[key] = pick(given)
            if made.get(key) != existing.get(key):
                told.narrowed(differs(key, existing.get(key), new.get(key)))
        if made.get(least, 0) > made.get(most, math.inf):
            told.conflict(f"{least} is {made[least]}, {most} is {made[most]}")


def _bounds(existing: Object, new: Object, made: Object, told: Told) -> None:
    for (bound, exclusive), pick in zip(_BOUNDS, (max, min), strict=True):
        given = [schema for schema in (existing, new) if schema.get(bound) is not None]
        if not given:
            continue
        made[bound] = pick(schema[bound] for schema in given)
        if any(schema.get(exclusive) for schema in given if schema[bound] == made[bound]):
            made[exclusive] = True
        if (made[bound], made.get(exclusive, False)) != (existing.get(bound), bool(existing.get(exclusive))):
            key = bound if made[bound] != existing.get(bound) else exclusive
            told.narrowed(differs(key, existing.get(key), new.get(key)))
    least, most = made.get("minimum", -math.inf), made.get("maximum", math.inf)
    if least > most or (least == most and (made.get("exclusiveMinimum") or made.get("exclusiveMaximum"))):
        told.conflict(f"minimum is {least}, maximum is {most}")


def _multiple(existing: Object, new: Object, made: Object, told: Told) -> None:
    one, other = existing.get("multipleOf"), new.get("multipleOf")
    if one is None and other is None:
        return
    if one is None or other is None or one == other:
        made["multipleOf"] = one if other is None else other
    elif float(one).is_integer() and float(other).is_integer():
        made["multipleOf"] = math.lcm(int(one), int(other))
    else:
        told.conflict(differs("multipleOf", one, other))
        return
    if made["multipleOf"] != one:
        told.narrowed(differs("multipleOf", one, other))


def _enum(existing: Object, new: Object, made: Object, told: Told, builtin: bool) -> None:
    one, other = existing.get("enum"), new.get("enum")
    if one is None or other is None:
        if one is not None or other is not None:
            made["enum"] = one if other is None else other
        if one is None and other is not None and not builtin:
            told.narrowed(f"only {_shown(other)} are accepted")
        return
    accepted = {text(value) for value in other}
    refused = [value for value in one if text(value) not in accepted]
    made["enum"] = [value for value in one if text(value) in accepted]
    if refused:
        told.narrowed(f"the values {_shown(refused)} are not accepted")
    if not made["enum"]:
        told.conflict(f"no value is accepted by both: {_shown(other)}, not {_shown(one)}")


def _format(existing: Object, new: Object, made: Object, told: Told) -> None:
    one, other = existing.get("format"), new.get("format")
    if one == other or not one or not other:
        if one or other:
            made["format"] = one or other
    elif _WIDER.get(one) == other or _WIDER.get(other) == one:
        made["format"] = other if _WIDER.get(one) == other else one
    elif (one in _INTEGERS and other in _FLOATS) or (one in _FLOATS and other in _INTEGERS):
        made["format"] = one if one in _INTEGERS else other
    else:
        told.conflict(differs("format", one, other))
        return
    if made.get("format") != one:
        told.narrowed(differs("format", one, other))


def _flags(existing: Object, new: Object, made: Object, told: Told) -> None:
    if existing.get("uniqueItems") or new.get("uniqueItems"):
        made["uniqueItems"] = True
        if not existing.get("uniqueItems"):
            told.narrowed("the items must be unique")
    if existing.get("nullable") and new.get("nullable"):
        made["nullable"] = True
    elif existing.get("nullable"):
        told.narrowed("null is not accepted")


def _junctors(existing: Object, new: Object, made: Object, told: Told) -> None:
    """Constraints of both apply: a second pattern or anyOf goes below allOf."""
    asked = _asked(existing)
    every = unique([*asked, *_asked(new)])
    if len(every) == len(asked):
        made.update({key: existing[key] for key in (*_SINGLE, "allOf") if key in existing})
        return
    for part in every[len(asked) :]:
        key = next(iter(part))
        told.narrowed(differs(key, existing.get(key), part[key]))
    for part in sorted(every, key=text):
        key = next(iter(part))
        if len(part) == 1 and key in _SINGLE and key not in made:
            made[key] = part[key]
        else:
            made.setdefault("allOf", []).append(part)


def _asked(schema: Object) -> list[Object]:
    single = [{key: schema[key]} for key in _SINGLE if schema.get(key) is not None]
    return unique([*single, *(part for part in schema.get("allOf") or () if part)])
