"""Compiled schemas: pruning, defaulting and validation of objects against the schema of a CRD or a built-in.

`compile_schema` returns a shared CompiledSchema: equal schemas are compiled once. A write runs `schema.prune(obj)`,
then `schema.default(obj)`, then `schema.validate(obj)`, which returns causes.

Pure, and in place on the decoded object. CEL rules (`x-kubernetes-validations`) are evaluated by
`objects.celvalidation`.
"""

from __future__ import annotations

import hashlib
from weakref import WeakValueDictionary

import orjson

from shoal.objects.errors import BadRequest, Cause, invalid_value
from shoal.objects.schema.defaulting import copied, default
from shoal.objects.schema.fast import FastPass
from shoal.objects.schema.prune import Dropped, prune
from shoal.objects.schema.structural import (
    MAX_DEPTH,
    Builder,
    Definitions,
    Json,
    JsonSchema,
    SchemaTooDeep,
    reference,
)
from shoal.objects.schema.unique import duplicates, embedded_resources
from shoal.objects.schema.unknown import unknown_fields
from shoal.objects.schema.validate import NO_OLD, Walk

__all__ = [
    "MAX_DEPTH",
    "Definitions",
    "Json",
    "JsonSchema",
    "Schema",
    "SchemaTooDeep",
    "compile",
    "compile_part",
    "copied",
    "default_causes",
    "depth_of",
]

_TOO_DEEP = "the object is nested too deeply"


class Schema:
    """One compiled schema. Use `compile_schema`, which shares them. The given schema must not be changed afterwards."""

    def __init__(self, schema: JsonSchema, definitions: Definitions | None, digest: str, *, root: bool = True) -> None:
        self.hash = digest
        """Hash of the canonical JSON: equal schemas have equal hashes in every process."""
        text = orjson.dumps(schema)
        self.rules = b'"x-kubernetes-validations"' in text
        """The schema has CEL rules, which the caller must evaluate too."""
        self._schema = schema
        self._definitions = definitions
        self._root = root
        self._embeds = b'"x-kubernetes-embedded-resource"' in text
        self._node = Builder(definitions).build(schema, root=root)
        self._fast = FastPass(schema, definitions)
        self._status: Schema | None = None

    def prune(self, obj: dict[str, Json], *, nulls: bool = True) -> None:
        """Drops fields the schema does not declare, and nulls that are not allowed. A caller that has the bytes can
        pass `may_have_nulls=b"null" in body` to save the search.
        """
        try:
            prune(self._node, obj, nulls)
        except RecursionError:
            raise BadRequest(_TOO_DEEP) from None

    def prune_unknown(self, obj: dict[str, Json], *, nulls: bool = True) -> list[str]:
        """As `prune`. Returns a message for each unknown field: `unknown field "spec.foo"`."""
        dropped: Dropped = []
        try:
            prune(self._node, obj, nulls, dropped)
        except RecursionError:
            raise BadRequest(_TOO_DEEP) from None
        return unknown_fields(obj, dropped) if dropped else []

    def default(self, obj: dict[str, Json]) -> None:
        """Applies defaults. Run it after `prune`."""
        if not self._node.defaulting:
            return
        try:
            default(self._node, obj)
        except RecursionError:
            raise BadRequest(_TOO_DEEP) from None

    def validate(self, obj: Json, old: Json | None = None, *, path: str = "") -> list[Cause]:
        """Returns all causes, with upstream's messages. `old` is the stored object of an update. `path` is the position
        of a value that is not a whole object.
        """
        causes: list[Cause] = []
        try:
            if not self._fast.passes(obj):
                walk = Walk(self._definitions, path)
                causes = walk.causes(self._schema, obj, NO_OLD if old is None else old)
            if self._embeds:
                causes += embedded_resources(self._node, obj, path, self._root)
            repeated = duplicates(self._node, obj, path) if self._node.checked else []
            if repeated and (old is None or not duplicates(self._node, old, path)):
                causes += repeated
        except RecursionError:
            raise BadRequest(_TOO_DEEP) from None
        return causes

    def validate_status(self, obj: dict[str, Json], old: dict[str, Json] | None = None) -> list[Cause]:
        """Validates a write of the status subresource: `status` alone, with paths below `status`."""
        if "status" not in obj:
            return []
        if self._status is None:
            schema = self._schema
            while self._definitions is not None and (ref := reference(schema)):
                schema = self._definitions.schema(ref)
            self._status = compile_part((schema.get("properties") or {}).get("status") or {}, self._definitions)
        return self._status.validate(obj["status"], (old or {}).get("status"), path="status")


def compile(schema: JsonSchema, definitions: Definitions | None = None) -> Schema:  # noqa: A001
    """Returns the compiled schema of a kind. With `definitions` the schema is a built-in's with `$ref`s."""
    return _shared(schema, definitions, True)


def compile_part(schema: JsonSchema, definitions: Definitions | None = None) -> Schema:
    """Returns the compiled form of a schema that is not a whole resource's."""
    return _shared(schema, definitions, False)


def default_causes(schema: JsonSchema, path: str) -> list[Cause]:
    """Returns the errors of a schema's default: unknown fields, or values the schema itself rejects."""
    holder = Builder(None).build({"type": "object", "properties": {"default": schema}}, root=False)
    dropped: Dropped = []
    prune(holder, {"default": copied(schema["default"])}, False, dropped)
    if dropped:
        return [invalid_value(path, schema["default"], "must not have unknown fields")]
    node = holder.children["default"]
    causes = embedded_resources(node, schema["default"], path, False) if node.checked else []
    return causes or Walk(None, path).causes(schema, schema["default"])


_compiled: WeakValueDictionary[tuple[str, int, bool], Schema] = WeakValueDictionary()


def _shared(schema: JsonSchema, definitions: Definitions | None, root: bool) -> Schema:
    if depth_of(schema) > MAX_DEPTH:
        raise SchemaTooDeep
    digest = hashlib.sha256(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)).hexdigest()
    key = (digest, id(definitions), root)
    found = _compiled.get(key)
    if found is None:
        found = _compiled[key] = Schema(schema, definitions, digest, root=root)
    return found


def depth_of(schema: Json) -> int:
    """Returns the nesting depth of a schema, without recursion."""
    deepest, level = 0, [schema]
    while level and deepest <= MAX_DEPTH:
        level = [sub for outer in level for sub in _inner_schemas(outer)]
        deepest += 1
    return deepest


def _inner_schemas(schema: Json) -> list[Json]:
    if not isinstance(schema, dict):
        return []
    inner = [schema[key] for key in ("items", "additionalProperties", "not") if isinstance(schema.get(key), dict)]
    for key in ("allOf", "anyOf", "oneOf"):
        inner += schema[key] if isinstance(schema.get(key), list) else ()
    for key in ("properties", "patternProperties", "definitions"):
        inner += schema[key].values() if isinstance(schema.get(key), dict) else ()
    return inner
