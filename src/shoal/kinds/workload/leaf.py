"""Roots and leaves on a hub: a placed object and its parts per cluster. Names, and building and updating a leaf from
its root. Pure.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.apps.deployment import LAST_APPLIED, REVISION
from shoal.kinds.autoscaling.scale_target import scale_target_of, with_scale_target
from shoal.kinds.workload.rollout_history import is_history
from shoal.kinds.workload.workloadcluster import CLUSTER_LABEL, truncated_name
from shoal.objects.ownership import controller_reference

Object = dict[str, Any]

OWNER_LABEL = "kcp.dev/owned-by"
"""Label of a leaf: its root."""
DOWNSTREAM_NAME_ANNOTATION = "placement.shoal.dev/downstream-name"
"""Annotation of a leaf: its name in the cluster, where other objects refer to it by the root's name."""
SHARE_ANNOTATION = "placement.shoal.dev/share"
"""Annotation of a leaf: the replicas assigned to it. Its spec may have been edited since."""
EVACUATED_ANNOTATION = "placement.shoal.dev/away"
"""Annotation of a leaf whose replicas were moved away because its cluster was not ready."""
CAPACITY_BACKOFF_ANNOTATION = "placement.shoal.dev/crowded"
"""Annotation of a leaf: the backoff state of replicas that were unschedulable in its cluster, as JSON."""
UNREFERENCED_KINDS = frozenset({"Deployment", "ReplicaSet", "Job", "DaemonSet", "Pod"})
"""Kinds that only autoscalers refer to by name: their leaves may keep their hub name."""
MAX_NAME_LENGTH, MAX_LABEL_LENGTH = 253, 63
UNCOPIED_ANNOTATIONS = (LAST_APPLIED, REVISION)
PLACEMENT_ANNOTATIONS = (
    EVACUATED_ANNOTATION,
    CAPACITY_BACKOFF_ANNOTATION,
    DOWNSTREAM_NAME_ANNOTATION,
    SHARE_ANNOTATION,
)
"""Annotations that placement sets and removes."""
NON_CONTENT_FIELDS = ("apiVersion", "kind", "metadata", "status")


def is_root(obj: Object) -> bool:
    """Reports whether the object is not assigned to a cluster: an assigned object is not split again. A revision is not
    placed either.
    """
    return CLUSTER_LABEL not in (obj["metadata"].get("labels") or {}) and not is_history(obj)


def leaf_name(root: str, cluster: str) -> str:
    return truncated_name(f"{root}--{cluster}", MAX_NAME_LENGTH)


def new_leaf(
    root: Object,
    cluster: str,
    content: Object,
    *,
    replicas: int | None = None,
    evacuated: bool = False,
    capacity_backoff: str = "",
    name: str = "",
) -> Object:
    """Builds a leaf. `content` is everything but metadata and status: `spec` of most kinds, `data` of a ConfigMap. A
    duplicated leaf has no replicas. `name` is given where a cluster may have several leaves.
    """
    metadata = root["metadata"]
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in UNCOPIED_ANNOTATIONS}
    if root["kind"] not in UNREFERENCED_KINDS:
        annotations[DOWNSTREAM_NAME_ANNOTATION] = metadata["name"]
    if replicas is not None:
        annotations[SHARE_ANNOTATION] = str(replicas)
    if evacuated:
        annotations[EVACUATED_ANNOTATION] = "true"
    if capacity_backoff:
        annotations[CAPACITY_BACKOFF_ANNOTATION] = capacity_backoff
    labels = {CLUSTER_LABEL: cluster, OWNER_LABEL: truncated_name(metadata["name"], MAX_LABEL_LENGTH)}
    leaf_metadata: Object = {
        "name": name or leaf_name(metadata["name"], cluster),
        **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
        "labels": {**(metadata.get("labels") or {}), **labels},
        "ownerReferences": [controller_reference(root, root["apiVersion"], root["kind"])],
    }
    if annotations:
        leaf_metadata["annotations"] = annotations
    return {
        "apiVersion": root["apiVersion"],
        "kind": root["kind"],
        "metadata": leaf_metadata,
        **_with_leaf_target(content, cluster),
    }


def _with_leaf_target(content: Object, cluster: str) -> Object:
    """An autoscaler scales the leaf of its target: in the cluster, only that has the target's pods."""
    target = scale_target_of(content)
    if target is None or target.kind not in UNREFERENCED_KINDS:
        return content
    return with_scale_target(content, leaf_name(target.name, cluster))


def leaf_replicas(leaf: Object) -> int | None:
    """None: the annotation is not set."""
    value = (leaf["metadata"].get("annotations") or {}).get(SHARE_ANNOTATION, "")
    return int(value) if value.isdecimal() else None


def content_of(obj: Object) -> Object:
    return {field: value for field, value in obj.items() if field not in NON_CONTENT_FIELDS}


def desired_leaf(leaf: Object, desired: Object, *, defaulted: bool = True) -> Object | None:
    """Returns the leaf as its root requires it; None when it is unchanged. Others may add annotations; labels and
    content are the root's. With `defaulted=False` the desired content is not defaulted by the server yet, and the
    leaf may have more fields.
    """
    metadata, desired_metadata = leaf["metadata"], desired["metadata"]
    foreign_annotations = {
        k: v for k, v in (metadata.get("annotations") or {}).items() if k not in PLACEMENT_ANNOTATIONS
    }
    annotations = {**foreign_annotations, **(desired_metadata.get("annotations") or {})}
    content, desired_content = content_of(leaf), content_of(desired)
    same = content == desired_content if defaulted else _contains(content, desired_content)
    if (
        same
        and metadata.get("labels") == desired_metadata["labels"]
        and annotations == (metadata.get("annotations") or {})
    ):
        return None
    new_metadata = {**metadata, "labels": desired_metadata["labels"], "annotations": annotations}
    head = {field: value for field, value in leaf.items() if field in NON_CONTENT_FIELDS}
    return {**head, "metadata": new_metadata, **(content if same else desired_content)}


def _contains(actual: object, desired: object) -> bool:
    if isinstance(desired, dict) and isinstance(actual, dict):
        return all(key in actual and _contains(actual[key], value) for key, value in desired.items())
    if isinstance(desired, list) and isinstance(actual, list):
        return len(actual) == len(desired) and all(map(_contains, actual, desired))
    return actual == desired
