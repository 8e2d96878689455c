"""Roots and leaves on a hub: a placed object and its parts per cluster. Names, and building and updating a leaf from
its root. Pure.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.deployments import LAST_APPLIED, REVISION
from shoal.kinds.workload import ASSIGNED, within
from shoal.objects.ownership import controller_reference

Object = dict[str, Any]

OWNED_BY = "kcp.dev/owned-by"
"""Label of a leaf: its root."""
DOWNSTREAM_NAME = "placement.shoal.dev/downstream-name"
"""Annotation of a leaf: its name in the cluster, where other objects refer to it by the root's name."""
SHARE = "placement.shoal.dev/share"
"""Annotation of a leaf: the replicas assigned to it. Its spec may have been edited since."""
AWAY = "placement.shoal.dev/away"
"""Annotation of a leaf whose replicas were moved away because its cluster was not ready."""
CROWDED = "placement.shoal.dev/crowded"
"""Annotation of a leaf: the backoff state of replicas that were unschedulable in its cluster, as JSON."""
ANONYMOUS = frozenset({"Deployment", "ReplicaSet", "Job", "DaemonSet", "Pod"})
"""Kinds that other objects do not refer to by name: their leaves may keep their hub name."""
LONGEST_NAME, LONGEST_LABEL = 253, 63
NOT_COPIED = (LAST_APPLIED, REVISION)
OWN = (AWAY, CROWDED, DOWNSTREAM_NAME, SHARE)
"""Annotations that placement sets and removes."""
NOT_CONTENT = ("apiVersion", "kind", "metadata", "status")


def is_root(obj: Object) -> bool:
    """Reports whether the object is not assigned to a cluster: an assigned object is not split again."""
    return ASSIGNED not in (obj["metadata"].get("labels") or {})


def leaf_name(root: str, cluster: str) -> str:
    return within(f"{root}--{cluster}", LONGEST_NAME)


def leaf_of(
    root: Object,
    cluster: str,
    content: Object,
    *,
    share: int | None = None,
    away: bool = False,
    crowded: str = "",
    name: str = "",
) -> Object:
    """Builds a leaf. `content` is everything but metadata and status: `spec` of most kinds, `data` of a ConfigMap. A
    duplicated leaf has no replicas. `name` is given where a cluster may have several leaves.
    """
    metadata = root["metadata"]
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in NOT_COPIED}
    if root["kind"] not in ANONYMOUS:
        annotations[DOWNSTREAM_NAME] = metadata["name"]
    if share is not None:
        annotations[SHARE] = str(share)
    if away:
        annotations[AWAY] = "true"
    if crowded:
        annotations[CROWDED] = crowded
    labels = {ASSIGNED: cluster, OWNED_BY: within(metadata["name"], LONGEST_LABEL)}
    made: Object = {
        "name": name or leaf_name(metadata["name"], cluster),
        "namespace": metadata["namespace"],
        "labels": {**(metadata.get("labels") or {}), **labels},
        "ownerReferences": [controller_reference(root, root["apiVersion"], root["kind"])],
    }
    if annotations:
        made["annotations"] = annotations
    return {"apiVersion": root["apiVersion"], "kind": root["kind"], "metadata": made, **content}


def share_of(leaf: Object) -> int | None:
    """None: the annotation is not set."""
    said = (leaf["metadata"].get("annotations") or {}).get(SHARE, "")
    return int(said) if said.isdecimal() else None


def content_of(obj: Object) -> Object:
    return {field: value for field, value in obj.items() if field not in NOT_CONTENT}


def renewed(leaf: Object, wanted: Object, *, defaulted: bool = True) -> Object | None:
    """Returns the leaf as its root requires it; None when it is unchanged. Others may add annotations; labels and
    content are the root's. With `defaulted=False` the desired content is not defaulted by the server yet, and the
    leaf may have more fields.
    """
    metadata, given = leaf["metadata"], wanted["metadata"]
    kept = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in OWN}
    annotations = {**kept, **(given.get("annotations") or {})}
    has, wants = content_of(leaf), content_of(wanted)
    same = has == wants if defaulted else _contains(has, wants)
    if same and metadata.get("labels") == given["labels"] and annotations == (metadata.get("annotations") or {}):
        return None
    changed = {**metadata, "labels": given["labels"], "annotations": annotations}
    head = {field: value for field, value in leaf.items() if field in NOT_CONTENT}
    return {**head, "metadata": changed, **(has if same else wants)}


def _contains(found: object, wanted: object) -> bool:
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(key in found and _contains(found[key], value) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(map(_contains, found, wanted))
    return found == wanted
