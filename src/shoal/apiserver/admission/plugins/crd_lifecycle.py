"""Accepts the names of a CustomResourceDefinition and establishes its kinds in the write itself.

So a client may create objects of a new kind as soon as its CRD write is acknowledged. Names that another CRD holds are
not accepted until that one is deleted; then the CRD controller touches the waiting one.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.clock import rfc3339
from shoal.kinds.apiextensions.customresourcedefinition import establish, record_stored_version
from shoal.kinds.apiextensions.validation import has_valid_names

GROUP = "apiextensions.k8s.io"


def admit(server: ServerComponents, ctx: RequestContext, new: dict[str, Any], old: dict[str, Any] | None) -> None:
    record_stored_version(new)
    if not new["metadata"].get("name") or not has_valid_names(new, old):
        return  # validation rejects it next and gives the reason; the code below assumes a valid CRD
    group = new["spec"].get("group")
    others = [
        entry.object()
        for entry in ctx.resource_cache.table(ctx.info.cluster).select("")
        if entry.name != new["metadata"]["name"] and entry.name.endswith(f".{group}")
    ]
    builtin_names = [
        {
            "plural": resource.plural,
            "singular": resource.singular,
            "shortNames": list(resource.short_names),
            "kind": resource.kind,
            "listKind": resource.list_kind,
        }
        for resource in server.clusters.registry(ctx.cluster)
        if not resource.custom and resource.group == group
    ]
    establish(new, others, builtin_names, rfc3339(server.clock.now()))


def admit_instance(
    server: ServerComponents, ctx: RequestContext, new: dict[str, Any], old: dict[str, Any] | None
) -> None:
    """A kind whose CRD is being deleted accepts no new objects, by apply either."""
    resource = ctx.resource
    if resource.custom and "create" not in resource.verbs:
        raise resource.forbidden(new, "create not allowed while custom resource definition is terminating")
