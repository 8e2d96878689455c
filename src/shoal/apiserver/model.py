"""A kind's schema, compiled on first use: pruning, defaults, validation and field ownership.

Schemas are shared between logical clusters by hash.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson

from shoal.objects import gotypes
from shoal.objects import schema as schemas
from shoal.objects.apply import TypeSchema
from shoal.objects.errors import Cause
from shoal.objects.metadata_types import tidy
from shoal.objects.schema.empties import Empties

if TYPE_CHECKING:
    from shoal.objects.rules import Rules

Object = dict[str, Any]
Resolve = Callable[[str], Object]


class Model:
    """`resolve` finds the definitions a built-in's schema refers to. The schema of a custom kind has no references."""

    def __init__(
        self, schema: Object, resolve: Resolve | None = None, found: schemas.Definitions | None = None
    ) -> None:
        self.schema = schema
        self.resolve: Resolve = resolve or _nothing
        self._custom = resolve is None
        self.found = found

    @cached_property
    def _compiled(self) -> schemas.Schema:
        return schemas.compile(self.schema, self.found)

    @cached_property
    def _empties(self) -> Empties | None:
        return None if self._custom else Empties(self.schema, self.resolve)

    @cached_property
    def _rules(self) -> Rules | None:
        # A server whose kinds have no CEL rules does not import CEL.
        from shoal.objects.rules import rules_of  # noqa: PLC0415

        return rules_of(self.schema)

    @cached_property
    def types(self) -> TypeSchema:
        return TypeSchema(self.schema, None if self._custom else self.resolve)

    def prune(self, obj: Object, *, collect: bool) -> list[str]:
        """Drops unknown fields. With `collect` it returns them in upstream's wording."""
        if self._empties is not None:
            self._empties.drop(obj)
        elif isinstance(metadata := obj.get("metadata"), dict):
            tidy(metadata)
        if collect:
            return self._compiled.prune_unknown(obj)
        self._compiled.prune(obj)
        return []

    def check_declared(self, config: Object, kind: str) -> None:
        """Hook for checks of an applied configuration beyond `types`."""

    def decoding_problem(self, obj: Object) -> str:
        """Returns why Go could not decode the object into its type. Empty if it could, or for a custom kind."""
        if self._custom:
            return ""
        wrong = [cause for cause in self._compiled.validate(obj) if cause.reason == "FieldValueTypeInvalid"]
        return gotypes.problem(obj, str(obj["kind"]), self.schema, self.resolve) or wrong[0].message if wrong else ""

    def default(self, obj: Object) -> None:
        # The defaults in upstream's published schemas are Go's zero values, not upstream's real defaults.
        if self._custom:
            self._compiled.default(obj)

    def validate(
        self, obj: Object, old: Object | None, *, status: bool, warnings: list[str] | None = None
    ) -> list[Cause]:
        """Validates a custom kind. Built-in kinds have their own validation, which is stricter than their schema.
        Appends to `warnings`.
        """
        if not self._custom:
            return []
        compiled = self._compiled
        causes = compiled.validate_status(obj, old) if status else compiled.validate(obj, old)
        if compiled.rules and self._rules is not None:
            causes += self._rules.check(obj, old, causes, warnings)
        return causes

    def normalise(self, obj: Object) -> bool:
        before = orjson.dumps(obj)
        self.prune(obj, collect=False)
        self.default(obj)
        return orjson.dumps(obj) != before


def _nothing(name: str) -> Object:
    raise KeyError(name)
