"""LogicalCluster of core.shoal.dev: names, strategy and the fields the server sets. The CRD is in `crds/root`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shoal.kinds.fleet.keys import validate_keys
from shoal.kinds.limits import validate_limits
from shoal.kinds.strategy import CUSTOM_STRATEGY, Strategy
from shoal.kinds.versions import validate_logical_cluster
from shoal.objects.errors import Cause

Object = dict[str, Any]

GROUP = "core.shoal.dev"
VERSION = "v1alpha1"
KIND = "LogicalCluster"
PLURAL = "logicalclusters"

CONTENT_FINALIZER = "core.shoal.dev/content"
"""Removed when the cluster is empty."""

RESTORED_REVISION_ANNOTATION = "core.shoal.dev/restored-above"
"""Annotation of a cluster restored from another server: its objects there have no revision above this one."""
TOKEN_KEYS_ANNOTATION = "core.shoal.dev/token-keys"
"""Annotation of such a cluster: the public keys (DER, base64, comma-separated) of the servers that issued its
tokens.
"""

PROFILES = ("hub", "cluster")
DEFAULT_IDLE_SECONDS = 300.0
"""The default time without requests after which a logical cluster becomes idle."""


def restored_revision(obj: Object) -> int:
    value = str((obj["metadata"].get("annotations") or {}).get(RESTORED_REVISION_ANNOTATION) or "")
    return int(value) if value.isdecimal() else 0


def token_keys(obj: Object) -> tuple[str, ...]:
    value = str((obj["metadata"].get("annotations") or {}).get(TOKEN_KEYS_ANNOTATION) or "")
    return tuple(key for key in value.split(",") if key)


def root_logical_cluster(created: str, uid: str, profile: str) -> Object:
    """Returns the logical cluster that always exists."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": "root", "uid": uid, "creationTimestamp": created, "generation": 1},
        "spec": {"profile": profile},
        "status": {"phase": "Ready", "url": "/clusters/root"},
    }


def prepare_create(obj: Object) -> None:
    """Adds the finalizer and sets the phase. A logical cluster is Ready at once: there is nothing to start."""
    metadata = obj["metadata"]
    finalizers = metadata.setdefault("finalizers", [])
    if CONTENT_FINALIZER not in finalizers:
        finalizers.append(CONTENT_FINALIZER)
    obj["status"] = {"phase": "Ready", "url": f"/clusters/{metadata.get('name', '')}"}


def prepare_delete(obj: Object, now: str) -> None:
    obj.setdefault("status", {})["phase"] = "Terminating"


def validate(obj: Object, old: Object | None) -> list[Cause]:
    return [*validate_logical_cluster(obj, old), *validate_keys(obj, old), *validate_limits(obj)]


STRATEGIES: dict[tuple[str, str], Strategy] = {
    (GROUP, PLURAL): replace(
        CUSTOM_STRATEGY,
        prepare_for_create=prepare_create,
        prepare_for_delete=prepare_delete,
        validate=validate,
    ),
}
