"""What to do about one object in one workload Cluster, from the two sides of it. Pure.

A copy is deleted only because the object on the hub says so: it is being deleted, or meant for another cluster, and it
is the very object the copy was made of. A copy whose object is missing on the hub is an orphan and stays.
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
    """One kind in one workload Cluster, seen from one hub."""

    cluster: str
    hub: str
    api_version: str
    kind: str
    status: bool
    """Whether the kind has a status that is written on its own."""
    plural: str = ""
    namespace: str = ""
    """Of the copy; empty: the same as on the hub, or none."""
    adopted: str = ""
    """Another hub, whose copies are ours to take over."""
    name: str = ""
    """Of the copy; empty: the same as on the hub."""


@dataclass(frozen=True, slots=True)
class Plan:
    hold: bool = False
    """The object on the hub needs the finalizer before anything is written."""
    apply: Object | None = None
    delete: str = ""
    """The uid of the copy that has to go."""
    release: bool = False
    """The finalizer has to go."""
    wait: bool = False
    """The copy is going; what follows, follows when it is gone."""
    status: Object | None = None
    """For the object on the hub; None where it has it."""
    problem: str = ""
    rival: bool = False
    """The problem is that the copy of another object has its name."""
    orphan: bool = False


def plan(target: Target, obj: Object | None, copy: Object | None, settled: str = "") -> Plan:
    """`obj` on the hub, `copy` in the cluster: None only where it is known not to be there. `settled` is the
    fingerprint of a copy that an apply left different from what was asked for."""
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
    """As `plan`, for an object that is not meant for the cluster itself, but that others there name; `needed_by` are
    their kinds. One that is missing on the hub, or going, keeps its copy as long as it is named."""
    release = obj is not None and is_held(target, obj)
    if obj is None or "deletionTimestamp" in obj["metadata"]:
        return Plan(release=release)
    problem = refusal(obj, target.plural) or _taken(target, obj, copy)
    if problem:
        return Plan(problem=problem, release=release)
    if copy is not None and _is_anothers(target, obj, copy):
        return Plan(release=release)  # something is there for itself by the name that is needed
    if copy is not None and "deletionTimestamp" in copy["metadata"]:
        return Plan(wait=True)
    kinds = set(needed_by) | needing_kinds(copy)
    wanted = copy_of(target, obj, ",".join(sorted(kinds)))
    if copy is None or _differs(wanted, copy, settled):
        return Plan(apply=wanted, release=release)
    return Plan(release=release)


def plan_unneeded(target: Target, copy: Object | None) -> Plan:
    """Nobody names it any more, on either side: for certain."""
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
    """The hub and the uid there of what a copy was made of; both empty: it is no copy."""
    hub, _, uid = str((copy["metadata"].get("annotations") or {}).get(SYNCED_FROM, "")).partition("/")
    return hub, uid


def is_ours(copy: Object, hub: str) -> bool:
    return origin_of(copy)[0] == hub


def needing_kinds(copy: Object | None) -> set[str]:
    """Of those for whose sake a copy was made; empty: it was made for its own."""
    said = ((copy or {"metadata": {}})["metadata"].get("annotations") or {}).get(NEEDED_BY, "")
    return {kind for kind in said.split(",") if kind}


def _is_made_for(target: Target, copy: Object) -> bool:
    """A cluster that is registered twice has copies of the other registration, too."""
    return is_ours(copy, target.hub) and workload.assigned_to(copy) == target.cluster


def copy_of(target: Target, obj: Object, needed_by: str = "") -> Object:
    """What is applied."""
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
    """Whether everything that is wanted is there; more may be."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return False
        return all(covers(value, found[key]) if key in found else not value for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(wanted) == len(found) and all(map(covers, wanted, found))
    return bool(wanted == found)


def fingerprint(copy: Object) -> str:
    """Of all that an apply could change."""
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
    """Whether it was made of another object of a hub whose copies are ours."""
    return origin_of(copy)[0] in {target.hub, target.adopted} - {""} and object_named(copy) != obj["metadata"]["name"]


def _status(target: Target, obj: Object, copy: Object) -> Object | None:
    """The copy's, its generation told in the hub's numbers; None where the object on the hub has it."""
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
