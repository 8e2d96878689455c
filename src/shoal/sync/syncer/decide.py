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

from shoal.kinds import workload
from shoal.sync.syncer.travelling import (
    NEEDED_BY,
    SYNCED_DIGEST,
    SYNCED_FROM,
    SYNCED_NAME,
    object_named,
    refusal,
    travelling,
)

Object = dict[str, Any]

MANAGER = "shoal-syncer"


@dataclass(frozen=True, slots=True)
class Target:
    """One kind in one workload Cluster, as seen from one hub."""

    cluster: str
    hub: str
    api_version: str
    kind: str
    status: bool
    """Whether the kind has a status subresource."""
    plural: str = ""
    namespace: str = ""
    """Downstream namespace; empty: the same as on the hub, or none."""
    adopted: str = ""
    """Another hub whose downstream objects may be taken over."""
    name: str = ""
    """Downstream name; empty: the same as on the hub."""


@dataclass(frozen=True, slots=True)
class Plan:
    hold: bool = False
    """The hub object needs the finalizer before anything is written."""
    apply: Object | None = None
    delete: str = ""
    """Uid of the downstream object to delete."""
    release: bool = False
    """The finalizer must be removed."""
    wait: bool = False
    """The downstream object is being deleted; the rest follows when it is gone."""
    status: Object | None = None
    """New status of the hub object; None if it is current."""
    problem: str = ""
    rival: bool = False
    """The problem is that the downstream object of another hub object has its name."""
    orphan: bool = False


def plan(target: Target, obj: Object | None, copy: Object | None, settled: str = "") -> Plan:
    """`obj` is on the hub, `copy` in the cluster: None only if it is known not to exist. `settled_fingerprint`
    identifies a downstream object that an apply left different from the desired one.
    """
    if obj is None:
        return Plan(orphan=copy is not None and is_ours(copy, target.hub))
    held = is_held(target, obj)
    if workload.assigned_to(obj) != target.cluster or "deletionTimestamp" in obj["metadata"]:
        return _leave(target, obj, copy, held)
    problem = refusal(obj, target.plural) or _taken(target, obj, copy)
    if problem:
        return Plan(problem=problem)
    if copy is not None and _is_anothers(target, obj, copy) and not needing_kinds(copy):
        name = copy["metadata"]["name"]
        return Plan(problem=f"{target.cluster} has the copy of {object_named(copy)} by the name {name}", rival=True)
    if copy is not None and "deletionTimestamp" in copy["metadata"]:
        return Plan(hold=not held, wait=True)
    wanted = copy_of(target, obj)
    if copy is None or _differs(wanted, copy, settled):
        return Plan(hold=not held, apply=wanted)
    return Plan(hold=not held, status=_status(target, obj, copy))


def plan_needed(
    target: Target, obj: Object | None, copy: Object | None, needed_by: Iterable[str], settled: str = ""
) -> Plan:
    """Like `plan_sync`, for an object that is not assigned to the cluster but referenced by others there; `needed_by`
    are their kinds. If it is missing on the hub or being deleted, its downstream object stays as long as it is
    referenced.
    """
    release = obj is not None and is_held(target, obj)
    if obj is None or "deletionTimestamp" in obj["metadata"]:
        return Plan(release=release)
    problem = refusal(obj, target.plural) or _taken(target, obj, copy)
    if problem:
        return Plan(problem=problem, release=release)
    if copy is not None and _is_anothers(target, obj, copy):
        return Plan(release=release)  # another synced object already has the needed name
    if copy is not None and "deletionTimestamp" in copy["metadata"]:
        return Plan(wait=True)
    kinds = set(needed_by) | needing_kinds(copy)
    wanted = copy_of(target, obj, ",".join(sorted(kinds)))
    if copy is None or _differs(wanted, copy, settled):
        return Plan(apply=wanted, release=release)
    return Plan(release=release)


def plan_unneeded(target: Target, copy: Object | None) -> Plan:
    """It is certain that no object references it any more, on either side."""
    if copy is None or not needing_kinds(copy) or not _is_made_for(target, copy):
        return Plan()
    if "deletionTimestamp" in copy["metadata"]:
        return Plan()
    return Plan(delete=copy["metadata"]["uid"])


