"""Plans the sync of one object to one workload Cluster from both sides. Pure.

A downstream object is deleted only because the hub object requires it: it is being deleted or is assigned to another
cluster, and it is the very object the downstream one was created from. A downstream object whose hub object is missing
is an orphan and stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from shoal.kinds.workload import workloadcluster
from shoal.sync.syncer.dependency_status import changed_dependency_status
from shoal.sync.syncer.transform import (
    NEEDED_BY,
    SYNCED_DIGEST,
    SYNCED_FROM,
    SYNCED_NAME,
    hub_name,
    reject_reason,
    to_downstream,
)

Object = dict[str, Any]

FIELD_MANAGER = "shoal-syncer"


@dataclass(frozen=True, slots=True)
class SyncTarget:
    """One kind in one workload Cluster, as seen from one hub."""

    cluster: str
    hub: str
    api_version: str
    kind: str
    has_status: bool
    """Whether the kind has a status subresource."""
    plural: str = ""
    namespace: str = ""
    """Downstream namespace; empty: the same as on the hub, or none."""
    adopted_hub: str = ""
    """Another hub whose downstream objects may be taken over."""
    name: str = ""
    """Downstream name; empty: the same as on the hub."""
    is_autoscaled: bool = False
    """An autoscaler in the cluster sets its `spec.replicas`."""


@dataclass(frozen=True, slots=True)
class SyncPlan:
    add_finalizer: bool = False
    """The hub object needs the finalizer before anything is written."""
    apply: Object | None = None
    delete: str = ""
    """Uid of the downstream object to delete."""
    remove_finalizer: bool = False
    """The finalizer must be removed."""
    wait: bool = False
    """The downstream object is being deleted; the rest follows when it is gone."""
    status: Object | None = None
    """New status of the hub object; None if it is current."""
    dependency_status: Object | None = None
    """New status of a dependency in this cluster; None if it is current."""
    problem: str = ""
    name_conflict: bool = False
    """The problem is that the downstream object of another hub object has its name."""
    orphan: bool = False


def plan_sync(target: SyncTarget, obj: Object | None, copy: Object | None, settled_fingerprint: str = "") -> SyncPlan:
    """`obj` is on the hub, `copy` in the cluster: None only if it is known not to exist. `settled_fingerprint`
    identifies a downstream object that an apply left different from the desired one.
    """
    if obj is None:
        return SyncPlan(orphan=copy is not None and is_from_hub(copy, target.hub))
    is_finalized = has_finalizer(target, obj)
    if is_leaving(obj, target.cluster):
        return _plan_removal(target, obj, copy, is_finalized)
    problem = reject_reason(obj, target.plural) or _conflict_reason(target, obj, copy)
    if problem:
        return SyncPlan(problem=problem)
    if copy is not None and _is_of_other_object(target, obj, copy) and not needed_by_kinds(copy):
        name = copy["metadata"]["name"]
        return SyncPlan(
            problem=f"{target.cluster} has the copy of {hub_name(copy)} under the name {name}", name_conflict=True
        )
    if copy is not None and "deletionTimestamp" in copy["metadata"]:
        return SyncPlan(add_finalizer=not is_finalized, wait=True)
    desired = downstream_object(target, obj)
    if target.is_autoscaled and copy is not None:
        desired = _with_scaled_replicas(desired, copy)
    if copy is None or _needs_apply(desired, copy, settled_fingerprint):
        return SyncPlan(add_finalizer=not is_finalized, apply=desired)
    return SyncPlan(add_finalizer=not is_finalized, status=_hub_status(target, obj, copy))


def plan_dependency(
    target: SyncTarget, obj: Object | None, copy: Object | None, needed_by: Iterable[str], settled_fingerprint: str = ""
) -> SyncPlan:
    """Like `plan_sync`, for an object that is not assigned to the cluster but referenced by others there; `needed_by`
    are their kinds. If it is missing on the hub or being deleted, its downstream object stays as long as it is
    referenced.
    """
    remove_finalizer = obj is not None and has_finalizer(target, obj)
    if obj is None or "deletionTimestamp" in obj["metadata"]:
        return SyncPlan(remove_finalizer=remove_finalizer)
    problem = reject_reason(obj, target.plural) or _conflict_reason(target, obj, copy)
    if problem:
        return SyncPlan(problem=problem, remove_finalizer=remove_finalizer)
    if copy is not None and _is_of_other_object(target, obj, copy):
        return SyncPlan(remove_finalizer=remove_finalizer)  # another synced object already has the needed name
    if copy is not None and "deletionTimestamp" in copy["metadata"]:
        return SyncPlan(wait=True)
    kinds = set(needed_by) | needed_by_kinds(copy)
    desired = downstream_object(target, obj, ",".join(sorted(kinds)))
    if copy is None or _needs_apply(desired, copy, settled_fingerprint):
        return SyncPlan(apply=desired, remove_finalizer=remove_finalizer)
    return SyncPlan(
        remove_finalizer=remove_finalizer, dependency_status=changed_dependency_status(target.cluster, obj, copy)
    )


def plan_unneeded_dependency(target: SyncTarget, copy: Object | None) -> SyncPlan:
    """It is certain that no object references it any more, on either side."""
    if copy is None or not needed_by_kinds(copy) or not _belongs_to_target(target, copy):
        return SyncPlan()
    if "deletionTimestamp" in copy["metadata"]:
        return SyncPlan()
    return SyncPlan(delete=copy["metadata"]["uid"])


def _plan_removal(target: SyncTarget, obj: Object, copy: Object | None, is_finalized: bool) -> SyncPlan:
    if copy is None or not _belongs_to_target(target, copy) or source_of(copy)[1] != obj["metadata"]["uid"]:
        return SyncPlan(remove_finalizer=is_finalized)
    if "deletionTimestamp" in copy["metadata"]:
        return SyncPlan(wait=True)
    return SyncPlan(delete=copy["metadata"]["uid"])


def is_leaving(obj: Object, cluster: str) -> bool:
    """Returns whether the cluster must not have the object, or have it no longer."""
    return workloadcluster.assigned_cluster(obj) != cluster or "deletionTimestamp" in obj["metadata"]


def has_finalizer(target: SyncTarget, obj: Object) -> bool:
    return workloadcluster.syncer_finalizer(target.cluster) in (obj["metadata"].get("finalizers") or ())


def source_of(copy: Object) -> tuple[str, str]:
    """Hub and uid of the object a downstream object was created from; both empty: it was not synced."""
    hub, _, uid = str((copy["metadata"].get("annotations") or {}).get(SYNCED_FROM, "")).partition("/")
    return hub, uid


def is_from_hub(copy: Object, hub: str) -> bool:
    return source_of(copy)[0] == hub


def needed_by_kinds(copy: Object | None) -> set[str]:
    """Kinds of the referrers a downstream object was created for; empty: it is assigned itself."""
    kinds_text = ((copy or {"metadata": {}})["metadata"].get("annotations") or {}).get(NEEDED_BY, "")
    return {kind for kind in kinds_text.split(",") if kind}


def _belongs_to_target(target: SyncTarget, copy: Object) -> bool:
    """A cluster that is registered twice also has objects of the other registration."""
    return is_from_hub(copy, target.hub) and workloadcluster.assigned_cluster(copy) == target.cluster


def downstream_object(target: SyncTarget, obj: Object, needed_by: str = "") -> Object:
    """The object to apply downstream."""
    metadata = obj["metadata"]
    result = to_downstream(target.api_version, target.kind, obj)
    result_metadata = result["metadata"]
    if target.name and target.name != metadata["name"]:
        result_metadata["name"] = target.name
        result_metadata["annotations"] = {**result_metadata["annotations"], SYNCED_NAME: metadata["name"]}
    if "namespace" in metadata:
        result_metadata["namespace"] = target.namespace or metadata["namespace"]
    result_metadata["labels"] = {**result_metadata["labels"], workloadcluster.CLUSTER_LABEL: target.cluster}
    if needed_by:
        result_metadata["annotations"] = {**result_metadata["annotations"], NEEDED_BY: needed_by}
    digest = _hash(result)
    result_metadata["annotations"] = {
        **result_metadata["annotations"],
        SYNCED_FROM: f"{target.hub}/{metadata['uid']}",
        SYNCED_DIGEST: digest,
    }
    return result


def _with_scaled_replicas(desired: Object, copy: Object) -> Object:
    """Keeps the replicas of the copy, unless one side has none: no autoscaler scales from or to zero by itself, and a
    leaf without replicas has to end its pods.
    """
    replicas = (copy.get("spec") or {}).get("replicas")
    if not replicas or not desired["spec"]["replicas"]:
        return desired
    return {**desired, "spec": {**desired["spec"], "replicas": replicas}}


def covers(desired: Any, actual: Any) -> bool:
    """Whether everything desired is present; there may be more."""
    if isinstance(desired, dict):
        if not isinstance(actual, dict):
            return False
        return all(covers(value, actual[key]) if key in actual else not value for key, value in desired.items())
    if isinstance(desired, list):
        return isinstance(actual, list) and len(desired) == len(actual) and all(map(covers, desired, actual))
    return bool(desired == actual)


def fingerprint(copy: Object) -> str:
    """Hash of everything an apply could change."""
    metadata = {key: copy["metadata"].get(key) for key in ("labels", "annotations")}
    return _hash({key: value for key, value in copy.items() if key not in ("metadata", "status")} | metadata)


def _needs_apply(desired: Object, copy: Object, settled_fingerprint: str) -> bool:
    return not covers(desired, copy) and (not settled_fingerprint or fingerprint(copy) != settled_fingerprint)


def _conflict_reason(target: SyncTarget, obj: Object, copy: Object | None) -> str:
    if copy is None or is_from_hub(copy, target.hub):
        return ""
    origin = source_of(copy)[0]
    if origin and origin == target.adopted_hub:
        return ""
    if (obj["metadata"].get("annotations") or {}).get(workloadcluster.FORCE_ANNOTATION) == "true":
        return ""
    name_text = f"named {target.name}" if target.name and target.name != obj["metadata"]["name"] else "with this name"
    return (
        f"{target.cluster} has an object {name_text} that was not synced from this hub; "
        f"annotate this object {workloadcluster.FORCE_ANNOTATION}=true to take it over"
    )


def _is_of_other_object(target: SyncTarget, obj: Object, copy: Object) -> bool:
    """Whether it was created from another object of this hub or the adopted one."""
    return source_of(copy)[0] in {target.hub, target.adopted_hub} - {""} and hub_name(copy) != obj["metadata"]["name"]


def _hub_status(target: SyncTarget, obj: Object, copy: Object) -> Object | None:
    """The downstream status with the hub's generation; None if the hub object already has it."""
    downstream_status: Object | None = copy.get("status")
    if not target.has_status or not downstream_status:
        return None
    old_status: Object = obj.get("status") or {}
    status = dict(downstream_status)
    if "observedGeneration" in status:
        observed_downstream = status.pop("observedGeneration")
        is_current = observed_downstream == copy["metadata"].get("generation")
        observed = obj["metadata"].get("generation") if is_current else old_status.get("observedGeneration")
        if observed is not None:
            status["observedGeneration"] = observed
    return None if status == old_status else status


def _hash(obj: Object) -> str:
    return hashlib.sha256(orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
