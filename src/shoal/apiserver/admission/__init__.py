"""What a write must satisfy beyond its own schema: the steps in the order they run.

Each step sees the object as it would be stored and may still change it. Admission never writes.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.admission import clusters, definitions, namespaces, roles
from shoal.apiserver.core import Call, Core

Object = dict[str, Any]


def admit(core: Core, call: Call, new: Object, old: Object | None) -> None:
    """`old` is None for a creation."""
    clusters.admit_creation(call, new, old)
    namespaces.admit(core, call, new, old)
    definitions.admit_instance(call, new, old)
    group, plural = call.resource.group, call.resource.plural
    if group == roles.GROUP:
        roles.admit(core, call, new, old)
    elif group == definitions.GROUP:
        definitions.admit(core, call, new, old)
    elif (group, plural) == clusters.RESOURCE:
        clusters.admit(core, call, new, old)


def admit_delete(core: Core, call: Call, old: Object) -> None:
    group, plural = call.resource.group, call.resource.plural
    if (group, plural) == ("", "namespaces"):
        namespaces.admit_delete(call)
    elif (group, plural) == clusters.RESOURCE:
        clusters.admit_delete(call)
