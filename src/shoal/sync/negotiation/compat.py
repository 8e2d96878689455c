"""Computes the lowest common denominator of two schemas: the largest schema whose objects both accept, and where the
first accepted more. Pure.

Both are CRD schemas: unknown fields are pruned, defaults are applied before validation. A field that one side does not
know is therefore dropped, unless that side requires it; a constraint of either side applies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from shoal.kinds.apiextensions_structural import structural_causes
from shoal.objects.schema import default_causes
from shoal.sync.negotiation.limits import KEYS, common_limits, differs, text, unique

Object = dict[str, Any]

_PRESERVE, _INT_OR_STRING = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"
_LIST_TYPE, _MAP_KEYS, _MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
_EMBEDDED, _RULES = "x-kubernetes-embedded-resource", "x-kubernetes-validations"
_BOTH_TYPES = [{"type": "integer"}, {"type": "string"}]
_ANY, _EITHER = "any", "integer or string"
_NARROWER = {
    frozenset(("integer", "number")): "integer",
    frozenset(("integer", _EITHER)): "integer",
    frozenset(("number", _EITHER)): "integer",
    frozenset(("string", _EITHER)): "string",
}
_STRUCTURE = {"type", "properties", "additionalProperties", "required", "items", "default", _PRESERVE, _INT_OR_STRING}
_EXTENSIONS = {_LIST_TYPE, _MAP_KEYS, _MAP_TYPE, _EMBEDDED, _RULES}
_HANDLED = KEYS | _STRUCTURE | _EXTENSIONS


@dataclass(frozen=True, slots=True)
class Common:
    schema: Object
    narrowed: tuple[str, ...] = ()
    """Where the first schema accepts more than the second; the common schema does not."""
    conflicts: tuple[str, ...] = ()
    """Where nothing is accepted by both: there is no common schema."""


def common(existing: Object, new: Object, builtin: bool = False) -> Common:
    """`builtin`: the schemas are of a built-in kind."""
    if existing == new:
        return Common(existing)
    walk = _Walk(builtin)
    schema = walk.merged(existing, new, "")
    walk.check_rules()
    if not walk.conflicts and not structural_causes(existing, "") and not structural_causes(new, ""):
        walk.conflicts += [cause.message for cause in structural_causes(schema, "")]
    return Common(schema, tuple(walk.narrowings), tuple(walk.conflicts))


class _Walk:
    def __init__(self, builtin: bool) -> None:
        self._builtin = builtin
        self.narrowings: list[str] = []
        self.conflicts: list[str] = []
        self._dropped: list[str] = []
        self._rules: list[tuple[str, str]] = []

    def merged(self, existing: Object, new: Object, path: str) -> Object:
        if existing == new or _is_anything(new):
            return existing
        told = _At(self, path)
        if _is_anything(existing):
            told.narrowed(f"{_type_of(new)} is accepted, not anything")
            return new
        before, after = _type_of(existing), _type_of(new)
        kind = before if before == after else _common_type(before, after)
        if not kind:
            told.conflict(f"the type is {after}, not {before}")
            return existing
        if kind != before:
            told.narrowed(f"the type is {after}, not {before}")
        made = _typed(kind, existing, new)
        existing, new = _bare(existing), _bare(new)
        made |= common_limits(existing, new, told, self._builtin)
        self._extensions(existing, new, made, told)
        if kind in ("object", _ANY, _EITHER):
            self._fields(existing, new, made, told)
        elif existing.get(_PRESERVE) and new.get(_PRESERVE):
            made[_PRESERVE] = True
        elif existing.get(_PRESERVE):
            told.narrowed("unknown fields are not kept")
        if "items" in existing or "items" in new:
            made["items"] = self.merged(existing.get("items") or {}, new.get("items") or {}, f"{path}[]")
            _require_keys(made)
        self._others(existing, new, made, told)
        if "default" in existing and "default" in new and text(existing["default"]) == text(new["default"]):
            made["default"] = existing["default"]
            if default_causes(made, path):
                del made["default"]
        return made

    def check_rules(self) -> None:
        """A CEL rule that is kept must not refer to a dropped field."""
        for path, rule in self._rules:
            for gone in self._dropped:
                name = gone.rpartition(".")[2]
                if gone.startswith(path) and re.search(rf"\b{re.escape(name)}\b", rule):
                    self.conflicts.append(f"{path or 'the object'}: the rule {rule!r} needs {gone}, which is not there")

    def _extensions(self, existing: Object, new: Object, made: Object, told: _At) -> None:
        """Different merge semantics have no common one."""
        for key, otherwise in ((_LIST_TYPE, "atomic"), (_MAP_TYPE, "granular"), (_EMBEDDED, False)):
            one, other = existing.get(key, otherwise), new.get(key, otherwise)
            if one != other:
                told.conflict(differs(key, one, other))
            elif key in existing or key in new:
                made[key] = one
        one, other = existing.get(_MAP_KEYS) or [], new.get(_MAP_KEYS) or []
        if set(one) != set(other):
            told.conflict(differs(_MAP_KEYS, one, other))
        elif one:
            made[_MAP_KEYS] = one
        rules = unique([*(existing.get(_RULES) or ()), *(new.get(_RULES) or ())])
        if rules:
            made[_RULES] = sorted(rules, key=text)
            self._rules += [(told.path, str(rule.get("rule", ""))) for rule in rules]
            added = rules[len(unique(existing.get(_RULES) or ())) :]
            if added:
                told.narrowed(f"the rule {added[0].get('rule')!r} is checked")

    def _fields(self, existing: Object, new: Object, made: Object, told: _At) -> None:
        ours, theirs = existing.get("properties") or {}, new.get("properties") or {}
        more, others = _others_of(existing), _others_of(new)
        properties: Object = {}
        for name in [*ours, *(name for name in theirs if name not in ours)]:
            one, other = ours.get(name, more), theirs.get(name, others)
            below = _below(told.path, name)
            if one is not None and other is not None:
                properties[name] = self.merged(one, other, below)
            else:
                self._dropped.append(below)
                if name in ours:
                    self.narrowings.append(f"{below}: is not there")
        if properties or "properties" in existing or "properties" in new:
            made["properties"] = properties
        self._further(existing, new, made, told)
        closed = not made.get(_PRESERVE) and "additionalProperties" not in made
        required = [name for name in _required(existing, new) if self._can_be(name, properties, closed, told)]
        self.narrowings += [
            f"{_below(told.path, name)}: is required"
            for name in required
            if name not in (existing.get("required") or ())
        ]
        if required:
            made["required"] = required

    def _can_be(self, name: str, properties: Object, closed: bool, told: _At) -> bool:
        if name in properties or not closed:
            return True
        self.conflicts.append(f"{_below(told.path, name)}: is required by one and not known to the other")
        return False

    def _further(self, existing: Object, new: Object, made: Object, told: _At) -> None:
        """Merges additionalProperties and preserved unknown fields."""
        more, others = _others_of(existing), _others_of(new)
        if existing.get(_PRESERVE) and new.get(_PRESERVE):
            made[_PRESERVE] = True
        if more is None:
            return
        if others is None:
            told.narrowed("other fields are not accepted")
            return
        if not isinstance(existing.get("additionalProperties"), dict) and not isinstance(
            new.get("additionalProperties"), dict
        ):
            if _PRESERVE not in made or "additionalProperties" in existing or "additionalProperties" in new:
                made["additionalProperties"] = True
            return
        made["additionalProperties"] = self.merged(more, others, _below(told.path, "*"))

    def _others(self, existing: Object, new: Object, made: Object, told: _At) -> None:
        """Unknown keywords are common if they are equal."""
        for key in {*existing, *new} - _HANDLED:
            if existing.get(key) == new.get(key):
                made[key] = existing[key]
            elif not key.startswith("x-"):
                told.conflict(differs(key, existing.get(key), new.get(key)))


@dataclass(frozen=True, slots=True)
class _At:
    """Collects the findings of one path."""

    walk: _Walk
    path: str

    def narrowed(self, message: str) -> None:
        self.walk.narrowings.append(f"{self.path or 'the object'}: {message}")

    def conflict(self, message: str) -> None:
        self.walk.conflicts.append(f"{self.path or 'the object'}: {message}")


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_anything(schema: Object) -> bool:
    return not schema or (len(schema) == 1 and bool(schema.get(_PRESERVE)))


def _type_of(schema: Object) -> str:
    return str(schema.get("type") or (_EITHER if schema.get(_INT_OR_STRING) else _ANY))


def _common_type(one: str, other: str) -> str:
    if _ANY in (one, other):
        return one if other == _ANY else other
    return _NARROWER.get(frozenset((one, other)), "")


def _typed(kind: str, existing: Object, new: Object) -> Object:
    if kind == _ANY:
        return {}
    if kind != _EITHER:
        return {"type": kind}
    said = any(_says_both_types(schema) for schema in (existing, new))
    return {_INT_OR_STRING: True, **({"anyOf": _BOTH_TYPES} if said else {})}


def _says_both_types(schema: Object) -> bool:
    return bool(schema.get(_INT_OR_STRING)) and schema.get("anyOf") == _BOTH_TYPES


def _bare(schema: Object) -> Object:
    """Without the anyOf that declares an integer-or-string."""
    if not schema.get(_INT_OR_STRING):
        return schema
    bare = {key: value for key, value in schema.items() if key != "anyOf" or value != _BOTH_TYPES}
    parts = [part for part in schema.get("allOf") or () if part != {"anyOf": _BOTH_TYPES}]
    bare.pop("allOf", None)
    return {**bare, "allOf": parts} if parts else bare


def _others_of(schema: Object) -> Object | None:
    """The schema of additional properties; None: none are allowed."""
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        return others
    return {_PRESERVE: True} if others is True or schema.get(_PRESERVE) else None


def _required(existing: Object, new: Object) -> list[str]:
    """Fields required by both, and those required by one that has no default for them."""
    sides = (existing, new)
    asked = [name for schema in sides for name in schema.get("required") or ()]
    needed = {
        name
        for schema in sides
        for name in schema.get("required") or ()
        if "default" not in ((schema.get("properties") or {}).get(name) or {})
    }
    return [name for name in dict.fromkeys(asked) if name in needed or asked.count(name) > 1]


def _require_keys(made: Object) -> None:
    """Keys of a map list must be required or have a default, or the schema cannot be served."""
    items = made["items"]
    if made.get(_LIST_TYPE) != "map":
        return
    properties, required = items.get("properties") or {}, list(items.get("required") or ())
    missing = [
        key
        for key in made.get(_MAP_KEYS) or ()
        if key in properties and key not in required and "default" not in properties[key]
    ]
    if missing:
        made["items"] = {**items, "required": [*required, *missing]}
