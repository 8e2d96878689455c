"""LogicalCluster of core.shoal.dev: names, and what the server fills in. The CRD is in `crds/root`."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

GROUP = "core.shoal.dev"
VERSION = "v1alpha1"
KIND = "LogicalCluster"
PLURAL = "logicalclusters"

CONTENT_FINALIZER = "core.shoal.dev/content"
"""Goes when everything in the cluster has gone."""

PROFILES = ("hub", "cluster")


def root(created: str, uid: str, profile: str) -> Object:
    """The one that always exists."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": "root", "uid": uid, "creationTimestamp": created, "generation": 1},
        "spec": {"profile": profile},
        "status": {"phase": "Ready", "url": "/clusters/root"},
    }


def prepare_create(obj: Object) -> None:
    """A logical cluster is ready as soon as it is written: there is nothing to start."""
    metadata = obj["metadata"]
    finalizers = metadata.setdefault("finalizers", [])
    if CONTENT_FINALIZER not in finalizers:
        finalizers.append(CONTENT_FINALIZER)
    obj["status"] = {"phase": "Ready", "url": f"/clusters/{metadata.get('name', '')}"}


def prepare_delete(obj: Object, now: str) -> None:
    obj.setdefault("status", {})["phase"] = "Terminating"
