"""What to do about one object in one workload Cluster, from the two sides of it. Pure.

A copy is deleted only because the object on the hub says so: it is being deleted, or meant for another cluster. A
copy whose object is missing on the hub is an orphan and stays.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import orjson

from shoal.kinds import workload

Object = dict[str, Any]

MANAGER = "shoal-syncer"
SYNCED_FROM = "shoal.dev/synced-from"
"""Annotation of a copy: `HUB/UID`, the hub and the object there. Only what carries it is ours."""
SYNCED_DIGEST = "shoal.dev/synced-digest"
"""Annotation of a copy: what it was made of."""
TOKEN_TYPE = "kubernetes.io/service-account-token"
_STAYS = {
    *(workload.PROBLEM, workload.FORCE, SYNCED_FROM, SYNCED_DIGEST, "shoal.dev/cluster"),
    *("kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"),
}
"""Annotations that say something about the object on the hub, not about its copy."""


@dataclass(frozen=True, slots=True)
class Target:
    """One kind in one workload Cluster, seen from one hub."""

    cluster: str
    hub: str
    api_version: str
    kind: str
    status: bool
    """Whether the kind has a status that is written on its own."""


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
    orphan: bool = False


def plan(target: Target, obj: Object | None, copy: Object | None, settled: str = "") -> Plan:
    """`obj` on the hub, `copy` in the cluster: None only where it is known not to be there. `settled` is the
    fingerprint of a copy that an apply left different from what was asked for."""
    if obj is None:
        return Plan(orphan=copy is not None and is_ours(copy, target.hub))
    held = workload.finalizer_of(target.cluster) in (obj["metadata"].get("finalizers") or ())
    if workload.assigned_to(obj) != target.cluster or "deletionTimestamp" in obj["metadata"]:
        return _leave(target, copy, held)
    problem = _refusal(obj) or _taken(target, obj, copy)
    if problem:
        return Plan(problem=problem)
    if copy is not None and "deletionTimestamp" in copy["metadata"]:
        return Plan(hold=not held, wait=True)
    wanted = copy_of(target, obj)
    if copy is None or _differs(wanted, copy, settled):
        return Plan(hold=not held, apply=wanted)
    return Plan(hold=not held, status=_status(target, obj, copy))


def _leave(target: Target, copy: Object | None, held: bool) -> Plan:
    if copy is None or not is_ours(copy, target.hub):
        return Plan(release=held)
    if "deletionTimestamp" in copy["metadata"]:
        return Plan(wait=True)
    return Plan(delete=copy["metadata"]["uid"])


def is_ours(copy: Object, hub: str) -> bool:
    origin: str = (copy["metadata"].get("annotations") or {}).get(SYNCED_FROM, "")
    return origin.partition("/")[0] == hub


def copy_of(target: Target, obj: Object) -> Object:
    """What is applied: what the user wrote, nothing the hub's server added."""
    metadata = obj["metadata"]
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in _STAYS}
    made: Object = {"apiVersion": target.api_version, "kind": target.kind}
    made |= {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    made["metadata"] = {"name": metadata["name"], "labels": metadata.get("labels") or {}, "annotations": annotations}
    if "namespace" in metadata:
        made["metadata"]["namespace"] = metadata["namespace"]
    digest = _hash(made)
    made["metadata"]["annotations"] = {
        **annotations,
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


def _refusal(obj: Object) -> str:
    if obj.get("type") == TOKEN_TYPE:
        return "the tokens of this hub's service accounts do not travel"
    return ""


def _taken(target: Target, obj: Object, copy: Object | None) -> str:
    if copy is None or is_ours(copy, target.hub):
        return ""
    if (obj["metadata"].get("annotations") or {}).get(workload.FORCE) == "true":
        return ""
    return (
        f"{target.cluster} has an object of this name that does not come from this hub; "
        f"annotate this one {workload.FORCE}=true to take it over"
    )


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
