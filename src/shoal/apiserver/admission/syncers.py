"""Limits what a remote syncer may write into the objects it may write.

Checks the stored object, so a syncer whose object has just been assigned to another cluster is rejected, whatever the
authorizer saw. A syncer may not change spec, labels or owners.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.core import Call, Core
from shoal.apiserver.paths import ROOT
from shoal.apiserver.syncers import belonging
from shoal.kinds import apiresource, workload

Object = dict[str, Any]

_SERVERS = ("resourceVersion", "managedFields", "generation", "finalizers", "annotations")
_TELLS = {workload.PROBLEM: "", workload.UNSCHEDULABLE: ""}
_IMPORTS = (apiresource.GROUP, apiresource.IMPORTS)


def admit(core: Core, call: Call, new: Object, old: Object | None) -> None:
    cluster = workload.cluster_of_syncer(call.user.name)
    if not cluster or call.user.cluster != ROOT or call.target.cluster != ROOT:
        return
    group, plural = call.resource.group, call.resource.plural
    wrong = ""
    if (group, plural) == _IMPORTS:
        wrong = import_wrong(cluster, new)
    elif (group, plural) == ("", "events"):
        wrong = "" if new.get("reportingInstance") == cluster else "an event names the cluster it is from"
    elif group in (workload.GROUP, apiresource.GROUP):
        return
    elif (group, plural) == ("", "pods") and workload.mirrored_from(new if old is None else old):
        wrong = pod_wrong(cluster, new, old) or _owner_wrong(core, call, cluster, new)
    elif old is None:
        wrong = "a syncer creates nothing"
    else:
        wrong = object_wrong(cluster, new, old, call.target.subresource)
    if wrong:
        raise call.resource.forbidden(new, wrong)


def import_wrong(cluster: str, new: Object) -> str:
    if (new.get("spec") or {}).get("location") != cluster:
        return "a syncer tells what its own cluster offers"
    owners = new["metadata"].get("ownerReferences") or ()
    if any((owner.get("kind"), owner.get("name")) != (workload.KIND, cluster) for owner in owners):
        return "an import belongs to its workload Cluster, and to nothing else"
    return ""


def pod_wrong(cluster: str, new: Object, old: Object | None) -> str:
    """Checks a mirrored pod."""
    metadata = new["metadata"]
    if any(workload.mirrored_from(obj) != cluster for obj in (new, old) if obj is not None):
        return "a syncer shows pods of its own cluster"
    if not (metadata.get("name") or "").endswith(f"--{cluster}"):
        return f"the name of a pod that is shown ends with --{cluster}"
    if workload.assigned_to(new) or metadata.get("finalizers"):
        return "what is shown only is meant for no cluster, and held by nobody"
    return ""


def _owner_wrong(core: Core, call: Call, cluster: str, new: Object) -> str:
    """A mirrored pod must be owned by the hub object it was made of, so that it is deleted with it."""
    owners = new["metadata"].get("ownerReferences") or ()
    for owner in owners if len(owners) == 1 else ():
        group, _, version = str(owner.get("apiVersion") or "").rpartition("/")
        for resource in core.clusters.registry(call.cluster).resources(group, version):
            if resource.kind != owner.get("kind") or owner.get("blockOwnerDeletion"):
                continue
            found = core.cache.kind(group, resource.plural).get(ROOT, call.namespace, str(owner.get("name") or ""))
            obj = found.object() if found is not None else None
            if obj is not None and obj["metadata"]["uid"] == owner.get("uid") and workload.assigned_to(obj) == cluster:
                return ""
    return "a pod that is shown belongs to one object that is meant for this syncer's cluster"


def object_wrong(cluster: str, new: Object, old: Object, subresource: str) -> str:
    how = belonging(old, cluster)
    if not how:
        return "it is not meant for this syncer's cluster, nor named by what is"
    if subresource:
        return "" if how != "needed" else "a syncer writes the status of what is meant for its cluster only"
    before, after = old["metadata"], new["metadata"]
    if any(new.get(key) != old.get(key) for key in {*new, *old} - {"metadata"}):
        return "a syncer changes nothing of an object but its status and its finalizer"
    for key in {*after, *before} - {*_SERVERS}:
        if (after.get(key) or None) != (before.get(key) or None):
            return f"a syncer may not change metadata.{key}"
    then, now = (dict(obj.get("annotations") or {}) for obj in (before, after))
    if then | _TELLS != now | _TELLS:
        return f"a syncer may set the annotation {workload.PROBLEM} only"
    own = workload.finalizer_of(cluster)
    if how != "assigned" and own in (after.get("finalizers") or ()) and own not in (before.get("finalizers") or ()):
        return "a syncer holds what is meant for its cluster only"
    held, holds = ([name for name in obj.get("finalizers") or () if name != own] for obj in (before, after))
    if held != holds:
        return f"a syncer may set the finalizer {own} only"
    return ""
