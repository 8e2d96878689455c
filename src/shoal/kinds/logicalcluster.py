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

RESTORED_ABOVE = "core.shoal.dev/restored-above"
"""Annotation of a cluster that came from another server: what it had there is not above this revision."""
TOKEN_KEYS = "core.shoal.dev/token-keys"
"""Annotation of such a one: the public keys (DER, base64, with commas) of the servers that issued tokens of it."""

PROFILES = ("hub", "cluster")
IDLE_SECONDS = 300.0
"""After which one that is asked nothing sleeps, where nobody says another time."""


def restored_above(obj: Object) -> int:
    said = str((obj["metadata"].get("annotations") or {}).get(RESTORED_ABOVE) or "")
    return int(said) if said.isdecimal() else 0


def token_keys(obj: Object) -> tuple[str, ...]:
    said = str((obj["metadata"].get("annotations") or {}).get(TOKEN_KEYS) or "")
    return tuple(key for key in said.split(",") if key)


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
