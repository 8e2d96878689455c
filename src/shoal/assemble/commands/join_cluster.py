"""`shoal join-cluster`: an existing cluster becomes a workload Cluster of a hub.

In push mode the hub gets a kubeconfig of the cluster. In pull mode the cluster gets a kubeconfig of the hub, with the
permissions of a syncer, and a syncer; the hub never needs to reach the cluster.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from shoal.assemble.commands.syncer_manifest import SyncerInstallation, manifest
from shoal.client.kubeconfig import KubeconfigError, parse, rest_config_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import AlreadyExists, Conflict, NotFound, ShoalError
from shoal.sync.resources import CLUSTERS, NAMESPACES, SECRETS

Object = dict[str, Any]

SERVICE_ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
TOKEN_TIMEOUT_SECONDS, POLL_SECONDS = 30.0, 0.05
FIELD_MANAGER = "shoal-join-cluster"
_FILE_FIELDS = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key"),
}


class JoinClusterError(ShoalError):
    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def flatten_kubeconfig(file: Path, context: str = "") -> str:
    """Returns the kubeconfig with one context only and with the contents of the files it names."""
    config = parse(file.read_text(), str(file))
    rest_config_of(config, context, source=str(file), base_dir=file.parent)  # raises if it cannot be used
    name = context or str(config["current-context"])
    chosen_context = next(item for item in config["contexts"] if item["name"] == name)
    flattened: Object = {"apiVersion": "v1", "kind": "Config", "current-context": name, "contexts": [chosen_context]}
    for section, part in (("clusters", "cluster"), ("users", "user")):
        entry_name = chosen_context["context"][part]
        entry = next(item for item in config[section] if item["name"] == entry_name)
        flattened[section] = [
            {"name": entry_name, part: _inline_files(dict(entry.get(part) or {}), _FILE_FIELDS[part], file)}
        ]
    return yaml.safe_dump(flattened, sort_keys=False)


def _inline_files(part: Object, names: tuple[str, ...], file: Path) -> Object:
    try:
        for name in names:
            path = part.pop(name, None)
            if path and f"{name}-data" not in part:
                part[f"{name}-data"] = base64.b64encode((file.parent / str(path)).read_bytes()).decode()
        if token := part.pop("tokenFile", None):
            part["token"] = (file.parent / str(token)).read_text().strip()
    except OSError as error:
        raise KubeconfigError(f"{file}: {error}") from None
    return part


async def join_push(hub: Client, name: str, namespace: str, kubeconfig: str) -> None:
    """Applies the Secret first, so that the workload Cluster finds it. The Secret is deleted with the workload Cluster,
    unless somebody else has written it.
    """
    await _check_name(hub, name)
    data = {"value": base64.b64encode(kubeconfig.encode()).decode()}
    metadata: Object = {"name": f"{name}-kubeconfig", "namespace": namespace}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    existing = await _find(hub, SECRETS, metadata["name"], namespace)
    applied = await hub.apply(SECRETS, body, FIELD_MANAGER)
    reference = {"namespace": namespace, "name": metadata["name"]}
    try:
        cluster = await _register(hub, name, {"kubeconfigSecretRef": reference, "syncMode": "push"})
    except ShoalError:
        if existing is None:
            with suppress(ShoalError):
                await hub.delete(SECRETS, metadata["name"], namespace, uid=applied["metadata"]["uid"])
        raise
    if existing is None or _is_of_this_command(existing, name):
        await hub.apply(SECRETS, _with_owner(body, cluster), FIELD_MANAGER)


async def join_pull(hub: Client, name: str) -> str:
    """Registers the cluster, and returns the token of its syncer's identity on the hub. The identity is deleted with
    the workload Cluster.
    """
    version = await hub.request("GET", "/version")
    if "+shoal" not in str(version.get("gitVersion")):
        raise JoinClusterError(
            "the hub is not a Shoal server: it cannot create credentials for a syncer", "use --mode push"
        )
    await _check_name(hub, name)
    cluster = await _register(hub, name, {"syncMode": "pull"})
    with suppress(AlreadyExists):
        await hub.create(NAMESPACES, {"metadata": {"name": workloadcluster.SYNCER_NAMESPACE}})
    return await _syncer_token(hub, name, cluster)


async def _check_name(hub: Client, name: str) -> None:
    """Called before anything is written: the Secret of a ManagedCluster has the same name."""
    existing = await _find(hub, CLUSTERS, name)
    if existing is not None and workloadcluster.MANAGED_CLUSTER_LABEL in (existing["metadata"].get("labels") or {}):
        raise JoinClusterError(
            f"{name} is already the workload Cluster of a ManagedCluster",
            "give another name: shoal join-cluster NAME ...",
        )


async def _register(hub: Client, name: str, spec: Object) -> Object:
    body = {
        "apiVersion": f"{workloadcluster.GROUP}/{workloadcluster.VERSION}",
        "kind": workloadcluster.KIND,
        "metadata": {"name": name},
        "spec": spec,
    }
    if await _find(hub, CLUSTERS, name) is None:
        return await hub.create(CLUSTERS, body)
    return await hub.apply(CLUSTERS, body, FIELD_MANAGER)


async def _find(hub: Client, gvr: GroupVersionResource, name: str, namespace: str = "") -> Object | None:
    try:
        return await hub.get(gvr, name, namespace)
    except NotFound:
        return None


def _with_owner(obj: Object, cluster: Object) -> Object:
    """Returns the object as a dependent of the workload Cluster."""
    owner = {
        "apiVersion": f"{workloadcluster.GROUP}/{workloadcluster.VERSION}",
        "kind": workloadcluster.KIND,
        "name": cluster["metadata"]["name"],
        "uid": cluster["metadata"]["uid"],
    }
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner]}}


def _is_of_this_command(secret: Object, cluster: str) -> bool:
    """Reports whether an earlier run has created the Secret: it belongs to a workload Cluster of that name, or nobody
    else has ever written it.
    """
    metadata = secret["metadata"]
    owners = metadata.get("ownerReferences") or ()
    if any((owner.get("kind"), owner.get("name")) == (workloadcluster.KIND, cluster) for owner in owners):
        return True
    return {entry.get("manager") for entry in metadata.get("managedFields") or ()} == {FIELD_MANAGER}


async def _delete_former(hub: Client, gvr: GroupVersionResource, name: str, cluster: Object) -> None:
    """Deletes an identity of an earlier workload Cluster of that name: its token must not open the new one."""
    existing = await _find(hub, gvr, name, workloadcluster.SYNCER_NAMESPACE)
    owners = (existing["metadata"].get("ownerReferences") or ()) if existing is not None else ()
    if existing is not None and owners and cluster["metadata"]["uid"] not in [owner["uid"] for owner in owners]:
        with suppress(NotFound, Conflict):
            uid = existing["metadata"]["uid"]
            await hub.delete(gvr, name, workloadcluster.SYNCER_NAMESPACE, uid=uid)


async def _syncer_token(hub: Client, name: str, cluster: Object) -> str:
    """The token is valid until its Secret is deleted: a syncer may be offline for long and comes back by itself."""
    namespace, secret = workloadcluster.SYNCER_NAMESPACE, f"{name}-token"
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
        "automountServiceAccountToken": False,
    }
    annotations = {"kubernetes.io/service-account.name": name}
    token = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret, "namespace": namespace, "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    }
    for gvr, leftover in ((SERVICE_ACCOUNTS, name), (SECRETS, secret)):
        await _delete_former(hub, gvr, leftover, cluster)
    try:
        async with asyncio.timeout(TOKEN_TIMEOUT_SECONDS):
            while True:
                # Again each time: the hub may still be deleting those of an earlier workload Cluster of that name.
                await hub.apply(SERVICE_ACCOUNTS, _with_owner(account, cluster), FIELD_MANAGER)
                data = (await hub.apply(SECRETS, _with_owner(token, cluster), FIELD_MANAGER)).get("data") or {}
                if data.get("token"):
                    return base64.b64decode(data["token"]).decode()
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise JoinClusterError(f"the hub has not created a token for {namespace}/{name}") from None


async def apply_manifest(cluster: Client, installation: SyncerInstallation) -> list[str]:
    """Returns the applied objects as `kind/name`."""
    kinds = {
        "Namespace": NAMESPACES,
        "ServiceAccount": SERVICE_ACCOUNTS,
        "ClusterRole": GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False),
        "ClusterRoleBinding": GroupVersionResource(
            "rbac.authorization.k8s.io", "v1", "clusterrolebindings", namespaced=False
        ),
        "Secret": SECRETS,
        "Deployment": GroupVersionResource("apps", "v1", "deployments"),
    }
    applied = []
    for obj in manifest(installation):
        await cluster.apply(kinds[obj["kind"]], obj, FIELD_MANAGER)
        applied.append(f"{obj['kind'].lower()}/{obj['metadata']['name']}")
    return applied
