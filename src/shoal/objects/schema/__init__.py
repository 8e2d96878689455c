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
from shoal.objects.schema.defaults import Defaulter, deep_copy
from shoal.objects.schema.jsonschema_pass import JSONSchemaPass
from shoal.objects.schema.list_types import duplicate_causes, embedded_resource_causes
from shoal.objects.schema.prune import DroppedFields, prune, unknown_field_errors
from shoal.objects.schema.structural import (
    MAX_DEPTH,
    Json,
    JsonSchema,
    SchemaDefinitions,
    SchemaTooDeepError,
    StructuralBuilder,
    reference_of,
)
from shoal.objects.schema.validate import NO_OLD, SchemaValidator

__all__ = [
    "MAX_DEPTH",
    "CompiledSchema",
    "Json",
    "JsonSchema",
    "SchemaDefinitions",
    "SchemaTooDeepError",
    "compile_schema",
    "compile_subschema",
    "deep_copy",
    "schema_depth",
    "validate_default",
]

_NESTED_TOO_DEEPLY = "the object is nested too deeply"


class CompiledSchema:
    """One compiled schema. Use `compile_schema`, which shares them. The given schema must not be changed afterwards."""

    def __init__(
        self, schema: JsonSchema, definitions: SchemaDefinitions | None, digest: str, *, root: bool = True
    ) -> None:
        self.digest = digest
        """Hash of the canonical JSON: equal schemas have equal hashes in every process."""
        text = orjson.dumps(schema)
        self.has_rules = b'"x-kubernetes-validations"' in text
        """The schema has CEL rules, which the caller must evaluate too."""
        self._schema = schema
        self._definitions = definitions
        self._is_root = root
        self._has_embedded_resources = b'"x-kubernetes-embedded-resource"' in text
        self._node = StructuralBuilder(definitions).build(schema, root=root)
        self._jsonschema_pass = JSONSchemaPass(schema, definitions)
        self._status: CompiledSchema | None = None

    def prune(self, obj: dict[str, Json], *, may_have_nulls: bool = True) -> None:
        """Drops fields the schema does not declare, and nulls that are not allowed. A caller that has the bytes can
        pass `may_have_nulls=b"null" in body` to save the search.
        """
        try:
            prune(self._node, obj, may_have_nulls)
        except RecursionError:
            raise BadRequest(_NESTED_TOO_DEEPLY) from None

    def prune_unknown(self, obj: dict[str, Json], *, may_have_nulls: bool = True) -> list[str]:
        """As `prune`. Returns a message for each unknown field: `unknown field "spec.foo"`."""
        dropped: DroppedFields = []
        try:
            prune(self._node, obj, may_have_nulls, dropped)
        except RecursionError:
            raise BadRequest(_NESTED_TOO_DEEPLY) from None
        return unknown_field_errors(obj, dropped) if dropped else []

    def default(self, obj: dict[str, Json]) -> None:
        """Applies defaults. Run it after `prune`. Raises TooLarge if they would add too much."""
        if not self._node.has_defaults:
            return
        try:
            Defaulter().apply(self._node, obj)
        except RecursionError:
            raise BadRequest(_NESTED_TOO_DEEPLY) from None

    def validate(self, obj: Json, old: Json | None = None, *, path: str = "") -> list[Cause]:
        """Returns all causes, with upstream's messages. `old` is the stored object of an update. `path` is the position
        of a value that is not a whole object.
        """
        causes: list[Cause] = []
        try:
            if not self._jsonschema_pass.passes(obj):
                walk = SchemaValidator(self._definitions, path)
                causes = walk.validate(self._schema, obj, NO_OLD if old is None else old)
            if self._has_embedded_resources:
                causes += embedded_resource_causes(self._node, obj, path, self._is_root)
            duplicates = duplicate_causes(self._node, obj, path) if self._node.needs_check else []
            if duplicates and (old is None or not duplicate_causes(self._node, old, path)):
                causes += duplicates
        except RecursionError:
            raise BadRequest(_NESTED_TOO_DEEPLY) from None
        return causes

    def validate_status(self, obj: dict[str, Json], old: dict[str, Json] | None = None) -> list[Cause]:
        """Validates a write of the status subresource: `status` alone, with paths below `status`."""
        if "status" not in obj:
            return []
        if self._status is None:
            schema = self._schema
            while self._definitions is not None and (ref := reference_of(schema)):
                schema = self._definitions.schema(ref)
            self._status = compile_subschema((schema.get("properties") or {}).get("status") or {}, self._definitions)
        return self._status.validate(obj["status"], (old or {}).get("status"), path="status")


def compile_schema(schema: JsonSchema, definitions: SchemaDefinitions | None = None) -> CompiledSchema:
    """Returns the compiled schema of a kind. With `definitions` the schema is a built-in's with `$ref`s."""
    return _compile_shared(schema, definitions, True)


def compile_subschema(schema: JsonSchema, definitions: SchemaDefinitions | None = None) -> CompiledSchema:
    """Returns the compiled form of a schema that is not a whole resource's."""
    return _compile_shared(schema, definitions, False)


def validate_default(schema: JsonSchema, path: str) -> list[Cause]:
    """Returns the errors of a schema's default: unknown fields, or values the schema itself rejects."""
    holder = StructuralBuilder(None).build({"type": "object", "properties": {"default": schema}}, root=False)
    dropped: DroppedFields = []
    prune(holder, {"default": deep_copy(schema["default"])}, False, dropped)
    if dropped:
        return [invalid_value(path, schema["default"], "must not have unknown fields")]
    node = holder.children["default"]
    causes = embedded_resource_causes(node, schema["default"], path, False) if node.needs_check else []
    return causes or SchemaValidator(None, path).validate(schema, schema["default"])


_compiled_schemas: WeakValueDictionary[tuple[str, int, bool], CompiledSchema] = WeakValueDictionary()


def _compile_shared(schema: JsonSchema, definitions: SchemaDefinitions | None, root: bool) -> CompiledSchema:
    if schema_depth(schema) > MAX_DEPTH:
        raise SchemaTooDeepError
    digest = hashlib.sha256(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)).hexdigest()
    key = (digest, id(definitions), root)
    compiled = _compiled_schemas.get(key)
    if compiled is None:
        compiled = _compiled_schemas[key] = CompiledSchema(schema, definitions, digest, root=root)
    return compiled


def schema_depth(schema: Json) -> int:
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
