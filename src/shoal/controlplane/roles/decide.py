"""Which aggregated ClusterRoles do not have the rules they should. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.kinds.rbac import aggregate

Object = dict[str, Any]


def outdated(roles: Sequence[Object]) -> list[Object]:
    """Those of one cluster, as they should be. A role fed by another of them is right at the next look."""
    found = []
    for role in roles:
        if role.get("aggregationRule") is None or "deletionTimestamp" in role["metadata"]:
            continue
        rules = aggregate(role, roles)
        if rules != (role.get("rules") or []):
            found.append({**role, "rules": rules})
    return found
