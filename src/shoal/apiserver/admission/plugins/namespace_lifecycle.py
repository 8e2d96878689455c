"""Rejects creations in a namespace that does not exist or is terminating, and deletions of the system namespaces."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.objects.errors import Cause, Forbidden, NotFound

IMMORTAL_NAMESPACES = ("default", "kube-system", "kube-public")


def admit(server: ServerComponents, ctx: RequestContext, new: dict[str, Any], old: dict[str, Any] | None) -> None:
    namespace = ctx.info.namespace
    if not namespace:
        return
    resource = ctx.resource
    entry = server.cache.resource_cache("", "namespaces").get(ctx.info.cluster, "", namespace)
    if entry is None:
        raise NotFound(f'namespaces "{namespace}" not found', name=namespace, kind="namespaces")
    # Searching the bytes first avoids a decode on every create. Labels can contain the text too, hence the second
    # check.
    if b'"deletionTimestamp":"' in entry.data and "deletionTimestamp" in entry.object()["metadata"]:
        reason = f"unable to create new content in namespace {namespace} because it is being terminated"
        detail = f"namespace {namespace} is being terminated"
        raise resource.forbidden(new, reason, [Cause("NamespaceTerminating", detail, "metadata.namespace")])


def admit_delete(server: ServerComponents, ctx: RequestContext, obj: dict[str, Any], old: object) -> None:
    if ctx.name in IMMORTAL_NAMESPACES:
        raise Forbidden(
            f'namespaces "{ctx.name}" is forbidden: this namespace may not be deleted',
            name=ctx.name,
            kind="namespaces",
        )
