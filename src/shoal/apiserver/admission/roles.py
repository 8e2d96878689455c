"""RBAC escalation check of roles and bindings: a user can only grant permissions it holds."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.authz import Attributes
from shoal.apiserver.authz.escalation import check_escalation
from shoal.apiserver.core import Call, Core

GROUP = "rbac.authorization.k8s.io"


def admit(core: Core, call: Call, new: dict[str, Any], old: dict[str, Any] | None) -> None:
    request = Attributes(
        cluster=call.target.cluster,
        verb=call.verb,
        group=GROUP,
        version=call.resource.version,
        resource=call.resource.plural,
        namespace=call.namespace,
        name=call.name,
    )
    check_escalation(core.authorizer, call.user, request, new, old)
