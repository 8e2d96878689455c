"""Admission: the plugins in the order they run.

Each plugin sees the object as it would be stored and may still change it. Admission never writes.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.admission import (
    accounts,
    addresses,
    certificates,
    clusters,
    definitions,
    devices,
    groups,
    limits,
    mirrored,
    namespaces,
    nodes,
    parameters,
    podclasses,
    quotas,
    roles,
    syncers,
    typechecks,
    volumes,
    workers,
)
from shoal.apiserver.core import Call, Core
from shoal.apiserver.policies.configurations import OWN
from shoal.kinds.webhooks import EXEMPT

Object = dict[str, Any]


def admit(core: Core, call: Call, new: Object, old: Object | None) -> None:
    """`old` is None for a creation."""
    clusters.admit_creation(call, new, old)
    workers.admit(core, call, new, old)
    syncers.admit(core, call, new, old)
    nodes.admit(call, new, old)
    namespaces.admit(core, call, new, old)
    definitions.admit_instance(call, new, old)
    if mirrored.admit(core, call, new, old):
        return
    group, plural = call.resource.group, call.resource.plural
    if group == roles.GROUP:
        roles.admit(core, call, new, old)
    elif group == definitions.GROUP:
        definitions.admit(core, call, new, old)
    elif (group, plural) == clusters.RESOURCE:
        clusters.admit(core, call, new, old)
    elif (group, plural) == certificates.RESOURCE:
        certificates.admit(core, call, new, old)
    elif (group, plural) == groups.PRIORITIES:
        groups.admit_priority(core, call, new, old)
    elif group == EXEMPT and plural in OWN:
        parameters.authorize(core, call, new, old)
        if (group, plural) == typechecks.RESOURCE:
            typechecks.observe(core, call, new)
    elif group == devices.GROUP:
        devices.admit(core, call, new, old)
    elif (group, plural) == groups.AUTOSCALERS:
        groups.refuse_autoscaler(call, old)
    elif group == "" and plural in ("pods", "persistentvolumeclaims"):
        if plural == "pods":
            accounts.admit(new, old)
            podclasses.admit(core, call, new, old)
        else:
            volumes.admit(core, call, new, old)
        limits.admit(core, call, new, old)
    elif (group, plural) == ("", "persistentvolumes"):
        volumes.admit(core, call, new, old)
    elif (group, plural) == addresses.RESOURCE and old is not None and new.get("spec") != old.get("spec"):
        addresses.allocate(core, call, new, old)
    quotas.admit(core, call, new, old)


def complete(core: Core, call: Call, new: Object) -> None:
    """Last steps for a new, valid object: allocations by the server that no client owns."""
    if call.resource.group:
        return
    if call.resource.plural == "pods":
        podclasses.approve(core, call, new)
    elif call.resource.plural == "services":
        addresses.allocate(core, call, new)


def admit_delete(core: Core, call: Call, old: Object) -> None:
    group, plural = call.resource.group, call.resource.plural
    workers.admit_delete(core, call, old)
    nodes.admit_delete(call, old)
    mirrored.admit_delete(call, old)
    if (group, plural) == ("", "namespaces"):
        namespaces.admit_delete(call)
    elif (group, plural) == clusters.RESOURCE:
        clusters.admit_delete(call)
