"""CEL validation rules of a custom resource schema (`x-kubernetes-validations`): compiled once, evaluated on every
write.

`rules_of(schema)` returns None for a schema without rules. `rules.check(obj, old, schema_causes, warnings)` returns the
causes.
"""

from __future__ import annotations

from typing import Any

from shoal.objects.errors import Cause
from shoal.objects.rules.checking import check
from shoal.objects.rules.places import Place, places


class Rules:
    def __init__(self, place: Place) -> None:
        self._place = place

    def check(self, obj: Any, old: Any | None, before: list[Cause], warnings: list[str] | None = None) -> list[Cause]:
        """Returns the causes of an object for which schema validation returned `schema_causes`. Failures that pass by
        ratcheting are appended to `warnings`.
        """
        return check(self._place, obj, old, before, warnings)


def rules_of(schema: dict[str, Any]) -> Rules | None:
    """Returns the rules of a whole resource's schema."""
    place = places(schema)
    return None if place is None else Rules(place)
