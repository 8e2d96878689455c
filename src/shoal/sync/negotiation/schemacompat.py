"""Computes the lowest common denominator of two schemas: the largest schema whose objects both accept, and where the
first accepted more. Pure.

Both are CRD schemas: unknown fields are pruned, defaults are applied before validation. A field that one side does not
know is therefore dropped, unless that side requires it; a constraint of either side applies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from shoal.kinds.apiextensions.structural import validate_structural
from shoal.objects.schema import validate_default
from shoal.sync.negotiation.constraints import KEYS, canonical_json, common_constraints, difference_text, unique_values

Object = dict[str, Any]

_PRESERVE, _INT_OR_STRING = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"
_LIST_TYPE, _MAP_KEYS, _MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
_EMBEDDED, _RULES = "x-kubernetes-embedded-resource", "x-kubernetes-validations"
_BOTH_TYPES = [{"type": "integer"}, {"type": "string"}]
_ANY, _INT_OR_STRING_TYPE = "any", "integer or string"
_NARROWER_TYPE = {
    frozenset(("integer", "number")): "integer",
    frozenset(("integer", _INT_OR_STRING_TYPE)): "integer",
    frozenset(("number", _INT_OR_STRING_TYPE)): "integer",
    frozenset(("string", _INT_OR_STRING_TYPE)): "string",
}
_STRUCTURE = {"type", "properties", "additionalProperties", "required", "items", "default", _PRESERVE, _INT_OR_STRING}
_EXTENSIONS = {_LIST_TYPE, _MAP_KEYS, _MAP_TYPE, _EMBEDDED, _RULES}
_HANDLED = KEYS | _STRUCTURE | _EXTENSIONS
_find_words = re.compile(r"\w+").findall


@dataclass(frozen=True, slots=True)
class LCDSchema:
    schema: Object
    narrowed: tuple[str, ...] = ()
    """Where the first schema accepts more than the second; the common schema does not."""
    conflicts: tuple[str, ...] = ()
    """Where nothing is accepted by both: there is no common schema."""


def lowest_common(existing: Object, new: Object, builtin: bool = False) -> LCDSchema:
    """`builtin`: the schemas are of a built-in kind."""
    if existing == new:
        return LCDSchema(existing)
    merger = _SchemaMerger(builtin)
    schema = merger.merge(existing, new, "")
    merger.check_rules()
    if not merger.conflicts and not validate_structural(existing, "") and not validate_structural(new, ""):
        merger.conflicts += [cause.message for cause in validate_structural(schema, "")]
    return LCDSchema(schema, tuple(merger.narrowings), tuple(merger.conflicts))


class _SchemaMerger:
    def __init__(self, builtin: bool) -> None:
        self._builtin = builtin
        self.narrowings: list[str] = []
        self.conflicts: list[str] = []
        self._dropped: list[str] = []
        self._rules: list[tuple[str, str]] = []

    def merge(self, existing: Object, new: Object, path: str) -> Object:
        if existing == new or _accepts_anything(new):
            return existing
        sink = _PathSink(self, path)
        if _accepts_anything(existing):
            sink.narrow(f"only {_type_of(new)} is accepted")
            return new
        old_type, new_type = _type_of(existing), _type_of(new)
        common_type = old_type if old_type == new_type else _common_type(old_type, new_type)
        if not common_type:
            sink.conflict(f"the type is {new_type}, not {old_type}")
            return existing
        if common_type != old_type:
            sink.narrow(f"the type is {new_type}, not {old_type}")
        result = _type_keywords(common_type, existing, new)
        existing, new = _without_int_or_string(existing), _without_int_or_string(new)
        result |= common_constraints(existing, new, sink, self._builtin)
        self._merge_extensions(existing, new, result, sink)
        if common_type in ("object", _ANY, _INT_OR_STRING_TYPE):
            self._merge_fields(existing, new, result, sink)
        elif existing.get(_PRESERVE) and new.get(_PRESERVE):
            result[_PRESERVE] = True
        elif existing.get(_PRESERVE):
            sink.narrow("unknown fields are not preserved")
        if "items" in existing or "items" in new:
            result["items"] = self.merge(existing.get("items") or {}, new.get("items") or {}, f"{path}[]")
            _require_map_keys(result)
        self._merge_unknown_keywords(existing, new, result, sink)
        if (
            "default" in existing
            and "default" in new
            and canonical_json(existing["default"]) == canonical_json(new["default"])
        ):
            result["default"] = existing["default"]
            if validate_default(result, path):
                del result["default"]
        return result

    def check_rules(self) -> None:
        """A CEL rule that is kept must not refer to a dropped field."""
        for path, rule in self._rules:
            words = set(_find_words(rule))
            for dropped in self._dropped:
                name = dropped.rpartition(".")[2]
                if dropped.startswith(path) and name in words:
                    self.conflicts.append(
                        f"{path or 'the object'}: the rule {rule!r} needs {dropped}, which is missing"
                    )

    def _merge_extensions(self, existing: Object, new: Object, result: Object, sink: _PathSink) -> None:
        """Different merge semantics have no common one."""
        for key, default in ((_LIST_TYPE, "atomic"), (_MAP_TYPE, "granular"), (_EMBEDDED, False)):
            ours, theirs = existing.get(key, default), new.get(key, default)
            if ours != theirs:
                sink.conflict(difference_text(key, ours, theirs))
            elif key in existing or key in new:
                result[key] = ours
        ours, theirs = existing.get(_MAP_KEYS) or [], new.get(_MAP_KEYS) or []
        if set(ours) != set(theirs):
            sink.conflict(difference_text(_MAP_KEYS, ours, theirs))
        elif ours:
            result[_MAP_KEYS] = ours
        rules = unique_values([*(existing.get(_RULES) or ()), *(new.get(_RULES) or ())])
        if rules:
            result[_RULES] = sorted(rules, key=canonical_json)
            self._rules += [(sink.path, str(rule.get("rule", ""))) for rule in rules]
            added = rules[len(unique_values(existing.get(_RULES) or ())) :]
            if added:
                sink.narrow(f"the rule {added[0].get('rule')!r} is added")

    def _merge_fields(self, existing: Object, new: Object, result: Object, sink: _PathSink) -> None:
        ours, theirs = existing.get("properties") or {}, new.get("properties") or {}
        more, others = _additional_properties_of(existing), _additional_properties_of(new)
        properties: Object = {}
        for name in [*ours, *(name for name in theirs if name not in ours)]:
            one, other = ours.get(name, more), theirs.get(name, others)
            field_path = _join_path(sink.path, name)
            if one is not None and other is not None:
                properties[name] = self.merge(one, other, field_path)
            else:
                self._dropped.append(field_path)
                if name in ours:
                    self.narrowings.append(f"{field_path}: is missing")
        if properties or "properties" in existing or "properties" in new:
            result["properties"] = properties
        self._merge_additional_properties(existing, new, result, sink)
        closed = not result.get(_PRESERVE) and "additionalProperties" not in result
        required = [
            name for name in _required_fields(existing, new) if self._can_require(name, properties, closed, sink)
        ]
        self.narrowings += [
            f"{_join_path(sink.path, name)}: is required"
            for name in required
            if name not in (existing.get("required") or ())
        ]
        if required:
            result["required"] = required

    def _can_require(self, name: str, properties: Object, closed: bool, sink: _PathSink) -> bool:
        if name in properties or not closed:
            return True
        self.conflicts.append(f"{_join_path(sink.path, name)}: is required by one schema and missing in the other")
        return False

    def _merge_additional_properties(self, existing: Object, new: Object, result: Object, sink: _PathSink) -> None:
        """Merges additionalProperties and preserved unknown fields."""
        more, others = _additional_properties_of(existing), _additional_properties_of(new)
        if existing.get(_PRESERVE) and new.get(_PRESERVE):
            result[_PRESERVE] = True
        if more is None:
            return
        if others is None:
            sink.narrow("other fields are not accepted")
            return
        if not isinstance(existing.get("additionalProperties"), dict) and not isinstance(
            new.get("additionalProperties"), dict
        ):
            if _PRESERVE not in result or "additionalProperties" in existing or "additionalProperties" in new:
                result["additionalProperties"] = True
            return
        result["additionalProperties"] = self.merge(more, others, _join_path(sink.path, "*"))

    def _merge_unknown_keywords(self, existing: Object, new: Object, result: Object, sink: _PathSink) -> None:
        """Unknown keywords are common if they are equal."""
        for key in {*existing, *new} - _HANDLED:
            if existing.get(key) == new.get(key):
                result[key] = existing[key]
            elif not key.startswith("x-"):
                sink.conflict(difference_text(key, existing.get(key), new.get(key)))


@dataclass(frozen=True, slots=True)
class _PathSink:
    """Collects the findings of one path."""

    merger: _SchemaMerger
    path: str

    def narrow(self, message: str) -> None:
        self.merger.narrowings.append(f"{self.path or 'the object'}: {message}")

    def conflict(self, message: str) -> None:
        self.merger.conflicts.append(f"{self.path or 'the object'}: {message}")


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _accepts_anything(schema: Object) -> bool:
    return not schema or (len(schema) == 1 and bool(schema.get(_PRESERVE)))


def _type_of(schema: Object) -> str:
    return str(schema.get("type") or (_INT_OR_STRING_TYPE if schema.get(_INT_OR_STRING) else _ANY))


def _common_type(one: str, other: str) -> str:
    if _ANY in (one, other):
        return one if other == _ANY else other
    return _NARROWER_TYPE.get(frozenset((one, other)), "")


def _type_keywords(type_: str, existing: Object, new: Object) -> Object:
    if type_ == _ANY:
        return {}
    if type_ != _INT_OR_STRING_TYPE:
        return {"type": type_}
    declares_both = any(_declares_both_types(schema) for schema in (existing, new))
    return {_INT_OR_STRING: True, **({"anyOf": _BOTH_TYPES} if declares_both else {})}


def _declares_both_types(schema: Object) -> bool:
    return bool(schema.get(_INT_OR_STRING)) and schema.get("anyOf") == _BOTH_TYPES


def _without_int_or_string(schema: Object) -> Object:
    """Without the anyOf that declares an integer-or-string."""
    if not schema.get(_INT_OR_STRING):
        return schema
    bare = {key: value for key, value in schema.items() if key != "anyOf" or value != _BOTH_TYPES}
    parts = [part for part in schema.get("allOf") or () if part != {"anyOf": _BOTH_TYPES}]
    bare.pop("allOf", None)
    return {**bare, "allOf": parts} if parts else bare


def _additional_properties_of(schema: Object) -> Object | None:
    """The schema of additional properties; None: none are allowed."""
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        return others
    return {_PRESERVE: True} if others is True or schema.get(_PRESERVE) else None


def _required_fields(existing: Object, new: Object) -> list[str]:
    """Fields required by both, and those required by one that has no default for them."""
    sides = (existing, new)
    requested = [name for schema in sides for name in schema.get("required") or ()]
    needed = {
        name
        for schema in sides
        for name in schema.get("required") or ()
        if "default" not in ((schema.get("properties") or {}).get(name) or {})
    }
    return [name for name in dict.fromkeys(requested) if name in needed or requested.count(name) > 1]


def _require_map_keys(result: Object) -> None:
    """Keys of a map list must be required or have a default, or the schema cannot be served."""
    items = result["items"]
    if result.get(_LIST_TYPE) != "map":
        return
    properties, required = items.get("properties") or {}, list(items.get("required") or ())
    missing = [
        key
        for key in result.get(_MAP_KEYS) or ()
        if key in properties and key not in required and "default" not in properties[key]
    ]
    if missing:
        result["items"] = {**items, "required": [*required, *missing]}
