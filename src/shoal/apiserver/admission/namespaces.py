"""Rejects creations in a namespace that does not exist or is terminating, and deletions of the system namespaces."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.core import Call, Core
from shoal.objects.errors import Cause, Forbidden, NotFound

IMMORTAL = ("default", "kube-system", "kube-public")


def admit(core: Core, call: Call, new: dict[str, Any], old: dict[str, Any] | None) -> None:
    if old is not None or not call.namespace:
        return
    resource = call.resource
    entry = core.cache.kind("", "namespaces").get(call.target.cluster, "", call.namespace)
    if entry is None:
        raise NotFound(f'namespaces "{call.namespace}" not found', name=call.namespace, kind="namespaces")
    # Searching the bytes first avoids a decode on every create. Labels can contain the text too, hence the second
    # check.
    if b'"deletionTimestamp":"' in entry.data and "deletionTimestamp" in entry.object()["metadata"]:
        why = f"unable to create new content in namespace {call.namespace} because it is being terminated"
        told = f"namespace {call.namespace} is being terminated"
        raise resource.forbidden(new, why, [Cause("NamespaceTerminating", told, "metadata.namespace")])


def admit_delete(call: Call) -> None:
    if call.name in IMMORTAL:
        raise Forbidden(
            f'namespaces "{call.name}" is forbidden: this namespace may not be deleted',
            name=call.name,
            kind="namespaces",
        )
