"""RBAC escalation check of roles and bindings: a user can only grant permissions it holds."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.authz import Attributes
from shoal.apiserver.authz.escalation import check_escalation
from shoal.apiserver.server import RequestContext, ServerComponents

GROUP = "rbac.authorization.k8s.io"


def admit(server: ServerComponents, ctx: RequestContext, new: dict[str, Any], old: dict[str, Any] | None) -> None:
    request = Attributes(
        cluster=ctx.info.cluster,
        verb=ctx.verb,
        group=GROUP,
        version=ctx.resource.version,
        resource=ctx.resource.plural,
        namespace=ctx.namespace,
        name=ctx.name,
    )
    check_escalation(server.authorizer, ctx.user, request, new, old)
