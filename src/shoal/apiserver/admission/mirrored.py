"""Mirrored pods on a hub may be written only by the syncer of their cluster and by the hub's own controllers, which
also delete them with their owners.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver import mirrored
from shoal.apiserver.authn import LOOPS
from shoal.apiserver.core import Call, Core
from shoal.apiserver.paths import ROOT
from shoal.kinds import workload
from shoal.objects.errors import Forbidden

Object = dict[str, Any]


def admit(core: Core, call: Call, new: Object, old: Object | None) -> bool:
    """Returns whether the object is a mirrored pod by a permitted writer. Such a pod skips the other plugins."""
    if (call.resource.group, call.resource.plural) != mirrored.PODS or call.cluster.profile != "hub":
        return False
    cluster = workload.mirrored_from(old if old is not None else new)
    if call.resource is not mirrored.pods():
        if cluster and old is None:
            why = "this hub syncs Pods, so it does not show those of its workload Clusters"
            raise call.resource.forbidden(new, why)
        return False
    if not cluster or not _may_write(call, cluster):
        raise _refused(call, new, cluster)
    if old is None and not mirrored.asks(core.cache.kind(*mirrored.ASKING).get(call.target.cluster, "", cluster)):
        raise call.resource.forbidden(new, f"the workload Cluster {cluster} does not ask for its pods to be shown")
    return True


def admit_delete(call: Call, old: Object) -> None:
    cluster = workload.mirrored_from(old) if call.resource is mirrored.pods() else ""
    if cluster and not _may_write(call, cluster):
        raise _refused(call, old, cluster)


def _may_write(call: Call, cluster: str) -> bool:
    return call.user.cluster == ROOT and call.user.name in (LOOPS, workload.syncer_user(cluster))


def _refused(call: Call, obj: Object, cluster: str) -> Forbidden:
    if not cluster:
        return call.resource.forbidden(obj, "a hub runs no pods; it shows those of its workload Clusters, read-only")
    why = f"it is a read-only mirror of a pod in the workload Cluster {cluster}; change it there, or what it is made of"
    return call.resource.forbidden(obj, why)