def _leave(target: Target, obj: Object, copy: Object | None, held: bool) -> Plan:
    if copy is None or not _is_made_for(target, copy) or origin_of(copy)[1] != obj["metadata"]["uid"]:
        return Plan(release=held)
    if "deletionTimestamp" in copy["metadata"]:
        return Plan(wait=True)
    return Plan(delete=copy["metadata"]["uid"])


def is_held(target: Target, obj: Object) -> bool:
    return workload.finalizer_of(target.cluster) in (obj["metadata"].get("finalizers") or ())


def origin_of(copy: Object) -> tuple[str, str]:
    """Hub and uid of the object a downstream object was created from; both empty: it was not synced."""
    hub, _, uid = str((copy["metadata"].get("annotations") or {}).get(SYNCED_FROM, "")).partition("/")
    return hub, uid


def is_ours(copy: Object, hub: str) -> bool:
    return origin_of(copy)[0] == hub


def needing_kinds(copy: Object | None) -> set[str]:
    """Kinds of the referrers a downstream object was created for; empty: it is assigned itself."""
    said = ((copy or {"metadata": {}})["metadata"].get("annotations") or {}).get(NEEDED_BY, "")
    return {kind for kind in said.split(",") if kind}


def _is_made_for(target: Target, copy: Object) -> bool:
    """A cluster that is registered twice also has objects of the other registration."""
    return is_ours(copy, target.hub) and workload.assigned_to(copy) == target.cluster


def copy_of(target: Target, obj: Object, needed_by: str = "") -> Object:
    """The object to apply downstream."""
    metadata = obj["metadata"]
    made = travelling(target.api_version, target.kind, obj)
    about = made["metadata"]
    if target.name and target.name != metadata["name"]:
        about["name"] = target.name
        about["annotations"] = {**about["annotations"], SYNCED_NAME: metadata["name"]}
    if "namespace" in metadata:
        about["namespace"] = target.namespace or metadata["namespace"]
    about["labels"] = {**about["labels"], workload.ASSIGNED: target.cluster}
    if needed_by:
        about["annotations"] = {**about["annotations"], NEEDED_BY: needed_by}
    digest = _hash(made)
    about["annotations"] = {
        **about["annotations"],
        SYNCED_FROM: f"{target.hub}/{metadata['uid']}",
        SYNCED_DIGEST: digest,
    }
    return made


def covers(wanted: Any, found: Any) -> bool:
    """Whether everything desired is present; there may be more."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return False
        return all(covers(value, found[key]) if key in found else not value for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(wanted) == len(found) and all(map(covers, wanted, found))
    return bool(wanted == found)


def fingerprint(copy: Object) -> str:
    """Hash of everything an apply could change."""
    metadata = {key: copy["metadata"].get(key) for key in ("labels", "annotations")}
    return _hash({key: value for key, value in copy.items() if key not in ("metadata", "status")} | metadata)


def _differs(wanted: Object, copy: Object, settled: str) -> bool:
    return not covers(wanted, copy) and (not settled or fingerprint(copy) != settled)


def _taken(target: Target, obj: Object, copy: Object | None) -> str:
    if copy is None or is_ours(copy, target.hub):
        return ""
    origin = origin_of(copy)[0]
    if origin and origin == target.adopted:
        return ""
    if (obj["metadata"].get("annotations") or {}).get(workload.FORCE) == "true":
        return ""
    named = f"named {target.name}" if target.name and target.name != obj["metadata"]["name"] else "of this name"
    return (
        f"{target.cluster} has an object {named} that does not come from this hub; "
        f"annotate this one {workload.FORCE}=true to take it over"
    )


def _is_anothers(target: Target, obj: Object, copy: Object) -> bool:
    """Whether it was created from another object of this hub or the adopted one."""
    return origin_of(copy)[0] in {target.hub, target.adopted} - {""} and object_named(copy) != obj["metadata"]["name"]


def _status(target: Target, obj: Object, copy: Object) -> Object | None:
    """The downstream status with the hub's generation; None if the hub object already has it."""
    found: Object | None = copy.get("status")
    if not target.status or not found:
        return None
    before: Object = obj.get("status") or {}
    status = dict(found)
    if "observedGeneration" in status:
        seen = status.pop("observedGeneration")
        current = seen == copy["metadata"].get("generation")
        observed = obj["metadata"].get("generation") if current else before.get("observedGeneration")
        if observed is not None:
            status["observedGeneration"] = observed
    return None if status == before else status


def _hash(obj: Object) -> str:
    return hashlib.sha256(orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
