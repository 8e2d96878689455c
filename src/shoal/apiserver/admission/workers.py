"""Limits what a worker may write into the objects it may write, as upstream's NodeRestriction does for nodes.

Checks the stored object, so a worker that has just lost a ManagedCluster is rejected, whatever the authorizer saw. A
worker reports what it is and what it observes. The hub owns assignments, and administrators own labels and taints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.apiserver.admission.certificates import RESOURCE as REQUESTS
from shoal.apiserver.core import Call, Core
from shoal.apiserver.paths import ROOT
from shoal.kinds import fleet, joining, moving
from shoal.objects.conditions import get_condition

Object = dict[str, Any]

_PEOPLES = ("labels", "finalizers", "ownerReferences")
"""Metadata that selects, protects and deletes objects."""
_ADMINISTRATORS = (
    *("taints", "unschedulable", "drain", "drainBudget"),
    *("capacityLimit", "allocatable", "cost", "nodes"),
)
"""Fields of a Worker's spec that steer scheduling and are therefore set by administrators."""
_DECLARED = ("capacity", "location", "provides")
"""Fields a worker may set if it registered itself."""
_HUBS = ("assignedWorker", "lastWorker", "epoch", "move", "lastMove", "restoreFrom", "formerWorkers")
_HUBS_CONDITIONS = (fleet.SCHEDULED, fleet.WORKER_READY, fleet.MOVING, fleet.MOVABLE)
"""Fields and conditions of a ManagedCluster about its assignment and the worker's reachability, which only the hub
sets.
"""


def admit(core: Core, call: Call, new: Object, old: Object | None) -> None:
    user = call.user
    if not user.name.startswith((joining.PREFIX, joining.BOOTSTRAP_PREFIX)) or user.cluster != ROOT:
        return
    what = (call.resource.group, call.resource.plural)
    worker = joining.worker_of(user.name, user.groups)
    if what == REQUESTS:
        if old is None and new["spec"].get("signerName") != joining.SIGNER:
            raise call.resource.forbidden(new, f"{user.name} may ask the signer {joining.SIGNER} only")
        return
    check = _CHECKS.get(what)
    if not worker or check is None:
        return
    wrong = check(worker, new, old, bool(call.target.subresource))
    if not wrong and what == ("", "secrets"):
        wrong = _not_held(core, worker, new)
    if not wrong and what == (fleet.GROUP, "managedclusters"):
        wrong = _waited_for(core, new, old)
    if wrong:
        raise call.resource.forbidden(new, wrong)


def admit_delete(core: Core, call: Call, old: Object) -> None:
    """Checks deletions of Secrets, the only objects a worker may delete."""
    worker = joining.worker_of(call.user.name, call.user.groups)
    if worker and (call.resource.group, call.resource.plural) == ("", "secrets"):
        name = old["metadata"]["name"]
        segment = moving.segment_of(name)
        if segment is not None:
            if not moving.is_log_of(old, segment[0]):
                raise call.resource.forbidden(old, "it is somebody else's, though it has the name of a log")
        elif not fleet.is_kubeconfig_of(old, fleet.cluster_of_secret(name)):
            raise call.resource.forbidden(old, "it is somebody else's, though it has the name of a kubeconfig")


