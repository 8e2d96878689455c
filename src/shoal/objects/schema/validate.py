"""Schema validation with upstream's messages (kube-openapi validation and field errors).

Runs only on objects that did not pass `jsonschema_pass`. It reads the schema itself. `old` is the stored object of an
update: errors that were there before and did not change pass (ratcheting).
"""

from __future__ import annotations

import json
import math
from typing import Any

from shoal.objects.errors import (
    Cause,
    format_value,
    invalid_value,
    not_supported,
    required_value,
    too_long,
    too_many,
    type_invalid,
)
from shoal.objects.schema.formats import is_recognized
from shoal.objects.schema.jsonschema_pass import (
    INT64_MAX,
    INT64_MIN,
    fits_range,
    number_range,
    string_format_check,
    types_of,
)
from shoal.objects.schema.patterns import matches
from shoal.objects.schema.structural import Json, JsonSchema, SchemaDefinitions, reference_of

_MAX_SAFE_INTEGER = 2**53 - 1
_TOLERANCE = 1e-9


def is_json_integer(value: float) -> bool:
    """True if a float counts as an integer: 1.0 does, and so does a value slightly off by rounding."""
    if not math.isfinite(value) or abs(value) > _MAX_SAFE_INTEGER:
        return False
    whole = math.trunc(value)
    if value == whole:
        return True
    return value > 0 and whole != 0 and abs(value - whole) / (abs(value) + abs(whole)) < _TOLERANCE


def is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int) and factor == int(factor):
        return value % int(factor) == 0
    return is_json_integer(1 / factor * value if factor < 1 else value / factor)


def go_value(value: Any) -> Any:
    """Returns the value as Go prints it: no `.0` on whole floats, keys sorted."""
    if value.__class__ is float:
        return int(value) if math.isfinite(value) and value == int(value) and abs(value) < 1e21 else value
    if value.__class__ is dict:
        return {key: go_value(value[key]) for key in sorted(value)}
    if value.__class__ is list:
        return [go_value(inner) for inner in value]
    return value


_TYPES: dict[type, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object", type(None): "null",
}  # fmt: skip


def json_type(value: Any) -> str:
    """An integer that does not fit 64 bits is a number, as Go decodes it."""
    if value.__class__ is int and not -(2**63) <= value < 2**63:
        return "number"
    return _TYPES[value.__class__]


def format_in_message(value: Any, quoted: bool = False) -> str:
    """Formats a value inside a message."""
    return value if isinstance(value, str) and not quoted else format_value(go_value(value))


MAX_CAUSES = 500
"""Maximum causes in a response: a large invalid object must not become a larger response."""

NO_OLD: Any = object()
_TYPE_META = ("apiVersion", "kind")
ValidationResult = tuple[list[Cause], int]
"""The causes, and the number of successful checks: of several alternatives the closest one is reported."""


