"""Finds aggregated ClusterRoles with outdated rules. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.kinds.rbac.rbac import aggregate_rules

Object = dict[str, Any]


def roles_to_update(roles: Sequence[Object]) -> list[Object]:
    """Returns the roles of one cluster to update, with their new rules. A role that aggregates another updated role is
    corrected by the next reconcile.
    """
    result = []
    for role in roles:
        if role.get("aggregationRule") is None or "deletionTimestamp" in role["metadata"]:
            continue
        rules = aggregate_rules(role, roles)
        if rules != (role.get("rules") or []):
            result.append({**role, "rules": rules})
    return result
