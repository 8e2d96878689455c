"""Predicate for LogicalClusters to finalize. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.fleet.logicalcluster import CONTENT_FINALIZER

Object = dict[str, Any]


def is_terminating(cluster: Object) -> bool:
    metadata = cluster["metadata"]
    return "deletionTimestamp" in metadata and CONTENT_FINALIZER in (metadata.get("finalizers") or ())


def without_finalizer(cluster: Object) -> Object:
    metadata = cluster["metadata"]
    kept = [finalizer for finalizer in metadata.get("finalizers") or () if finalizer != CONTENT_FINALIZER]
    return {**cluster, "metadata": {**metadata, "finalizers": kept}}
