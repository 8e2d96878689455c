"""The fast validation pass: a schema translated for jsonschema-rs, with a yes/no result.

The translation is never looser than `SchemaValidator`, only stricter where upstream has quirks. An object that passes
here is valid. One that does not is checked again by `SchemaValidator`, which decides.
"""

from __future__ import annotations

from typing import Any

import jsonschema_rs

from shoal.objects.gotime import is_micro_time, is_valid_time
from shoal.objects.schema.formats import FormatCheck, format_check
from shoal.objects.schema.patterns import REGEX_OPTIONS, is_valid_pattern, to_engine_pattern
from shoal.objects.schema.structural import MICRO_TIME, JsonSchema, SchemaDefinitions, reference_of

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_MAX_SAFE_INTEGER = 2**53 - 1
NUMBER_RANGES: dict[tuple[str, str], tuple[float, float]] = {
    ("integer", ""): (INT64_MIN, INT64_MAX),
    ("integer", "int64"): (INT64_MIN, INT64_MAX),
    ("integer", "int32"): (-(2**31), 2**31 - 1),
    ("number", "float"): (-3.4028234663852886e38, 3.4028234663852886e38),
}
_COPIED_KEYS = ("maxLength", "minLength", "maxItems", "minItems", "uniqueItems", "maxProperties", "minProperties")
_EXACT_KEYS = frozenset(
    (*_COPIED_KEYS, "allOf", "anyOf", "description", "enum", "exclusiveMaximum", "exclusiveMinimum", "items", "maximum",
     "minimum", "not", "oneOf", "pattern", "properties", "required", "title", "type")
)  # fmt: skip
_MATCHES_NOTHING = r"[^\s\S]"
_NOT_A_NUMBER: JsonSchema = {"not": {"type": "number"}}
_REJECT_ALL: JsonSchema = {"not": {}}
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_DATE_TIME = (
    r"^(000[2-9]|00[1-9]\d|0[1-9]\d\d|[1-8]\d{3}|9[0-8]\d\d|99[0-8]\d|999[0-8])"
    r"-((0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
    r"T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"
)
"""The common form of times, matched without a call into Python. Lower case, leap days and extreme years are left to
SchemaValidator.
"""
_TIME_PATTERNS = {"date-time": _DATE_TIME, MICRO_TIME: _DATE_TIME.replace(r"(\.\d+)?", r"\.\d{6}")}
_NULL: JsonSchema = {"type": "null"}
"""As upstream, only the type and the enum of a null are checked."""


