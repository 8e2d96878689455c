"""Mirrored pods on a hub may be written only by the syncer of their cluster and by the hub's own controllers, which
also delete them with their owners.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.registry import mirrored_pods
from shoal.apiserver.request.info import ROOT
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.kinds.rbac.loop_accounts import user_of
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import Forbidden

Object = dict[str, Any]


def admit(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> bool:
    """Returns whether the object is a mirrored pod by a permitted writer. Such a pod skips the other plugins."""
    if ctx.cluster.profile != "hub":
        return False
    cluster = workloadcluster.mirror_source(old if old is not None else new)
    if ctx.resource is not mirrored_pods.pod_resource():
        if cluster and old is None:
            reason = "this hub syncs Pods, so it does not mirror pods of its workload Clusters"
            raise ctx.resource.forbidden(new, reason)
        return False
    if not cluster or not _may_write(ctx, cluster):
        raise _read_only_error(ctx, new, cluster)
    if old is None and not mirrored_pods.is_requested(
        server.cache.resource_cache(*mirrored_pods.WORKLOAD_CLUSTERS).get(ctx.info.cluster, "", cluster)
    ):
        raise ctx.resource.forbidden(new, f"workload Cluster {cluster} does not request pod mirroring")
    return True


def admit_delete(server: ServerComponents, ctx: RequestContext, obj: Object, old: object) -> None:
    cluster = workloadcluster.mirror_source(obj) if ctx.resource is mirrored_pods.pod_resource() else ""
    if cluster and not _may_write(ctx, cluster):
        raise _read_only_error(ctx, obj, cluster)


def _may_write(ctx: RequestContext, cluster: str) -> bool:
    is_syncer = ctx.user.cluster == ROOT and ctx.user.name in (workloadcluster.syncer_user(cluster), user_of("syncer"))
    return is_syncer or ctx.user.embedded


def _read_only_error(ctx: RequestContext, obj: Object, cluster: str) -> Forbidden:
    if not cluster:
        return ctx.resource.forbidden(
            obj, "a hub runs no pods; it only has read-only mirrors of pods of its workload Clusters"
        )
    reason = f"it is a read-only mirror of a pod in workload Cluster {cluster}; change the pod there, or its owner"
    return ctx.resource.forbidden(obj, reason)