class SchemaValidator:
    """One validation. `prefix` is the position of the value in the object, if it is not the root."""

    def __init__(self, definitions: SchemaDefinitions | None, prefix: str = "") -> None:
        self._definitions = definitions
        self._prefix = prefix

    def validate(self, schema: JsonSchema, value: Json, old: Json = NO_OLD) -> list[Cause]:
        causes, _ = self._check_ratcheting(schema, value, "", old)
        return list(dict.fromkeys(causes))[:MAX_CAUSES]

    def _field_path(self, path: str) -> str:
        path = path.removeprefix(".")
        if not path:
            return self._prefix or "<nil>"
        return f"{self._prefix}.{path}" if self._prefix else path

    def _cause_without_value(self, message: str) -> Cause:
        """Returns a cause that upstream reports without path and value."""
        return invalid_value(self._prefix or "<nil>", "", message)

    def _check_ratcheting(self, schema: JsonSchema, value: Json, path: str, old: Json) -> ValidationResult:
        result = self._check(schema, value, path, old)
        if result[0] and old is not NO_OLD and json_equal(value, old):
            return [], result[1]
        return result

    def _check(self, schema: JsonSchema, value: Json, path: str, old: Json = NO_OLD) -> ValidationResult:
        if self._definitions is not None:
            while ref := reference_of(schema):
                schema = self._definitions.schema(ref)
        types = types_of(schema)
        causes = self._check_type(schema, types, value, path)
        passed = 0 if causes else 1
        if value is None:
            return causes + self._check_enum(schema, value, path), passed
        passed = passed + 1 if types or schema.get("format") else 0
        for part in (self._check_junctors(schema, value, path), self._check_value(schema, types, value, path, old)):
            causes += part[0]
            passed += part[1]
        return causes, passed + 1

    def _check_type(self, schema: JsonSchema, types: tuple[str, ...], value: Json, path: str) -> list[Cause]:
        kind, form = json_type(value), schema.get("format") or ""
        if not types:
            if kind in ("string", "array", "null") or not is_recognized(form, ""):
                return []
        elif kind in types or (kind == "null" and schema.get("nullable")):
            return []
        if kind == "number" and "integer" in types and is_json_integer(value):
            return []
        if kind == "integer" and "number" in types:
            return []
        expected, actual = ",".join(types), kind
        if kind not in ("string", "array", "null") and is_recognized(form, types[0] if types else ""):
            expected, actual = form, {"integer": "int64", "number": "float64"}.get(kind, "")
        return [type_invalid(self._field_path(path), actual, f'{path} in body must be of type {expected}: "{actual}"')]

    def _check_value(
        self, schema: JsonSchema, types: tuple[str, ...], value: Json, path: str, old: Json
    ) -> ValidationResult:
        kind = value.__class__
        if kind is str:
            causes, passed = self._check_string(schema, types, value, path)
        elif kind is int or kind is float:
            causes, passed = self._check_number(schema, types, value, path), 2
        elif kind is list:
            causes, passed = self._check_list(schema, value, path, old)
        else:
            causes, passed = [], 0
        causes += self._check_enum(schema, value, path)
        passed += 1
        if kind is dict:
            inner, deep = self._check_object(schema, value, path, old)
            causes, passed = causes + inner, passed + deep + 1
        return causes, passed

    def _check_enum(self, schema: JsonSchema, value: Json, path: str) -> list[Cause]:
        allowed = schema.get("enum")
        if not allowed or (value is not None and any(json_equal_numeric(value, choice) for choice in allowed)):
            return []
        return [not_supported(self._field_path(path), go_value(value), map(format_in_message, allowed))]

    def _check_string(self, schema: JsonSchema, types: tuple[str, ...], value: str, path: str) -> ValidationResult:
        causes, where = [], self._field_path(path)
        longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
        if longest is not None and len(value) > longest:
            causes.append(too_long(where, longest))
        elif shortest is not None and len(value) < shortest:
            causes.append(invalid_value(where, value, f"{path} in body should be at least {shortest} chars long"))
        elif pattern and not matches(pattern, value):
            causes.append(invalid_value(where, value, f"{path} in body should match '{pattern}'"))
        check = string_format_check(schema, types, self._definitions is not None)
        if check is None:
            return causes, 1
        if not check(value):
            message = f"{path} in body must be of type {schema['format']}: {format_in_message(value, quoted=True)}"
            causes.append(type_invalid(where, value, message))
        return causes, 2

    def _check_number(self, schema: JsonSchema, types: tuple[str, ...], value: float, path: str) -> list[Cause]:
        where, display_value, causes = self._field_path(path), go_value(value), []
        if value.__class__ is int and not INT64_MIN <= value <= INT64_MAX:
            value = float(value)
        span = number_range(schema, types)
        if span is not None and not fits_range(value, types[0], span):
            causes.append(self._cause_without_value(_number_type_error("Checked", schema, types, path)))
        factor, highest, lowest = schema.get("multipleOf"), schema.get("maximum"), schema.get("minimum")
        for name, bound in (("MultipleOf", factor), ("Maximum boundary", highest), ("Minimum boundary", lowest)):
            if bound is not None and span is not None and not fits_range(bound, types[0], span):
                causes.append(self._cause_without_value(_number_type_error(name, schema, types, path)))
        if factor is not None and factor <= 0:
            message = f"factor MultipleOf declared for {path} must be positive: {go_value(factor)}"
            causes.append(invalid_value(where, go_value(factor), message))
        elif factor is not None and not is_multiple(value, factor):
            causes.append(
                invalid_value(where, display_value, f"{path} in body should be a multiple of {go_value(factor)}")
            )
        if lowest is not None and (value < lowest or (value == lowest and schema.get("exclusiveMinimum"))):
            than = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
            causes.append(invalid_value(where, display_value, f"{path} in body should be {than} {go_value(lowest)}"))
        if highest is not None and (value > highest or (value == highest and schema.get("exclusiveMaximum"))):
            than = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
            causes.append(invalid_value(where, display_value, f"{path} in body should be {than} {go_value(highest)}"))
        return causes

    def _check_list(self, schema: JsonSchema, values: list[Json], path: str, old: Json) -> ValidationResult:
        causes: list[Cause] = []
        passed, where, size = 2, self._field_path(path), len(values)
        item = schema.get("items")
        if isinstance(item, dict):
            find_old = _old_item_finder(schema, old)
            for index, value in enumerate(values):
                result = self._check_ratcheting(
                    item, value, f"{path}[{index}]", find_old(value) if find_old else NO_OLD
                )
                causes += result[0]
                passed += result[1]
                if len(causes) > MAX_CAUSES:
                    break
        fewest, most = schema.get("minItems"), schema.get("maxItems")
        if fewest is not None and size < fewest:
            causes.append(invalid_value(where, size, f"{path} in body should have at least {fewest} items"))
        if most is not None and size > most:
            causes.append(too_many(where, size, most))
        if schema.get("uniqueItems") and len({json.dumps(value, sort_keys=True) for value in values}) < size:
            causes.append(invalid_value(where, "", f"{path} in body shouldn't contain duplicates"))
        return causes, passed

    def _check_object(self, schema: JsonSchema, obj: dict[str, Json], path: str, old: Json) -> ValidationResult:
        causes: list[Cause] = []
        passed, where, size = 0, self._field_path(path), len(obj)
        fewest, most = schema.get("minProperties"), schema.get("maxProperties")
        if fewest is not None and size < fewest:
            causes.append(invalid_value(where, size, f"{path} in body should have at least {fewest} properties"))
        if most is not None and size > most:
            causes.append(too_many(where, size, most))
        properties = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        for key, value in obj.items():
            inner = properties.get(key, additional)
            if inner is False:
                causes.append(invalid_value(where, key, f"{path}.{key} in body is a forbidden property"))
            elif isinstance(inner, dict):
                below = f"{path}.{key}" if path or key not in properties else key
                result = self._check_ratcheting(inner, value, below, self._old_field(old, key, path))
                causes += result[0]
                passed += result[1]
                if len(causes) > MAX_CAUSES:
                    break
        causes += [
            required_value(self._field_path(f"{path}.{key}")) for key in schema.get("required") or () if key not in obj
        ]
        return causes, passed

    def _old_field(self, old: Json, key: str, path: str) -> Json:
        if old.__class__ is not dict or (not path and not self._prefix and key in _TYPE_META):
            return NO_OLD
        return old.get(key, NO_OLD)

    def _check_junctors(self, schema: JsonSchema, value: Json, path: str) -> ValidationResult:
        causes: list[Cause] = []
        passed = 2
        for part in (self._check_any_of, self._check_one_of, self._check_all_of):
            result = part(schema, value, path)
            causes += result[0]
            passed += result[1]
        not_schema = schema.get("not")
        if not_schema is not None and not self._check(not_schema, value, path)[0]:
            causes.append(self._cause_without_value(f'"{path}" must not validate the schema (not)'))
        return causes, passed

    def _check_any_of(self, schema: JsonSchema, value: Json, path: str) -> ValidationResult:
        closest: ValidationResult | None = None
        for sub in schema.get("anyOf") or ():
            result = self._check(sub, value, path)
            if not result[0]:
                return result
            if closest is None or result[1] > closest[1]:
                closest = result
        if closest is None:
            return [], 0
        return [self._cause_without_value(f'"{path}" must validate at least one schema (anyOf)'), *closest[0]], closest[
            1
        ]

    def _check_one_of(self, schema: JsonSchema, value: Json, path: str) -> ValidationResult:
        if not schema.get("oneOf"):
            return [], 0
        results = [self._check(sub, value, path) for sub in schema["oneOf"]]
        good = [found for found in results if not found[0]]
        if len(good) == 1:
            return good[0]
        count = f"Found {len(good)} valid alternatives" if good else "Found none valid"
        problem = self._cause_without_value(f'"{path}" must validate one and only one schema (oneOf). {count}')
        if good:
            return [problem], 0
        closest = max(results, key=lambda found: found[1])
        return [problem, *closest[0]], closest[1]

    def _check_all_of(self, schema: JsonSchema, value: Json, path: str) -> ValidationResult:
        results = [self._check(sub, value, path) for sub in schema.get("allOf") or ()]
        causes = [cause for found, _ in results for cause in found]
        if causes:
            none = "" if any(not found for found, _ in results) else ". None validated"
            causes.append(self._cause_without_value(f'"{path}" must validate all the schemas (allOf){none}'))
        return causes, sum(passed for _, passed in results)


