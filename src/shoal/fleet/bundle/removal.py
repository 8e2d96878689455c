"""Removes the bundle from a cluster when its Worker is deleted and hosts nothing any more.

It deletes the objects with its labels, and finally the namespace, if the bundle created it and it contains nothing of
others. Each step lists what is there: removal is complete when a list says so.
"""

from __future__ import annotations

from typing import Any

from shoal.client.requests import Client, Kind
from shoal.fleet.bundle.decide import is_ours
from shoal.fleet.bundle.objects import NAMESPACE, WORKER, selector
from shoal.fleet.bundle.site import KINDS, PODS
from shoal.objects.errors import MethodNotSupported, NotFound, StatusError

Object = dict[str, Any]

IGNORED = frozenset({"events", "leases", "endpoints", "endpointslices", "pods"})
"""What a cluster writes into every namespace by itself. Pods belong to an owner that is listed."""


async def remove(client: Client, worker: str) -> str:
    """Performs one step. Returns what is still there; empty if nothing is."""
    left = ""
    for name, kind in reversed(KINDS.items()):
        if name == "Namespace":
            continue
        found, _ = await client.list_all(kind, NAMESPACE, labels=selector(worker))
        for obj in found:
            left = left or f"{name} {NAMESPACE}/{obj['metadata']['name']}"
            await _delete(client, kind, obj, NAMESPACE)
    if left:
        return left
    pods, _ = await client.list_all(PODS, NAMESPACE, labels=f"{WORKER}={worker}")
    if pods:
        return f"Pod {NAMESPACE}/{pods[0]['metadata']['name']}"
    return await _remove_namespace(client, worker)


async def _remove_namespace(client: Client, worker: str) -> str:
    kind = KINDS["Namespace"]
    try:
        namespace = await client.get(kind, NAMESPACE)
    except NotFound:
        return ""
    if not is_ours(namespace) or (namespace["metadata"].get("labels") or {}).get(WORKER) != worker:
        return ""
    if "deletionTimestamp" not in namespace["metadata"]:
        if await _has_others(client):
            return ""
        await _delete(client, kind, namespace, "")
    return f"Namespace {NAMESPACE}"


async def _has_others(client: Client) -> bool:
    """True if the namespace contains an object that a person or another program created."""
    for kind, verbs in await client.discover():
        if not kind.namespaced or "list" not in verbs or kind.plural in IGNORED:
            continue
        try:
            found, _ = await client.list_all(kind, NAMESPACE)
        except (NotFound, MethodNotSupported):
            continue
        except StatusError:
            return True  # Unknown, so assume it has.
        if any(not _is_furniture(kind, obj) for obj in found):
            return True
    return False


def _is_furniture(kind: Kind, obj: Object) -> bool:
    """True for objects that every namespace has, and those that are being deleted or have an owner."""
    metadata = obj["metadata"]
    standard = {("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")}
    return (
        (kind.plural, metadata["name"]) in standard
        or "deletionTimestamp" in metadata
        or bool(metadata.get("ownerReferences"))
    )


async def _delete(client: Client, kind: Kind, obj: Object, namespace: str) -> None:
    metadata = obj["metadata"]
    if "deletionTimestamp" in metadata:
        return
    try:
        await client.delete(kind, metadata["name"], namespace, uid=metadata["uid"])
    except NotFound:
        return
