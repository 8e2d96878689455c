"""LogicalClusters exist in root only, root cannot be deleted, and a terminating cluster accepts no new objects."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.request.info import ROOT
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.kinds.fleet.logicalcluster import GROUP, PLURAL
from shoal.objects.errors import Forbidden

RESOURCE = (GROUP, PLURAL)


def admit(server: ServerComponents, ctx: RequestContext, new: dict[str, Any], old: dict[str, Any] | None) -> None:
    if ctx.info.cluster != ROOT:
        raise Forbidden("logicalclusters.core.shoal.dev is forbidden: logical clusters are declared in root only")


def admit_creation(
    server: ServerComponents, ctx: RequestContext, new: dict[str, Any], old: dict[str, Any] | None
) -> None:
    """Rejects creations in a terminating logical cluster."""
    if ctx.cluster.terminating:
        reason = f"unable to create new content in logical cluster {ctx.cluster.name} because it is being terminated"
        raise ctx.resource.forbidden(new, reason)


def admit_delete(server: ServerComponents, ctx: RequestContext, obj: dict[str, Any], old: object) -> None:
    if ctx.name == ROOT:
        raise Forbidden(
            'logicalclusters.core.shoal.dev "root" is forbidden: root may not be deleted',
            name=ROOT,
            group=GROUP,
            kind=PLURAL,
        )