class JSONSchemaPass:
    """Built on first use: most schemas of a large CRD bundle never validate an object."""

    def __init__(self, schema: JsonSchema, definitions: SchemaDefinitions | None) -> None:
        self._schema = schema
        self._definitions = definitions
        self._formats: dict[str, FormatCheck] = {}
        self._translated: dict[str, JsonSchema | None] = {}
        self._validator: jsonschema_rs.Draft202012Validator | None = None

    def passes(self, value: Any) -> bool:
        if self._validator is None:
            self._validator = self._build()
        return self._validator.is_valid(value)

    def _build(self) -> jsonschema_rs.Draft202012Validator:
        schema = self._translate(self._schema)
        schema["definitions"] = self._translated
        return jsonschema_rs.Draft202012Validator(
            schema, formats=self._formats, validate_formats=True, pattern_options=REGEX_OPTIONS
        )

    def _translate(self, schema: JsonSchema) -> JsonSchema:
        if self._definitions is not None and (ref := reference_of(schema)):
            return self._translate_reference(self._definitions, ref)
        out: JsonSchema = {key: schema[key] for key in _COPIED_KEYS if key in schema}
        self._translate_value(schema, out)
        self._translate_structure(schema, out)
        return out

    def _translate_reference(self, definitions: SchemaDefinitions, ref: str) -> JsonSchema:
        name = ref.rpartition("/")[2]
        if name not in self._translated:
            self._translated[name] = None  # reserved, so that a recursive definition terminates
            self._translated[name] = self._translate(definitions.schema(ref))
        return {"$ref": f"#/definitions/{name}"}

    def _translate_value(self, schema: JsonSchema, out: JsonSchema) -> None:
        types = types_of(schema)
        if types:
            out["type"] = [*types, "null"] if schema.get("nullable") else list(types)
        elif schema.get("format"):
            out["type"] = ["string", "array", "null"]
        if schema.get("enum"):
            out["enum"] = [value for value in schema["enum"] if value is not None]
        if schema.get("pattern"):
            out["pattern"] = (
                to_engine_pattern(schema["pattern"]) if is_valid_pattern(schema["pattern"]) else _MATCHES_NOTHING
            )
        self._translate_number(schema, types, out)
        check = string_format_check(schema, types, self._definitions is not None)
        if check is not None and schema["format"] in _TIME_PATTERNS:
            out.setdefault("allOf", []).append({"pattern": _TIME_PATTERNS[schema["format"]]})
        elif check is not None:
            out["format"] = name = "shoal-" + schema["format"]
            self._formats[name] = check

    def _translate_number(self, schema: JsonSchema, types: tuple[str, ...], out: JsonSchema) -> None:
        for bound, exclusive in (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")):
            if bound in schema:
                out[exclusive if schema.get(exclusive) else bound] = schema[bound]
        if "multipleOf" in schema:
            if schema["multipleOf"] > 0:
                out["multipleOf"] = schema["multipleOf"]
            else:
                out.setdefault("allOf", []).append(_NOT_A_NUMBER)
        span = number_range(schema, types)
        if span is not None:
            bounds = (schema.get(key, 0) for key in ("maximum", "minimum", "multipleOf"))
            if any(not fits_range(bound, types[0], span) for bound in bounds):
                out.setdefault("allOf", []).append(_NOT_A_NUMBER)
        if "integer" in types:
            # 10**17 is an integer and 1e17 is not, which JSON Schema cannot express: SchemaValidator distinguishes
            # large ones.
            low, high = span or (-_MAX_SAFE_INTEGER, _MAX_SAFE_INTEGER)
            span = max(low, -_MAX_SAFE_INTEGER), min(high, _MAX_SAFE_INTEGER)
        if span is not None:
            out["minimum"] = max(out.get("minimum", span[0]), span[0])
            out["maximum"] = min(out.get("maximum", span[1]), span[1])

    def _translate_structure(self, schema: JsonSchema, out: JsonSchema) -> None:
        if schema.get("properties"):
            out["properties"] = {key: self._translate(sub) for key, sub in schema["properties"].items()}
        additional = schema.get("additionalProperties")
        if additional is not None:
            out["additionalProperties"] = self._translate(additional) if isinstance(additional, dict) else additional
        if isinstance(schema.get("items"), dict):
            out["items"] = self._translate(schema["items"])
        if schema.get("required"):
            out["required"] = schema["required"]
        self._translate_junctors(schema, out)

    def _translate_junctors(self, schema: JsonSchema, out: JsonSchema) -> None:
        parts: list[JsonSchema] = out.pop("allOf", [])
        parts += [self._translate(sub) for sub in schema.get("allOf") or ()]
        if schema.get("anyOf") and not _is_int_or_string(schema):
            parts.append({"anyOf": [self._translate(sub) for sub in schema["anyOf"]]})
        if schema.get("oneOf"):
            one = {"oneOf": [self._translate(sub) for sub in schema["oneOf"]]}
            parts.append(one if all(map(_is_exact, schema["oneOf"])) else _REJECT_ALL)
        if schema.get("not") is not None:
            parts.append({"not": self._translate(schema["not"])} if _is_exact(schema["not"]) else _REJECT_ALL)
        if parts and (schema.get("nullable") or not types_of(schema)):
            parts = [{"anyOf": [_NULL, part]} for part in parts]
        if parts:
            out["allOf"] = parts


def _is_int_or_string(schema: JsonSchema) -> bool:
    """True for the usual anyOf beside x-kubernetes-int-or-string, which the types already cover."""
    return bool(schema.get("x-kubernetes-int-or-string")) and schema["anyOf"] == _INT_OR_STRING


def _is_exact(schema: JsonSchema) -> bool:
    """True if the translation accepts exactly what SchemaValidator accepts. Under `not` and `oneOf` stricter would mean
    looser, so anything else is left to SchemaValidator.
    """
    if not schema.keys() <= _EXACT_KEYS:
        return False
    inner = [*(schema.get("properties") or {}).values()]
    inner += [sub for key in ("allOf", "anyOf", "oneOf") for sub in schema.get(key) or ()]
    inner += [schema[key] for key in ("items", "not") if schema.get(key) is not None]
    return all(map(_is_exact, inner))


def types_of(schema: JsonSchema) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    kind = schema.get("type")
    return (kind,) if kind else ()


def string_format_check(schema: JsonSchema, types: tuple[str, ...], builtin: bool) -> FormatCheck | None:
    """Returns the check of a string's format. Built-in kinds are decoded rather than validated: only times and base64
    are parsed, and an empty string is a zero value.
    """
    name = schema.get("format")
    if not name or (len(types) == 1 and types[0] != "string"):
        return None
    if builtin and name == MICRO_TIME:
        return is_micro_time
    check = format_check(name)
    if not builtin or check is None:
        return check
    base_check = check
    if name == "date-time":
        return lambda text: not text or (base_check(text) and is_valid_time(text))
    return (lambda text: not text or base_check(text)) if name == "byte" else None


def number_range(schema: JsonSchema, types: tuple[str, ...]) -> tuple[float, float] | None:
    if len(types) != 1:
        return None
    return NUMBER_RANGES.get((types[0], schema.get("format") or "")) or NUMBER_RANGES.get((types[0], ""))


def fits_range(number: float, type_name: str, span: tuple[float, float]) -> bool:
    """True if a bound can be represented by the type it bounds."""
    return span[0] <= number <= span[1] and (type_name != "integer" or number == int(number))
