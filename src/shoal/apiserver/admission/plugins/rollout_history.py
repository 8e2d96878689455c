"""ReplicaSets of a hub that serves them as revisions of Deployments only: they may not ask for pods, which nobody would
create.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.registry.rollout_history import history_resource
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.kinds.apps.deployment import replicas_of
from shoal.objects.ownership import controller_name

Object = dict[str, Any]
RESOURCE = ("apps", "replicasets")


def admit(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    if ctx.resource is not history_resource(RESOURCE[1]):
        return
    if replicas_of(new) or not controller_name(new, "apps", "Deployment"):
        reason = (
            "this hub keeps ReplicaSets only as revisions of Deployments and runs none: create a Deployment, or start "
            "the hub with replicasets.apps in --resources-to-sync"
        )
        raise ctx.resource.forbidden(new, reason)
