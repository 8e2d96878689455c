"""The CEL rules of a custom kind's schema (`x-kubernetes-validations`): compiled once, checked on every write.

rules = rules_of(schema)                    # None when it has none
causes = rules.check(obj, old, causes_of_the_schema, warnings)
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
        """What is wrong with an object in which the schema found `before`. Failures that are let through because
        nothing changed there are told in `warnings`."""
        return check(self._place, obj, old, before, warnings)


def rules_of(schema: dict[str, Any]) -> Rules | None:
    """Those of a whole resource's schema."""
    place = places(schema)
    return None if place is None else Rules(place)