def json_equal(a: Json, b: Json) -> bool:
    """Deep equality of JSON: true is not 1, and 1 is not 1.0."""
    if a.__class__ is not b.__class__:
        return False
    if a.__class__ is dict:
        return len(a) == len(b) and all(key in b and json_equal(value, b[key]) for key, value in a.items())
    if a.__class__ is list:
        return len(a) == len(b) and all(map(json_equal, a, b))
    return bool(a == b)


def json_equal_numeric(a: Json, b: Json) -> bool:
    """As `json_equal`, except that 1 and 1.0 are equal."""
    if {a.__class__, b.__class__} == {int, float}:
        return bool(a == b)
    return json_equal(a, b)


def _old_item_finder(schema: JsonSchema, old: Json) -> Any:
    """Finds the old item of a list of type map. Items of other lists cannot be correlated."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") != "map" or not keys or old.__class__ is not list:
        return None

    def identity(item: Json) -> tuple[str, ...] | None:
        return tuple(repr(item.get(key)) for key in keys) if item.__class__ is dict else None

    old_items = {identity(item): item for item in reversed(old)}
    return lambda item: old_items.get(identity(item), NO_OLD)


def _number_type_error(what: str, schema: JsonSchema, types: tuple[str, ...], path: str) -> str:
    name = schema.get("format")
    form = f"with format {name}" if name in ("int32", "int64", "float", "double") else "(default format)"
    return f"{what} value must be of type {types[0]} {form} in {path}"
