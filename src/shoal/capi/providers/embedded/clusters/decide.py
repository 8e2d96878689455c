"""Decides the next step of an EmbeddedCluster: its logical cluster, an administrator in it, the kubeconfig, its status.
Pure.

It fulfils the infrastructure and the control plane contract. Its deletion waits for the deletion of the logical
cluster.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from shoal.capi.conditions import FALSE, TRUE, Condition, only, paused_condition, with_status
from shoal.capi.writing import claimed, released
from shoal.kinds.capi import (
    API_VERSION,
    CLUSTER,
    CLUSTER_NAME,
    KUBECONFIG_KEY,
    KUBECONFIG_TYPE,
    annotations_of,
    endpoint_of,
    is_deleting,
    is_paused,
    kubeconfig,
    kubeconfig_name,
    owner_reference,
)
from shoal.kinds.embedded import CLUSTER_FINALIZER, HOST_UID, hosted_name, logical_cluster
from shoal.kinds.versions import problem

Object = dict[str, Any]

UNHOSTED = (
    "Hosted clusters are part of a Shoal server and this API server is none:"
    " give shoal controllers a --hosting-kubeconfig, that of a Shoal server's root"
)
_TOKEN = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Server:
    """The hosting API server: base URL, and the CA certificate for clients as PEM."""

    url: str
    authority: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    infrastructure: Object
    cluster: Object | None
    """The Cluster that owns it."""
    logical: Object | None
    credential: Object | None
    """The Secret with the administrator's token, in the hosted cluster."""
    kubeconfig: Object | None


@dataclass(frozen=True, slots=True)
class Decision:
    patch: Object | None = None
    """Patch of the EmbeddedCluster. The rest is decided again after it."""
    host: Object | None = None
    """The LogicalCluster to create."""
    upgrade: Object | None = None
    """Patch of the LogicalCluster."""
    administrator: bool = False
    """Whether to create ServiceAccount, ClusterRoleBinding and token Secret in the hosted cluster."""
    kubeconfig: Object | None = None
    """The Secret to create or update."""
    delete: bool = False
    """Whether to delete the LogicalCluster."""
    status: Object | None = None


def decide(seen: Snapshot, server: Server, now: str) -> Decision:
    obj = seen.infrastructure
    if is_paused(seen.cluster, obj):
        new = only(obj, paused_condition(True, seen.cluster), now)
        return Decision(status=None if new is obj else new)
    mine = seen.logical is not None and annotations_of(seen.logical).get(HOST_UID) == obj["metadata"]["uid"]
    if is_deleting(obj):
        return _deletion(seen, mine, now)
    if seen.cluster is None:
        return _said(obj, Condition("Ready", FALSE, "WaitingForOwner", "Waiting for a Cluster to refer to this"), now)
    if seen.logical is not None and not mine:
        return _said(obj, _taken(seen), now)
    version, current = _version(obj, seen.cluster), _hosted_version(seen.logical)
    refused = problem(version, current) if version != current else None
    if refused is not None:
        return _said(obj, Condition("Ready", FALSE, "VersionNotSupported", refused.message), now)
    patch = _patch(obj, server)
    if seen.logical is None:
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        host = logical_cluster(namespace, name, obj["metadata"]["uid"], version)
        return Decision(patch=patch, host=host)
    upgrade = None
    if version and current != version:
        upgrade = {"spec": {"version": version}}
    token = _token(seen.credential)
    if not token:
        return Decision(patch=patch, upgrade=upgrade, administrator=seen.credential is None, status=_waiting(obj, now))
    return Decision(
        patch=patch,
        upgrade=upgrade,
        kubeconfig=_kubeconfig(seen, seen.cluster, server, token),
        status=_provisioned(obj, version, now),
    )


def unhosted(obj: Object, cluster: Object | None, now: str) -> Object | None:
    """The EmbeddedCluster with its desired status without a hosting server; None if it is current."""
    if is_paused(cluster, obj):
        new = only(obj, paused_condition(True, cluster), now)
        return None if new is obj else new
    return _said(obj, Condition("Ready", FALSE, "NoHostingServer", UNHOSTED), now).status


