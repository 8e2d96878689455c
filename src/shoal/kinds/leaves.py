"""Root and leaf Deployments on a hub: who is which, and what a leaf is called. Pure."""

from __future__ import annotations

import hashlib
from typing import Any

from shoal.kinds.deployments import LAST_APPLIED, REVISION
from shoal.kinds.workload import ASSIGNED
from shoal.objects.ownership import controller_reference

Object = dict[str, Any]

OWNED_BY = "kcp.dev/owned-by"
"""Label of a leaf: the root it is a part of."""
LONGEST_NAME, LONGEST_LABEL = 253, 63
NOT_COPIED = (LAST_APPLIED, REVISION)


def is_root(deployment: Object) -> bool:
    """What is assigned to a cluster is not split any more."""
    return ASSIGNED not in (deployment["metadata"].get("labels") or {})


def leaf_name(root: str, cluster: str) -> str:
    return _within(f"{root}--{cluster}", LONGEST_NAME)


def leaf_of(root: Object, cluster: str, replicas: int) -> Object:
    metadata = root["metadata"]
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in NOT_COPIED}
    labels = {ASSIGNED: cluster, OWNED_BY: _within(metadata["name"], LONGEST_LABEL)}
    made: Object = {
        "name": leaf_name(metadata["name"], cluster),
        "namespace": metadata["namespace"],
        "labels": {**(metadata.get("labels") or {}), **labels},
        "ownerReferences": [controller_reference(root, "apps/v1", "Deployment")],
    }
    if annotations:
        made["annotations"] = annotations
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": made,
        "spec": {**root["spec"], "replicas": replicas},
    }


def renewed(leaf: Object, wanted: Object) -> Object | None:
    """The leaf as its root wants it; None when it is. Others may add annotations; labels and spec are the root's."""
    metadata, given = leaf["metadata"], wanted["metadata"]
    annotations = {**(metadata.get("annotations") or {}), **(given.get("annotations") or {})}
    if (
        leaf["spec"] == wanted["spec"]
        and metadata.get("labels") == given["labels"]
        and annotations == (metadata.get("annotations") or {})
    ):
        return None
    changed = {**metadata, "labels": given["labels"], "annotations": annotations}
    return {**leaf, "metadata": changed, "spec": wanted["spec"]}


def _within(name: str, most: int) -> str:
    """The name, or its beginning and a digest where it is too long."""
    if len(name) <= most:
        return name
    return f"{name[: most - 9].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
