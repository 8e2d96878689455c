"""Limits what a remote syncer may write into the objects it may write.

Checks the stored object, so a syncer whose object has just been assigned to another cluster is rejected, whatever the
authorizer saw. A syncer may not change spec, labels or owners.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.authz.syncer_graph import relation_to_cluster
from shoal.apiserver.request.info import ROOT
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.kinds.workload import apiresource, workloadcluster

Object = dict[str, Any]

_SERVER_FIELDS = ("resourceVersion", "managedFields", "generation", "finalizers", "annotations")
_SYNCER_ANNOTATIONS = {workloadcluster.PROBLEM_ANNOTATION: "", workloadcluster.UNSCHEDULABLE_ANNOTATION: ""}
_IMPORTS = (apiresource.GROUP, apiresource.IMPORT_PLURAL)


def admit(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    cluster = workloadcluster.cluster_of_syncer(ctx.user.name)
    if not cluster or ctx.user.cluster != ROOT or ctx.info.cluster != ROOT:
        return
    group, plural = ctx.resource.group, ctx.resource.plural
    error = ""
    if (group, plural) == _IMPORTS:
        error = import_error(cluster, new)
    elif (group, plural) == ("", "events"):
        error = (
            ""
            if new.get("reportingInstance") == cluster
            else "reportingInstance of an event must be the syncer's cluster"
        )
    elif group in (workloadcluster.GROUP, apiresource.GROUP):
        return
    elif (group, plural) == ("", "pods") and workloadcluster.mirror_source(new if old is None else old):
        error = pod_error(cluster, new, old) or _owner_error(server, ctx, cluster, new)
    elif old is None:
        error = "a syncer may not create it"
    else:
        error = object_error(cluster, new, old, ctx.info.subresource)
    if error:
        raise ctx.resource.forbidden(new, error)


def import_error(cluster: str, new: Object) -> str:
    if (new.get("spec") or {}).get("location") != cluster:
        return "a syncer may write imports of its own cluster only"
    owners = new["metadata"].get("ownerReferences") or ()
    if any((owner.get("kind"), owner.get("name")) != (workloadcluster.KIND, cluster) for owner in owners):
        return "an import must be owned by its workload Cluster only"
    return ""


def pod_error(cluster: str, new: Object, old: Object | None) -> str:
    """Checks a mirrored pod."""
    metadata = new["metadata"]
    if any(workloadcluster.mirror_source(obj) != cluster for obj in (new, old) if obj is not None):
        return "a syncer may mirror pods of its own cluster only"
    if not (metadata.get("name") or "").endswith(f"--{cluster}"):
        return f"the name of a mirrored pod must end with --{cluster}"
    if workloadcluster.assigned_cluster(new) or metadata.get("finalizers"):
        return "a mirrored pod must not be assigned to a cluster or have finalizers"
    return ""


def _owner_error(server: ServerComponents, ctx: RequestContext, cluster: str, new: Object) -> str:
    """A mirrored pod must be owned by the hub object it was made of, so that it is deleted with it."""
    owners = new["metadata"].get("ownerReferences") or ()
    for owner in owners if len(owners) == 1 else ():
        group, _, version = str(owner.get("apiVersion") or "").rpartition("/")
        for resource in server.clusters.registry(ctx.cluster).resources(group, version):
            if resource.kind != owner.get("kind") or owner.get("blockOwnerDeletion"):
                continue
            entry = server.cache.resource_cache(group, resource.plural).get(
                ROOT, ctx.namespace, str(owner.get("name") or "")
            )
            obj = entry.object() if entry is not None else None
            if (
                obj is not None
                and obj["metadata"]["uid"] == owner.get("uid")
                and workloadcluster.assigned_cluster(obj) == cluster
            ):
                return ""
    return "a mirrored pod must be owned by one object that is assigned to this syncer's cluster"


def object_error(cluster: str, new: Object, old: Object, subresource: str) -> str:
    relation = relation_to_cluster(old, cluster)
    if not relation:
        return "it is neither assigned to this syncer's cluster nor referenced by an object that is"
    if subresource:
        return "" if relation != "needed" else "a syncer may write the status only of objects assigned to its cluster"
    before, after = old["metadata"], new["metadata"]
    if any(new.get(key) != old.get(key) for key in {*new, *old} - {"metadata"}):
        return "a syncer may change only the status, its finalizer and its annotations"
    for key in {*after, *before} - {*_SERVER_FIELDS}:
        if (after.get(key) or None) != (before.get(key) or None):
            return f"a syncer may not change metadata.{key}"
    then, now = (dict(obj.get("annotations") or {}) for obj in (before, after))
    own_annotations = _SYNCER_ANNOTATIONS | {workloadcluster.dependency_status_annotation(cluster): ""}
    if then | own_annotations != now | own_annotations:
        return f"a syncer may set the annotation {workloadcluster.PROBLEM_ANNOTATION} only"
    own_finalizer = workloadcluster.syncer_finalizer(cluster)
    if (
        relation != "assigned"
        and own_finalizer in (after.get("finalizers") or ())
        and own_finalizer not in (before.get("finalizers") or ())
    ):
        return "a syncer may add its finalizer only to objects assigned to its cluster"
    finalizers_before, finalizers_after = (
        [name for name in obj.get("finalizers") or () if name != own_finalizer] for obj in (before, after)
    )
    if finalizers_before != finalizers_after:
        return f"a syncer may set the finalizer {own_finalizer} only"
    return ""
