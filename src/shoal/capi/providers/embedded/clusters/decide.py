"""Decides the next step of an EmbeddedCluster: its logical cluster, an administrator in it, the kubeconfig, its status.
Pure.

It fulfils the infrastructure and the control plane contract. Its deletion waits for the deletion of the logical
cluster.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from shoal.capi.conditions import FALSE, TRUE, Condition, paused_condition, with_condition, with_status
from shoal.capi.metadata_patches import claim_patch, release_patch
from shoal.kinds.clusterapi.capi import (
    API_VERSION,
    CLUSTER,
    CLUSTER_NAME,
    KUBECONFIG_KEY,
    KUBECONFIG_SECRET_TYPE,
    annotations_of,
    control_plane_endpoint,
    is_deleting,
    is_paused,
    kubeconfig,
    kubeconfig_secret_name,
    kubeconfig_token,
    owner_reference,
)
from shoal.kinds.clusterapi.embedded import (
    ADMIN_TOKEN_RENEWAL_SECONDS,
    ADMIN_TOKEN_SECONDS,
    CLUSTER_FINALIZER,
    OWNER_UID_ANNOTATION,
    logical_cluster_name,
    new_logical_cluster,
)
from shoal.kinds.fleet.endpoint import endpoint_object, endpoint_of, parse_endpoint, wants_port
from shoal.kinds.fleet.keys import (
    GENERATION_ANNOTATION,
    generation_from_annotation,
    has_keys_fields,
    keys_in_force,
    keys_object,
    requested_keys,
)
from shoal.kinds.limits import WITHIN_LIMITS
from shoal.kinds.versions import version_error
from shoal.objects import mergepatch
from shoal.objects.conditions import get_condition
from shoal.objects.duration import parse_time

Object = dict[str, Any]

NO_HOST_MESSAGE = (
    "Hosted clusters need a Shoal server and this API server is not one:"
    " start shoal controllers with --hosting-kubeconfig, a kubeconfig for the root of a Shoal server"
)
MIN_RENEWAL_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class HostingServer:
    """The hosting API server: base URL, and the CA certificate for clients as PEM."""

    url: str
    ca_pem: str


@dataclass(frozen=True, slots=True)
class EmbeddedClusterSnapshot:
    infrastructure: Object
    cluster: Object | None
    """The Cluster that owns it."""
    logical_cluster: Object | None
    account: Object | None
    """The administrator's ServiceAccount in the hosted cluster."""
    kubeconfig: Object | None
    token: str = ""
    """A new token of the administrator, for the kubeconfig."""


@dataclass(frozen=True, slots=True)
class EmbeddedClusterDecision:
    patch: Object | None = None
    """Patch of the EmbeddedCluster. The rest is decided again after it."""
    create_logical_cluster: Object | None = None
    """The LogicalCluster to create."""
    patch_logical_cluster: Object | None = None
    """Patch of the LogicalCluster."""
    logical_cluster_status: Object | None = None
    """The LogicalCluster with its new status."""
    create_admin: bool = False
    """Whether to create ServiceAccount and ClusterRoleBinding in the hosted cluster."""
    request_token: bool = False
    """Whether to request a token of the administrator. The rest is decided again with it."""
    renew_after: float | None = None
    """Seconds until the token has to be replaced."""
    kubeconfig: Object | None = None
    """The Secret to create or update."""
    delete_logical_cluster: bool = False
    """Whether to delete the LogicalCluster."""
    status: Object | None = None