def worker_wrong(worker: str, new: Object, old: Object | None, subresource: bool) -> str:
    if new["metadata"].get("name") != worker:
        return f"a worker has its own Worker only, {worker}"
    before: Object = old or {"metadata": {}}
    for field in _PEOPLES:
        if (new["metadata"].get(field) or None) != (before["metadata"].get(field) or None):
            return f"a worker may not set the {field} of its Worker"
    for field in _ADMINISTRATORS:
        if _said(new, field) != _said(before, field):
            return f"a worker may not set its {field}"
    # By these fields the hub creates clusters and uses kubeconfigs that do not belong to the worker.
    for field in ("kubeconfigSecretRef", "hubAddress"):
        if fleet.spec_of(new).get(field) != fleet.spec_of(before).get(field):
            return f"a worker may not set {field} of its Worker"
    is_kind, was_kind = (fleet.spec_of(obj).get("infrastructure") == fleet.KIND for obj in (new, before))
    if is_kind != was_kind:
        return f"whether its Worker is infrastructure {fleet.KIND} is not for a worker to say"
    now, then = (obj["metadata"].get("annotations") or {} for obj in (new, before))
    if was_kind or then.get(fleet.SUPERVISOR):
        for field in _DECLARED:
            if fleet.spec_of(new).get(field) != fleet.spec_of(before).get(field):
                return f"the {field} of a Worker that was declared is not for a worker to change"
    if then.get(fleet.STORE) and now.get(fleet.STORE) != then[fleet.STORE]:
        return "a Worker belongs to the store that took its name"
    if {**now, fleet.STORE: ""} != {**then, fleet.STORE: ""}:
        return f"a worker may set the annotation {fleet.STORE} only"
    return ""


def _said(obj: Object, field: str) -> Any:
    """A field of the spec; None if it is empty. A limit of 0 is not empty."""
    found = fleet.spec_of(obj).get(field)
    return None if found is False or found in ([], {}, "") else found


def lease_wrong(worker: str, new: Object, old: Object | None, subresource: bool) -> str:
    named = new["metadata"].get("name") == fleet.lease_name(worker)
    return "" if named else f"a worker has its own Lease only, {fleet.lease_name(worker)}"


def cluster_wrong(worker: str, new: Object, old: Object | None, subresource: bool) -> str:
    if old is None:
        return "a worker creates no ManagedClusters"
    if fleet.assigned_worker(old) != worker:
        if subresource and worker in moving.former_workers(old):
            return _parting_wrong(worker, new, old)
        return "it is not assigned to this worker"
    if subresource:
        now, then = fleet.status_of(new), fleet.status_of(old)
        changed = [f"status.{field}" for field in _HUBS if now.get(field) != then.get(field)]
        changed += [
            f"the condition {type_}"
            for type_ in _HUBS_CONDITIONS
            if get_condition(new, type_) != get_condition(old, type_)
        ]
        return f"a worker may not change {changed[0]}" if changed else _said_for_another(worker, now, then)
    if fleet.spec_of(new) != fleet.spec_of(old):
        return "a worker may not change the spec of a ManagedCluster"
    if any((new["metadata"].get(key) or None) != (old["metadata"].get(key) or None) for key in _UNCHANGED):
        return "a worker may not change the metadata of a ManagedCluster"
    now_held, held = (obj["metadata"].get("finalizers") or [] for obj in (new, old))
    if now_held != held:
        if not fleet.is_deleting(old):
            return "a worker lets go of a ManagedCluster that is being deleted only"
        if now_held != [each for each in held if each != fleet.FINALIZER]:
            return f"a worker may take off the finalizer {fleet.FINALIZER} only"
    return ""


def _said_for_another(worker: str, now: Object, then: Object) -> str:
    """A worker reports `held` and `backup` only for itself and the current epoch."""
    for field in ("held", "backup"):
        said = now.get(field)
        if said and said != then.get(field) and (said.get("worker"), said.get("epoch")) != (worker, then.get("epoch")):
            return f"a worker says status.{field} for itself only, and for the present epoch"
    return ""


def _parting_wrong(worker: str, new: Object, old: Object) -> str:
    """A former worker may only report that nothing of the cluster is left on it."""
    others = [name for name in moving.former_workers(old) if name != worker]
    now, then = ({**fleet.status_of(obj), "formerWorkers": others} for obj in (new, old))
    if moving.former_workers(new) != others or now != then:
        return "a worker that had it before may only take itself off status.formerWorkers"
    return ""


