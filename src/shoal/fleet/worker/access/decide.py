"""Plans the ClusterRoleBindings of the hub's users in a hosted cluster, and the condition that tells about them. Pure.

Only bindings that carry Shoal's label are changed or deleted. A binding that somebody else has created under one of
their names stays as it is, and the condition names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.kinds.fleet import access, infrav1
from shoal.objects.conditions import get_condition, set_condition

Object = dict[str, Any]

GRANTED, NAME_TAKEN = "BindingsInPlace", "BindingNameTaken"
"""Reasons of the condition AccessGranted."""


@dataclass(frozen=True, slots=True)
class AccessChanges:
    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[tuple[str, str]] = field(default_factory=list)
    """Name and uid. Deleted before anything is created: the role of a binding is immutable."""


def plan_bindings(copy: Object, observed: Mapping[str, Object]) -> AccessChanges:
    """`observed` has the labelled ClusterRoleBindings of the hosted cluster by name."""
    own = {name: binding for name, binding in observed.items() if access.is_access_binding(binding)}
    desired = {binding["metadata"]["name"]: binding for binding in access.access_bindings(copy)}
    changes = AccessChanges()
    for name, binding in desired.items():
        existing = own.get(name)
        if existing is None:
            changes.create.append(binding)
        elif existing.get("roleRef") != binding["roleRef"]:
            changes.delete.append((name, existing["metadata"]["uid"]))
            changes.create.append(binding)
        elif existing.get("subjects") != binding["subjects"]:
            changes.update.append({**existing, "subjects": binding["subjects"]})
    changes.delete.extend((name, binding["metadata"]["uid"]) for name, binding in own.items() if name not in desired)
    return changes


def with_access_condition(copy: Object, taken: Sequence[str], now: str) -> Object:
    """Returns the copy with the condition AccessGranted, or the same copy if nothing changes. `taken` has the names of
    bindings of somebody else. A cluster that lists nobody has no condition until there is something to tell.
    """
    if not taken and not access.access_entries(copy) and get_condition(copy, infrav1.ACCESS_GRANTED) is None:
        return copy
    if taken:
        names = ", ".join(sorted(taken))
        status, reason, message = "False", NAME_TAKEN, f"ClusterRoleBindings {names} exist and are not Shoal's"
    else:
        status, reason, message = "True", GRANTED, ""
    generation = copy["metadata"].get("generation")
    return set_condition(
        copy,
        infrav1.ACCESS_GRANTED,
        status,
        reason=reason,
        message=message,
        observed_generation=generation,
        now=now,
    )
