"""Limits what a worker may write into the objects it may write, as upstream's NodeRestriction does for nodes.

Checks the stored object, so a worker that has just lost a ManagedCluster is rejected, whatever the authorizer saw. A
worker reports what it is and what it observes. The hub owns assignments, and administrators own labels and taints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.apiserver.admission.plugins.csr import RESOURCE as REQUESTS
from shoal.apiserver.request.info import ROOT
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.kinds.fleet import cluster_log, infrav1, migration, worker_join
from shoal.kinds.fleet.endpoint import ENDPOINT_READY
from shoal.objects.conditions import get_condition

Object = dict[str, Any]

_ADMIN_METADATA = ("labels", "finalizers", "ownerReferences")
"""Metadata that selects, protects and deletes objects."""
_ADMIN_SPEC_FIELDS = (
    *("taints", "unschedulable", "drain", "drainBudget"),
    *("capacityLimit", "allocatable", "cost", "nodes"),
)
"""Fields of a Worker's spec that steer scheduling and are therefore set by administrators."""
_DECLARED_FIELDS = ("capacity", "location", "provides")
"""Fields a worker may set if it registered itself."""
_OWN_INFRASTRUCTURES = (infrav1.EXTERNAL_WORKER, infrav1.IN_PROCESS_WORKER)
"""Infrastructures of Workers that register themselves."""
_HUB_STATUS_FIELDS = (
    *("assignedWorker", "lastWorker", "epoch", "move", "lastMove", "restoreFrom", "formerWorkers"),
    "endpoint",
)
_HUB_CONDITIONS = (infrav1.SCHEDULED, infrav1.WORKER_READY, infrav1.MOVING, infrav1.MOVABLE, ENDPOINT_READY)
"""Fields and conditions of a ManagedCluster about its assignment, the worker's reachability and its address at the hub,
which only the hub sets.
"""