def decide(snapshot: EmbeddedClusterSnapshot, server: HostingServer, now: str) -> EmbeddedClusterDecision:
    obj = snapshot.infrastructure
    if is_paused(snapshot.cluster, obj):
        new = with_condition(obj, paused_condition(True, snapshot.cluster), now)
        return EmbeddedClusterDecision(status=None if new is obj else new)
    is_owned = (
        snapshot.logical_cluster is not None
        and annotations_of(snapshot.logical_cluster).get(OWNER_UID_ANNOTATION) == obj["metadata"]["uid"]
    )
    if is_deleting(obj):
        return _decide_deletion(snapshot, is_owned, now)
    if snapshot.cluster is None:
        return _not_ready_decision(
            obj,
            Condition("Ready", FALSE, "WaitingForOwner", "Waiting for a Cluster that refers to this EmbeddedCluster"),
            now,
        )
    if snapshot.logical_cluster is not None and not is_owned:
        return _not_ready_decision(obj, _name_taken_condition(snapshot), now)
    version, current = _version(obj, snapshot.cluster), _hosted_version(snapshot.logical_cluster)
    unsupported = version_error(version, current) if version != current else None
    if unsupported is not None:
        return _not_ready_decision(obj, Condition("Ready", FALSE, "VersionNotSupported", unsupported.message), now)
    patch = _patch(obj, server)
    if snapshot.logical_cluster is None:
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        host = new_logical_cluster(namespace, name, obj["metadata"]["uid"], version)
        if "keys" in (obj.get("spec") or {}):
            host["spec"]["keys"] = keys_object(requested_keys(obj))
        if _limits(obj):
            host["spec"]["limits"] = _limits(obj)
        return EmbeddedClusterDecision(patch=patch, create_logical_cluster=host)
    upgrade = None
    if version and current != version:
        upgrade = {"spec": {"version": version}}
    upgrade = upgrade or _keys_patch(snapshot) or _limits_patch(obj, snapshot.logical_cluster)
    with_address = _logical_cluster_status(obj, snapshot.logical_cluster) if upgrade is None else None
    if snapshot.account is None:
        return EmbeddedClusterDecision(
            patch=patch,
            patch_logical_cluster=upgrade,
            logical_cluster_status=with_address,
            create_admin=True,
            status=_waiting_status(obj, now),
        )
    token = snapshot.token or kubeconfig_token(snapshot.kubeconfig)
    renew_after = _seconds_until_renewal(token, snapshot.account["metadata"]["uid"], parse_time(now) or 0.0)
    if (renew_after <= 0 or not _has_current_token(snapshot)) and not snapshot.token:
        return EmbeddedClusterDecision(patch=patch, patch_logical_cluster=upgrade, request_token=True)
    return EmbeddedClusterDecision(
        patch=patch,
        patch_logical_cluster=upgrade,
        logical_cluster_status=with_address,
        kubeconfig=_kubeconfig(snapshot, snapshot.cluster, server, token),
        renew_after=max(renew_after, MIN_RENEWAL_SECONDS),
        status=_provisioned_status(obj, version, snapshot.logical_cluster, now),
    )


def unhosted_status(obj: Object, cluster: Object | None, now: str) -> Object | None:
    """The EmbeddedCluster with its desired status without a hosting server; None if it is current."""
    if is_paused(cluster, obj):
        new = with_condition(obj, paused_condition(True, cluster), now)
        return None if new is obj else new
    return _not_ready_decision(obj, Condition("Ready", FALSE, "NoHostingServer", NO_HOST_MESSAGE), now).status


def _decide_deletion(snapshot: EmbeddedClusterSnapshot, is_owned: bool, now: str) -> EmbeddedClusterDecision:
    obj = snapshot.infrastructure
    if not is_owned or snapshot.logical_cluster is None:
        return EmbeddedClusterDecision(patch=release_patch(obj, CLUSTER_FINALIZER))
    message = f"Waiting for LogicalCluster {snapshot.logical_cluster['metadata']['name']} to be deleted"
    waiting = _not_ready_decision(obj, Condition("Ready", FALSE, "Deleting", message), now)
    return EmbeddedClusterDecision(
        delete_logical_cluster=not is_deleting(snapshot.logical_cluster), status=waiting.status
    )


def _name_taken_condition(snapshot: EmbeddedClusterSnapshot) -> Condition:
    """A logical cluster of that name belongs to another owner, or is still being deleted."""
    assert snapshot.logical_cluster is not None
    name = snapshot.logical_cluster["metadata"]["name"]
    if is_deleting(snapshot.logical_cluster):
        return Condition(
            "Ready", FALSE, "WaitingForDeletion", f"Waiting for an earlier LogicalCluster {name} to be deleted"
        )
    message = f"LogicalCluster {name} already exists and was not created for this EmbeddedCluster"
    return Condition("Ready", FALSE, "NameTaken", message)


def _version(obj: Object, cluster: Object) -> str:
    topology = (cluster.get("spec") or {}).get("topology") or {}
    return str((obj.get("spec") or {}).get("version") or topology.get("version") or "")


def _hosted_version(logical: Object | None) -> str | None:
    return str((logical.get("spec") or {}).get("version") or "") if logical is not None else None


def _logical_cluster_status(obj: Object, logical: Object) -> Object | None:
    """The LogicalCluster with the address of its EmbeddedCluster; None if it has that. One that asks for an address
    itself gets it from this server.
    """
    endpoint = parse_endpoint((obj.get("spec") or {}).get("endpoint"))
    if wants_port(logical) or endpoint_of(logical) == endpoint:
        return None
    status = {key: value for key, value in (logical.get("status") or {}).items() if key != "endpoint"}
    if endpoint is not None:
        status["endpoint"] = endpoint_object(endpoint)
    return {**logical, "status": status}


def _keys_patch(snapshot: EmbeddedClusterSnapshot) -> Object | None:
    """The patch with which the LogicalCluster rotates its keys as the EmbeddedCluster asks; None if it does already.

    Former keys are refused only after the kubeconfig has a token of the new ones.
    """
    obj, logical = snapshot.infrastructure, snapshot.logical_cluster
    if logical is None or "keys" not in (obj.get("spec") or {}):
        return None
    wanted, current = requested_keys(obj), requested_keys(logical)
    is_token_current = _has_current_token(snapshot) and keys_in_force(logical).generation >= current.generation
    if wanted.generation > current.generation > 1 and current.trust_former:
        # The rotation before that one is finished first.
        target = current._replace(trust_former=not is_token_current)
    elif wanted.generation > current.generation:
        target = wanted._replace(trust_former=True)
    elif wanted.generation == current.generation and current.trust_former:
        target = wanted._replace(trust_former=wanted.trust_former or not is_token_current)
    else:
        return None
    return {"spec": {"keys": keys_object(target)}} if target != current else None


