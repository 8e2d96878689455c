"""Condition `Dangling` of FlowSchemas, in upstream's words: whether the named priority level exists. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from shoal.kinds.flowcontrol.bootstrap import dangling_condition

Object = dict[str, Any]


def schemas_to_update(schemas: Iterable[Object], levels: Collection[str], now: str) -> list[Object]:
    """Returns the FlowSchemas of one cluster whose condition is wrong, with the right one."""
    result = []
    for schema in schemas:
        name = schema["spec"]["priorityLevelConfiguration"]["name"]
        condition = dangling_condition(name, name in levels)
        conditions = (schema.get("status") or {}).get("conditions") or []
        current: Object = next((each for each in conditions if each.get("type") == condition["type"]), {})
        if any(current.get(field) != value for field, value in condition.items()):
            since = now if current.get("status") != condition["status"] else current.get("lastTransitionTime") or now
            others = [each for each in conditions if each is not current]
            result.append({**schema, "status": {"conditions": [*others, {**condition, "lastTransitionTime": since}]}})
    return result
