"""A kind's schema, compiled on first use: pruning, defaults, validation and field ownership.

Schemas are shared between logical clusters by hash.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson

from shoal.objects import gotypes
from shoal.objects import schema as schemas
from shoal.objects.apply import TypeSchema
from shoal.objects.errors import Cause, TooLarge
from shoal.objects.metadata_types import omit_empty
from shoal.objects.schema.omitempty import OmitEmpty

if TYPE_CHECKING:
    from shoal.objects.celvalidation import CELRules

Object = dict[str, Any]
RefResolver = Callable[[str], Object]

LARGE_SCHEMA_BYTES = 384 * 1024
LARGE_SCHEMA_PROGRAMS = 500
"""Patterns and CEL rules of a schema."""


class KindSchema:
    """`resolve` finds the definitions a built-in's schema refers to. The schema of a custom kind has no references."""

    def __init__(
        self, schema: Object, resolve: RefResolver | None = None, definitions: schemas.SchemaDefinitions | None = None
    ) -> None:
        self.schema = schema
        self.resolve: RefResolver = resolve or _no_refs
        self._custom = resolve is None
        self.definitions = definitions

    @cached_property
    def _compiled_schema(self) -> schemas.CompiledSchema:
        return schemas.compile_schema(self.schema, self.definitions)

    @cached_property
    def _omitempty(self) -> OmitEmpty | None:
        return None if self._custom else OmitEmpty(self.schema, self.resolve)

    @cached_property
    def _cel_rules(self) -> CELRules | None:
        # A server whose kinds have no CEL rules does not import CEL.
        from shoal.objects.celvalidation import rules_of  # noqa: PLC0415

        return rules_of(self.schema)

    @cached_property
    def types(self) -> TypeSchema:
        return TypeSchema(self.schema, None if self._custom else self.resolve)

    @cached_property
    def definition(self) -> bytes:
        """The schema as a child process gets it; empty if it knows the kind."""
        return orjson.dumps(self.schema) if self._custom else b""

    @cached_property
    def is_large(self) -> bool:
        """True if the event loop should not compile it, which could take more than 100 ms."""
        if not self._custom:
            return False
        text = orjson.dumps(self.schema)
        programs = text.count(b'"pattern":') + text.count(b'"rule":')
        return len(text) > LARGE_SCHEMA_BYTES or programs > LARGE_SCHEMA_PROGRAMS

    def prune(self, obj: Object, *, collect: bool) -> list[str]:
        """Drops unknown fields. With `collect` it returns them in upstream's wording."""
        if self._omitempty is not None:
            self._omitempty.apply(obj)
        elif isinstance(metadata := obj.get("metadata"), dict):
            omit_empty(metadata)
        if collect:
            return self._compiled_schema.prune_unknown(obj)
        self._compiled_schema.prune(obj)
        return []

    def check_applied_config(self, config: Object, kind: str) -> None:
        """Hook for checks of an applied configuration beyond `types`."""

    def decode_error(self, obj: Object) -> str:
        """Returns why Go could not decode the object into its type. Empty if it could, or for a custom kind."""
        if self._custom:
            return ""
        type_errors = [
            cause for cause in self._compiled_schema.validate(obj) if cause.reason == "FieldValueTypeInvalid"
        ]
        return (
            gotypes.unmarshal_error(obj, str(obj["kind"]), self.schema, self.resolve) or type_errors[0].message
            if type_errors
            else ""
        )

    def default(self, obj: Object) -> None:
        # The defaults in upstream's published schemas are Go's zero values, not upstream's real defaults.
        if self._custom:
            self._compiled_schema.default(obj)

    def validate(
        self,
        obj: Object,
        old: Object | None,
        *,
        status: bool,
        warnings: list[str] | None = None,
        in_loop: bool = False,
    ) -> list[Cause]:
        """Validates a custom kind. Built-in kinds have their own validation, which is stricter than their schema.
        Appends to `warnings`. Raises TooCostlyForLoopError if `in_loop`.
        """
        if not self._custom:
            return []
        compiled = self._compiled_schema
        causes = compiled.validate_status(obj, old) if status else compiled.validate(obj, old)
        if compiled.has_rules and self._cel_rules is not None:
            causes += self._cel_rules.check(obj, old, causes, warnings, in_loop=in_loop)
        return causes

    def normalise(self, obj: Object) -> bool:
        before = orjson.dumps(obj)
        self.prune(obj, collect=False)
        # An object that is stored is served. Whoever gave its kind too many defaults sees the first of them.
        with suppress(TooLarge):
            self.default(obj)
        return orjson.dumps(obj) != before


def _no_refs(name: str) -> Object:
    raise KeyError(name)