def _limits(obj: Object) -> Object:
    return (obj.get("spec") or {}).get("limits") or {}


def _limits_patch(obj: Object, logical: Object) -> Object | None:
    """The patch with which the LogicalCluster has the limits of the EmbeddedCluster; None if it has them."""
    if _limits(obj) == _limits(logical):
        return None
    return {"spec": {"limits": mergepatch.create(_limits(logical), _limits(obj))}}


def _has_current_token(snapshot: EmbeddedClusterSnapshot) -> bool:
    """Whether the token in the kubeconfig was issued under the keys that are in force."""
    secret, logical = snapshot.kubeconfig, snapshot.logical_cluster
    if secret is None or logical is None:
        return False
    return generation_from_annotation(secret) >= keys_in_force(logical).generation


def _patch(obj: Object, server: HostingServer) -> Object | None:
    patch = claim_patch(obj, finalizer=CLUSTER_FINALIZER)
    parts = urlsplit(server.url)
    endpoint = {"host": parts.hostname, "port": parts.port or 443}
    if control_plane_endpoint(obj) != endpoint:
        return {**(patch or {}), "spec": {"controlPlaneEndpoint": endpoint}}
    return patch


def _seconds_until_renewal(token: str, account_uid: str, now: float) -> float:
    """Returns 0 for a token of another account, or one that was issued for longer than tokens are today."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        uid, expiry = claims["kubernetes.io"]["serviceaccount"]["uid"], float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError):
        return 0.0
    lasts = expiry - now
    if uid != account_uid or lasts > ADMIN_TOKEN_SECONDS + MIN_RENEWAL_SECONDS:
        return 0.0
    return max(lasts - ADMIN_TOKEN_RENEWAL_SECONDS, 0.0)


def _kubeconfig(snapshot: EmbeddedClusterSnapshot, cluster: Object, server: HostingServer, token: str) -> Object | None:
    """The desired Secret; None if it is current."""
    metadata = snapshot.infrastructure["metadata"]
    name = cluster["metadata"]["name"]
    url = f"{server.url.rstrip('/')}/clusters/{logical_cluster_name(metadata['namespace'], metadata['name'])}"
    text = kubeconfig(name, url, base64.b64encode(server.ca_pem.encode()).decode(), token)
    data = {KUBECONFIG_KEY: base64.b64encode(text.encode()).decode()}
    existing = snapshot.kubeconfig
    generation = keys_in_force(snapshot.logical_cluster or {}).generation
    annotations = {GENERATION_ANNOTATION: str(generation)} if snapshot.token and generation > 1 else {}
    if existing is not None:
        if existing.get("data") == data and annotations.items() <= annotations_of(existing).items():
            return None
        kept = {**existing["metadata"], "annotations": {**annotations_of(existing), **annotations}}
        return {**existing, "metadata": kept if annotations else existing["metadata"], "data": data}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": metadata["namespace"],
            "name": kubeconfig_secret_name(name),
            "labels": {CLUSTER_NAME: name},
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [owner_reference(cluster, API_VERSION, CLUSTER, controller=True)],
        },
        "type": KUBECONFIG_SECRET_TYPE,
        "data": data,
    }


def _waiting_status(obj: Object, now: str) -> Object | None:
    return _not_ready_decision(
        obj, Condition("Ready", FALSE, "WaitingForCredential", "Waiting for the administrator's token"), now
    ).status


def _provisioned_status(obj: Object, version: str, logical: Object, now: str) -> Object | None:
    hosted = logical_cluster_name(obj["metadata"]["namespace"], obj["metadata"]["name"])
    status = {
        "initialization": {"provisioned": True, "controlPlaneInitialized": True},
        "logicalCluster": hosted,
        "version": version or None,
    }
    if has_keys_fields(logical):
        status["keys"] = keys_object(keys_in_force(logical))
    conditions = [Condition("Ready", TRUE, "Ready"), paused_condition(False, None)]
    limits = get_condition(logical, WITHIN_LIMITS)
    if limits is not None:
        conditions.append(Condition(WITHIN_LIMITS, limits["status"], limits["reason"], limits["message"]))
    new = with_status(obj, status, conditions, now)
    return None if new is obj else new


def _not_ready_decision(obj: Object, ready: Condition, now: str) -> EmbeddedClusterDecision:
    """Fields that were reached before stay in the status, whatever Ready is now."""
    status = {key: value for key, value in (obj.get("status") or {}).items() if key != "conditions"}
    new = with_status(obj, status, [ready, paused_condition(False, None)], now)
    return EmbeddedClusterDecision(status=None if new is obj else new)
