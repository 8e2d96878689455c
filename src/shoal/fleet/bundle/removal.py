"""Removes the bundle from a cluster when its Worker is deleted and hosts nothing any more.

It deletes the objects with its labels, and finally the namespace, if the bundle created it and it contains nothing of
others. Each step lists what is there: removal is complete when a list says so.
"""

from __future__ import annotations

from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.fleet.bundle.decide import is_bundle_namespace
from shoal.fleet.bundle.objects import NAMESPACE, WORKER_LABEL, bundle_selector
from shoal.fleet.bundle.remote_cluster import BUNDLE_RESOURCES, PODS
from shoal.objects.errors import MethodNotSupported, NotFound, StatusError

Object = dict[str, Any]

IGNORED_RESOURCES = frozenset({"events", "leases", "endpoints", "endpointslices", "pods"})
"""What a cluster writes into every namespace by itself. Pods belong to an owner that is listed."""


async def remove_bundle(client: Client, worker: str) -> str:
    """Performs one step. Returns what is still there; empty if nothing is."""
    remaining = ""
    for name, kind in reversed(BUNDLE_RESOURCES.items()):
        if name == "Namespace":
            continue
        objects, _ = await client.list_all(kind, NAMESPACE, labels=bundle_selector(worker))
        for obj in objects:
            remaining = remaining or f"{name} {NAMESPACE}/{obj['metadata']['name']}"
            await _delete_if_live(client, kind, obj, NAMESPACE)
    if remaining:
        return remaining
    pods, _ = await client.list_all(PODS, NAMESPACE, labels=f"{WORKER_LABEL}={worker}")
    if pods:
        return f"Pod {NAMESPACE}/{pods[0]['metadata']['name']}"
    return await _remove_namespace(client, worker)


async def _remove_namespace(client: Client, worker: str) -> str:
    kind = BUNDLE_RESOURCES["Namespace"]
    try:
        namespace = await client.get(kind, NAMESPACE)
    except NotFound:
        return ""
    if not is_bundle_namespace(namespace) or (namespace["metadata"].get("labels") or {}).get(WORKER_LABEL) != worker:
        return ""
    if "deletionTimestamp" not in namespace["metadata"]:
        if await _has_foreign_objects(client):
            return ""
        await _delete_if_live(client, kind, namespace, "")
    return f"Namespace {NAMESPACE}"


async def _has_foreign_objects(client: Client) -> bool:
    """True if the namespace contains an object that a person or another program created."""
    for kind, verbs in await client.preferred_resources():
        if not kind.namespaced or "list" not in verbs or kind.resource in IGNORED_RESOURCES:
            continue
        try:
            objects, _ = await client.list_all(kind, NAMESPACE)
        except (NotFound, MethodNotSupported):
            continue
        except StatusError:
            return True  # Unknown, so assume it has.
        if any(not _is_standard_or_owned(kind, obj) for obj in objects):
            return True
    return False


def _is_standard_or_owned(kind: GroupVersionResource, obj: Object) -> bool:
    """True for objects that every namespace has, and those that are being deleted or have an owner."""
    metadata = obj["metadata"]
    standard = {("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")}
    return (
        (kind.resource, metadata["name"]) in standard
        or "deletionTimestamp" in metadata
        or bool(metadata.get("ownerReferences"))
    )


async def _delete_if_live(client: Client, kind: GroupVersionResource, obj: Object, namespace: str) -> None:
    metadata = obj["metadata"]
    if "deletionTimestamp" in metadata:
        return
    try:
        await client.delete(kind, metadata["name"], namespace, uid=metadata["uid"])
    except NotFound:
        return
