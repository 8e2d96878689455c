"""Condition `Dangling` of FlowSchemas, in upstream's words: whether the named priority level exists. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from shoal.kinds.flowcontrol_first import dangling

Object = dict[str, Any]


def outdated(schemas: Iterable[Object], levels: Collection[str], now: str) -> list[Object]:
    """Returns the FlowSchemas of one cluster whose condition is wrong, with the right one."""
    found = []
    for schema in schemas:
        name = schema["spec"]["priorityLevelConfiguration"]["name"]
        wanted = dangling(name, name in levels)
        conditions = (schema.get("status") or {}).get("conditions") or []
        there: Object = next((each for each in conditions if each.get("type") == wanted["type"]), {})
        if any(there.get(field) != value for field, value in wanted.items()):
            since = now if there.get("status") != wanted["status"] else there.get("lastTransitionTime") or now
            others = [each for each in conditions if each is not there]
            found.append({**schema, "status": {"conditions": [*others, {**wanted, "lastTransitionTime": since}]}})
    return found
