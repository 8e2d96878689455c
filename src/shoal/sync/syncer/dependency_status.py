"""The status of a dependency, such as a PersistentVolumeClaim that Deployments in several clusters mount.

It is assigned to no cluster and has a copy in each. Every syncer writes the status of its copy into an annotation; the
hub merges them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.status_merge import claim_status

Object = dict[str, Any]

STATUS_FIELDS = ("phase", "capacity", "accessModes")
"""Those of a PersistentVolumeClaim, the only dependency with a status."""


class DependencyStatus(NamedTuple):
    status: Object | None
    """New status; None if it is current."""
    stale: list[str]
    """Annotations of clusters in which nothing refers to it any more."""


def changed_dependency_status(cluster: str, obj: Object, copy: Object) -> Object | None:
    """Returns the status of the copy; None: it has none, or the hub object has it already."""
    status = {name: value for name, value in (copy.get("status") or {}).items() if name in STATUS_FIELDS}
    annotation = workloadcluster.dependency_status_annotation(cluster)
    recorded = (obj["metadata"].get("annotations") or {}).get(annotation)
    return status if status and (recorded is None or _parse(recorded) != status) else None


def dependency_annotations(obj: Object) -> dict[str, str]:
    return {
        key: value
        for key, value in (obj["metadata"].get("annotations") or {}).items()
        if key.startswith(workloadcluster.DEPENDENCY_STATUS_PREFIX)
    }


def merged_dependency_status(obj: Object, clusters: Iterable[str]) -> DependencyStatus:
    """`clusters` are those in which others refer to it."""
    annotations = dependency_annotations(obj)
    names = {workloadcluster.dependency_status_annotation(cluster) for cluster in clusters}
    if not annotations:
        return DependencyStatus(None, [])
    status = claim_status([_parse(annotations.get(name, "")) for name in sorted(names)])
    is_current = status == {name: value for name, value in (obj.get("status") or {}).items() if name in STATUS_FIELDS}
    return DependencyStatus(None if is_current else status, sorted(annotations.keys() - names))


def _parse(text: str) -> Object:
    """Whoever may write the object may write the annotation: what is no status counts as none."""
    try:
        status = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(status, dict) or not isinstance(status.get("phase"), str):
        return {}
    return {name: status[name] for name in STATUS_FIELDS if name in status}
