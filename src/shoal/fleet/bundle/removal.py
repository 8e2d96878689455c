"""Takes the bundle out of a cluster, when its Worker is deleted and hosts nothing any more.

What goes is what carries its labels, and at last the namespace, if the bundle has made it and nothing of others is in
it. Each step looks at what is there: done is done when a list says so.
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
"""What a cluster writes into every namespace by itself; pods are somebody's who is looked for."""


async def remove(client: Client, worker: str) -> str:
    """One step. What is still there; empty: nothing is."""
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
    """Something of whatever kind that nobody but a person, or another program, has put there."""
    for kind, verbs in await client.discover():
        if not kind.namespaced or "list" not in verbs or kind.plural in IGNORED:
            continue
        try:
            found, _ = await client.list_all(kind, NAMESPACE)
        except (NotFound, MethodNotSupported):
            continue
        except StatusError:
            return True  # nobody can tell
        if any(not _is_furniture(kind, obj) for obj in found):
            return True
    return False


def _is_furniture(kind: Kind, obj: Object) -> bool:
    """What every namespace has, and what is going or belongs to something else."""
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
