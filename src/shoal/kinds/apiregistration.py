"""APIServices. Clients look for the kind in discovery; what is served here needs none, and no other server is asked."""

from __future__ import annotations

from typing import Any

from shoal.objects.errors import Cause, forbidden_field

Object = dict[str, Any]


def validate_api_service(obj: Object, old: Object | None) -> list[Cause]:
    if (obj.get("spec") or {}).get("service") is None:
        return []
    return [forbidden_field("spec.service", "aggregated API servers are not supported")]