def _deletion(seen: Snapshot, mine: bool, now: str) -> Decision:
    obj = seen.infrastructure
    if not mine or seen.logical is None:
        return Decision(patch=released(obj, CLUSTER_FINALIZER))
    message = f"Waiting for LogicalCluster {seen.logical['metadata']['name']} to be deleted"
    waiting = _said(obj, Condition("Ready", FALSE, "Deleting", message), now)
    return Decision(delete=not is_deleting(seen.logical), status=waiting.status)


def _taken(seen: Snapshot) -> Condition:
    """A logical cluster of that name belongs to another owner, or is still being deleted."""
    assert seen.logical is not None
    name = seen.logical["metadata"]["name"]
    if is_deleting(seen.logical):
        return Condition(
            "Ready", FALSE, "WaitingForDeletion", f"Waiting for an earlier LogicalCluster {name} to be gone"
        )
    message = f"LogicalCluster {name} exists and was not made for this EmbeddedCluster"
    return Condition("Ready", FALSE, "NameTaken", message)


def _version(obj: Object, cluster: Object) -> str:
    topology = (cluster.get("spec") or {}).get("topology") or {}
    return str((obj.get("spec") or {}).get("version") or topology.get("version") or "")


def _hosted_version(logical: Object | None) -> str | None:
    return str((logical.get("spec") or {}).get("version") or "") if logical is not None else None


def _patch(obj: Object, server: Server) -> Object | None:
    patch = claimed(obj, finalizer=CLUSTER_FINALIZER)
    parts = urlsplit(server.url)
    endpoint = {"host": parts.hostname, "port": parts.port or 443}
    if endpoint_of(obj) != endpoint:
        return {**(patch or {}), "spec": {"controlPlaneEndpoint": endpoint}}
    return patch


def _token(credential: Object | None) -> str:
    """Administrators of the hosted cluster can write that Secret: only text that looks like a token is accepted."""
    encoded = str(((credential or {}).get("data") or {}).get("token", ""))
    token = base64.b64decode(encoded).decode(errors="replace")
    return token if _TOKEN.fullmatch(token) else ""


def _kubeconfig(seen: Snapshot, cluster: Object, server: Server, token: str) -> Object | None:
    """The desired Secret; None if it is current."""
    metadata = seen.infrastructure["metadata"]
    name = cluster["metadata"]["name"]
    url = f"{server.url.rstrip('/')}/clusters/{hosted_name(metadata['namespace'], metadata['name'])}"
    text = kubeconfig(name, url, base64.b64encode(server.authority.encode()).decode(), token)
    data = {KUBECONFIG_KEY: base64.b64encode(text.encode()).decode()}
    found = seen.kubeconfig
    if found is not None:
        return None if found.get("data") == data else {**found, "data": data}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": metadata["namespace"],
            "name": kubeconfig_name(name),
            "labels": {CLUSTER_NAME: name},
            "ownerReferences": [owner_reference(cluster, API_VERSION, CLUSTER, controller=True)],
        },
        "type": KUBECONFIG_TYPE,
        "data": data,
    }


def _waiting(obj: Object, now: str) -> Object | None:
    return _said(
        obj, Condition("Ready", FALSE, "WaitingForCredential", "Waiting for the administrator's token"), now
    ).status


def _provisioned(obj: Object, version: str, now: str) -> Object | None:
    hosted = hosted_name(obj["metadata"]["namespace"], obj["metadata"]["name"])
    status = {
        "initialization": {"provisioned": True, "controlPlaneInitialized": True},
        "logicalCluster": hosted,
        "version": version or None,
    }
    new = with_status(obj, status, [Condition("Ready", TRUE, "Ready"), paused_condition(False, None)], now)
    return None if new is obj else new


def _said(obj: Object, ready: Condition, now: str) -> Decision:
    """Fields that were reached before stay in the status, whatever Ready is now."""
    status = {key: value for key, value in (obj.get("status") or {}).items() if key != "conditions"}
    new = with_status(obj, status, [ready, paused_condition(False, None)], now)
    return Decision(status=None if new is obj else new)
