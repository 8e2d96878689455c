"""Finds aggregated ClusterRoles with outdated rules. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.kinds.rbac import aggregate

Object = dict[str, Any]


def outdated(roles: Sequence[Object]) -> list[Object]:
    """Returns the roles of one cluster to update, with their new rules. A role that aggregates another updated role is
    corrected by the next reconcile.
    """
    found = []
    for role in roles:
        if role.get("aggregationRule") is None or "deletionTimestamp" in role["metadata"]:
            continue
        rules = aggregate(role, roles)
        if rules != (role.get("rules") or []):
            found.append({**role, "rules": rules})
    return found