def admit(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    user = ctx.user
    if not user.name.startswith((worker_join.USER_PREFIX, worker_join.BOOTSTRAP_USER_PREFIX)) or user.cluster != ROOT:
        return
    group_resource = (ctx.resource.group, ctx.resource.plural)
    worker = worker_join.worker_of(user.name, user.groups)
    if group_resource == REQUESTS:
        if old is None and new["spec"].get("signerName") != worker_join.SIGNER_NAME:
            raise ctx.resource.forbidden(
                new, f"{user.name} may request certificates only from signer {worker_join.SIGNER_NAME}"
            )
        return
    check = _CHECKS.get(group_resource)
    if not worker or check is None:
        return
    error = check(worker, new, old, bool(ctx.info.subresource))
    if not error and group_resource == ("", "secrets"):
        error = _not_assigned_error(server, worker, new)
    if not error and group_resource == (infrav1.GROUP, "managedclusters"):
        error = _former_worker_error(server, new, old)
    if error:
        raise ctx.resource.forbidden(new, error)


def admit_delete(server: ServerComponents, ctx: RequestContext, obj: Object, old: object) -> None:
    """Checks deletions of Secrets, the only objects a worker may delete."""
    worker = worker_join.worker_of(ctx.user.name, ctx.user.groups)
    if worker:
        name = obj["metadata"]["name"]
        segment = cluster_log.parse_segment(obj["metadata"]["namespace"], name)
        if segment is not None:
            if not cluster_log.belongs_to(obj, segment.log):
                raise ctx.resource.forbidden(obj, "it has the name of a log but is not of that ManagedCluster")
        elif not infrav1.is_owned_by_cluster(obj, infrav1.cluster_of_kubeconfig_secret(name)):
            raise ctx.resource.forbidden(obj, "it has the name of a kubeconfig but is not owned by that ManagedCluster")


def worker_error(worker: str, new: Object, old: Object | None, subresource: bool) -> str:
    if new["metadata"].get("name") != worker:
        return f"a worker may access its own Worker only, {worker}"
    before: Object = old or {"metadata": {}}
    for field in _ADMIN_METADATA:
        if (new["metadata"].get(field) or None) != (before["metadata"].get(field) or None):
            return f"a worker may not set the {field} of its Worker"
    for field in _ADMIN_SPEC_FIELDS:
        if _spec_value(new, field) != _spec_value(before, field):
            return f"a worker may not set its {field}"
    # By these fields the hub creates clusters and uses kubeconfigs that do not belong to the worker.
    for field in ("kubeconfigSecretRef", "hubAddress", "image"):
        if infrav1.spec_of(new).get(field) != infrav1.spec_of(before).get(field):
            return f"a worker may not set {field} of its Worker"
    error = _infrastructure_error(new, old)
    if error:
        return error
    was_kind = infrav1.spec_of(before).get("infrastructure") == infrav1.KIND_WORKER
    now, then = (obj["metadata"].get("annotations") or {} for obj in (new, before))
    if was_kind or then.get(infrav1.SUPERVISOR_ANNOTATION):
        for field in _DECLARED_FIELDS:
            if infrav1.spec_of(new).get(field) != infrav1.spec_of(before).get(field):
                return f"a worker may not change the {field} of a declared Worker"
    if then.get(infrav1.STORE_ANNOTATION) and now.get(infrav1.STORE_ANNOTATION) != then[infrav1.STORE_ANNOTATION]:
        return "the Worker is registered by another store"
    if old is None and not now.get(infrav1.STORE_ANNOTATION):
        return f"a worker must set the annotation {infrav1.STORE_ANNOTATION} when it creates its Worker"
    if {**now, infrav1.STORE_ANNOTATION: ""} != {**then, infrav1.STORE_ANNOTATION: ""}:
        return f"a worker may set the annotation {infrav1.STORE_ANNOTATION} only"
    return ""


def _infrastructure_error(new: Object, old: Object | None) -> str:
    """The hub starts processes and creates clusters for Workers of some infrastructures, so people declare those."""
    now, then = (infrav1.spec_of(obj).get("infrastructure", infrav1.PROCESS_WORKER) for obj in (new, old or {}))
    if now in _OWN_INFRASTRUCTURES and (old is None or then != infrav1.KIND_WORKER):
        return ""
    if old is not None and now == then:
        return ""
    if infrav1.KIND_WORKER in (now, then):
        return f"a worker may not change whether its Worker has infrastructure {infrav1.KIND_WORKER}"
    return f"a worker may not set infrastructure {now} of its Worker"


def _spec_value(obj: Object, field: str) -> Any:
    """A field of the spec; None if it is empty. A limit of 0 is not empty."""
    value = infrav1.spec_of(obj).get(field)
    return None if value is False or value in ([], {}, "") else value


def lease_error(worker: str, new: Object, old: Object | None, subresource: bool) -> str:
    if new["metadata"].get("name") != infrav1.lease_name(worker):
        return f"a worker may access its own Lease only, {infrav1.lease_name(worker)}"
    # Hubs forward requests to that address.
    if infrav1.tunnel_hub(new) != (infrav1.tunnel_hub(old) if old is not None else ""):
        return f"a worker may not set the annotation {infrav1.TUNNEL_HUB_ANNOTATION}"
    return ""


def cluster_error(worker: str, new: Object, old: Object | None, subresource: bool) -> str:
    if old is None:
        return "a worker may not create ManagedClusters"
    if infrav1.assigned_worker(old) != worker:
        if subresource and worker in migration.former_workers(old):
            return _departure_error(worker, new, old)
        return "it is not assigned to this worker"
    if subresource:
        now, then = infrav1.status_of(new), infrav1.status_of(old)
        changed = [f"status.{field}" for field in _HUB_STATUS_FIELDS if now.get(field) != then.get(field)]
        changed += [
            f"the condition {type_}"
            for type_ in _HUB_CONDITIONS
            if get_condition(new, type_) != get_condition(old, type_)
        ]
        return f"a worker may not change {changed[0]}" if changed else _foreign_report_error(worker, now, then)
    if infrav1.spec_of(new) != infrav1.spec_of(old):
        return "a worker may not change the spec of a ManagedCluster"
    if any((new["metadata"].get(key) or None) != (old["metadata"].get(key) or None) for key in _IMMUTABLE_METADATA):
        return "a worker may not change the metadata of a ManagedCluster"
    finalizers_after, finalizers_before = (obj["metadata"].get("finalizers") or [] for obj in (new, old))
    if finalizers_after != finalizers_before:
        if not infrav1.is_deleting(old):
            return "a worker may remove its finalizer only from a ManagedCluster that is being deleted"
        if finalizers_after != [each for each in finalizers_before if each != infrav1.MANAGED_CLUSTER_FINALIZER]:
            return f"a worker may remove the finalizer {infrav1.MANAGED_CLUSTER_FINALIZER} only"
    return ""


def _foreign_report_error(worker: str, now: Object, then: Object) -> str:
    """A worker reports `held` and `backup` only for itself and the current epoch."""
    for field in ("held", "backup"):
        report = now.get(field)
        if (
            report
            and report != then.get(field)
            and (report.get("worker"), report.get("epoch")) != (worker, then.get("epoch"))
        ):
            return f"a worker may report status.{field} only for itself and the current epoch"
    return ""


def _departure_error(worker: str, new: Object, old: Object) -> str:
    """A former worker may only report that nothing of the cluster is left on it."""
    others = [name for name in migration.former_workers(old) if name != worker]
    now, then = ({**infrav1.status_of(obj), "formerWorkers": others} for obj in (new, old))
    if migration.former_workers(new) != others or now != then:
        return "a former worker may only remove itself from status.formerWorkers"
    return ""


def _former_worker_error(server: ServerComponents, new: Object, old: Object | None) -> str:
    """The finalizer stays while a former worker may still hold state of the cluster, unless that Worker is deleted."""
    if old is None or not infrav1.has_finalizer(old) or infrav1.has_finalizer(new):
        return ""
    workers = server.cache.resource_cache(infrav1.GROUP, "workers")
    for name in migration.former_workers(old):
        entry = workers.get(ROOT, infrav1.NAMESPACE, name)
        if entry is not None and not infrav1.is_deleting(entry.object()):
            return f"former worker {name} may still hold state of it"
    return ""


_IMMUTABLE_METADATA = ("labels", "annotations", "ownerReferences")


def secret_error(worker: str, new: Object, old: Object | None, subresource: bool) -> str:
    metadata = new["metadata"]
    segment = cluster_log.parse_segment(metadata.get("namespace") or "", metadata.get("name") or "")
    if segment is not None:
        return _log_error(new, old, segment.log)
    cluster = infrav1.cluster_of_kubeconfig_secret(metadata.get("name") or "")
    if not cluster:
        return "a worker may write kubeconfig and log Secrets only"
    if old is not None and not infrav1.is_owned_by_cluster(old, cluster):
        return "it has the name of a kubeconfig but is not owned by that ManagedCluster"
    owners = metadata.get("ownerReferences") or ()
    if len(owners) != 1 or not infrav1.is_owned_by_cluster(new, cluster):
        return "a kubeconfig Secret must be owned by its ManagedCluster only"
    if new.get("type") != infrav1.CLUSTER_SECRET or set(new.get("data") or ()) != {"value"}:
        return f"a kubeconfig Secret must have type {infrav1.CLUSTER_SECRET} and only the key value"
    if (metadata.get("labels") or {}) != {infrav1.CLUSTER_NAME: cluster}:
        return f"a kubeconfig Secret must have the label {infrav1.CLUSTER_NAME} and no other"
    if metadata.get("annotations") or metadata.get("finalizers"):
        return "a kubeconfig Secret must not have annotations or finalizers"
    return ""


def _log_error(new: Object, old: Object | None, log: cluster_log.LogKey) -> str:
    """Owners cannot be in another namespace: in the namespace of logs there are none, and the label has the uid."""
    metadata = new["metadata"]
    if old is not None:
        return "a log Secret is immutable"
    if log.uid:
        if metadata.get("ownerReferences"):
            return f"a log Secret in namespace {cluster_log.NAMESPACE} must not have owners"
    elif len(metadata.get("ownerReferences") or ()) != 1 or not infrav1.is_owned_by_cluster(new, log.cluster):
        return "a log Secret must be owned by its ManagedCluster only"
    if new.get("type") != cluster_log.SECRET_TYPE or set(new.get("data") or ()) != {cluster_log.SECRET_KEY}:
        return f"a log Secret must have type {cluster_log.SECRET_TYPE} and only the key {cluster_log.SECRET_KEY}"
    if (metadata.get("labels") or {}) != {cluster_log.SECRET_TYPE: log.uid or log.cluster}:
        return f"a log Secret must have the label {cluster_log.SECRET_TYPE} and no other"
    if metadata.get("annotations") or metadata.get("finalizers"):
        return "a log Secret must not have annotations or finalizers"
    return ""


_CheckFunction = Callable[[str, Object, Object | None, bool], str]
_CHECKS: dict[tuple[str, str], _CheckFunction] = {
    (infrav1.GROUP, "workers"): worker_error,
    ("coordination.k8s.io", "leases"): lease_error,
    (infrav1.GROUP, "managedclusters"): cluster_error,
    ("", "secrets"): secret_error,
}


def _not_assigned_error(server: ServerComponents, worker: str, secret: Object) -> str:
    """The owner must be the current ManagedCluster, and it must be assigned to this worker."""
    metadata = secret["metadata"]
    segment = cluster_log.parse_segment(metadata["namespace"], metadata["name"])
    if segment is not None:
        secret_type, namespace, cluster, uid, _ = ("log", *segment.log)
    else:
        secret_type, namespace, cluster, uid = (
            "kubeconfig",
            metadata["namespace"],
            infrav1.cluster_of_kubeconfig_secret(metadata["name"]),
            "",
        )
    entry = server.cache.resource_cache(infrav1.GROUP, "managedclusters").get(ROOT, namespace, cluster)
    managed = entry.object() if entry is not None else None
    if managed is None or infrav1.assigned_worker(managed) != worker:
        return f"it is not the {secret_type} of a ManagedCluster assigned to this worker"
    if (uid or metadata["ownerReferences"][0].get("uid")) != managed["metadata"]["uid"]:
        return f"it is not the {secret_type} of the current ManagedCluster"
    if segment is not None and segment.log.epoch != infrav1.epoch(managed):
        return f"the log of epoch {segment.log.epoch} is closed: the current epoch is {infrav1.epoch(managed)}"
    return ""