def _waited_for(core: Core, new: Object, old: Object | None) -> str:
    """The finalizer stays while a former worker may still hold state of the cluster, unless that Worker is deleted."""
    if old is None or not fleet.has_finalizer(old) or fleet.has_finalizer(new):
        return ""
    workers = core.cache.kind(fleet.GROUP, "workers")
    for name in moving.former_workers(old):
        entry = workers.get(ROOT, fleet.NAMESPACE, name)
        if entry is not None and not fleet.is_deleting(entry.object()):
            return f"worker {name}, which had it before, may still have something of it"
    return ""


_UNCHANGED = ("labels", "annotations", "ownerReferences")


def secret_wrong(worker: str, new: Object, old: Object | None, subresource: bool) -> str:
    metadata = new["metadata"]
    segment = moving.segment_of(metadata.get("name") or "")
    if segment is not None:
        return _log_wrong(new, old, segment[0])
    cluster = fleet.cluster_of_secret(metadata.get("name") or "")
    if not cluster:
        return "a worker has Secrets with kubeconfigs and logs only"
    if old is not None and not fleet.is_kubeconfig_of(old, cluster):
        return "it is somebody else's, though it has the name of a kubeconfig"
    owners = metadata.get("ownerReferences") or ()
    if len(owners) != 1 or not fleet.is_kubeconfig_of(new, cluster):
        return "a kubeconfig belongs to its ManagedCluster, and to nothing else"
    if new.get("type") != fleet.CLUSTER_SECRET or set(new.get("data") or ()) != {"value"}:
        return f"a kubeconfig is the key value of a Secret of the type {fleet.CLUSTER_SECRET}"
    if (metadata.get("labels") or {}) != {fleet.CLUSTER_NAME: cluster}:
        return f"a kubeconfig has the label {fleet.CLUSTER_NAME} and no other"
    if metadata.get("annotations") or metadata.get("finalizers"):
        return "a kubeconfig has no annotations and no finalizers"
    return ""


def _log_wrong(new: Object, old: Object | None, cluster: str) -> str:
    metadata = new["metadata"]
    if old is not None:
        return "what a log holds is not changed"
    if len(metadata.get("ownerReferences") or ()) != 1 or not fleet.is_kubeconfig_of(new, cluster):
        return "a log belongs to its ManagedCluster, and to nothing else"
    if not moving.is_log_of(new, cluster) or set(new.get("data") or ()) != {moving.LOG_KEY}:
        return f"a log is the key {moving.LOG_KEY} of Secrets of the type {moving.LOG_TYPE}"
    if (metadata.get("labels") or {}) != {moving.LOG_TYPE: cluster}:
        return f"a log has the label {moving.LOG_TYPE} and no other"
    if metadata.get("annotations") or metadata.get("finalizers"):
        return "a log has no annotations and no finalizers"
    return ""


_Check = Callable[[str, Object, Object | None, bool], str]
_CHECKS: dict[tuple[str, str], _Check] = {
    (fleet.GROUP, "workers"): worker_wrong,
    ("coordination.k8s.io", "leases"): lease_wrong,
    (fleet.GROUP, "managedclusters"): cluster_wrong,
    ("", "secrets"): secret_wrong,
}


def _not_held(core: Core, worker: str, secret: Object) -> str:
    """The owner must be the current ManagedCluster, and it must be assigned to this worker."""
    metadata = secret["metadata"]
    segment = moving.segment_of(metadata["name"])
    what, cluster = ("log", segment[0]) if segment else ("kubeconfig", fleet.cluster_of_secret(metadata["name"]))
    entry = core.cache.kind(fleet.GROUP, "managedclusters").get(ROOT, metadata["namespace"], cluster)
    managed = entry.object() if entry is not None else None
    if managed is None or fleet.assigned_worker(managed) != worker:
        return f"it is not the {what} of a ManagedCluster assigned to this worker"
    if metadata["ownerReferences"][0].get("uid") != managed["metadata"]["uid"]:
        return f"it is not the {what} of the ManagedCluster there is now"
    if segment is not None and segment[1] != fleet.epoch(managed):
        return f"the log of epoch {segment[1]} is not written any more: it is epoch {fleet.epoch(managed)} now"
    return ""
