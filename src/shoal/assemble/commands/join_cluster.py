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
from shoal.objects.errors import AlreadyExists, NotFound, ShoalError
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
    """Applies the Secret first, so that the workload Cluster finds it."""
    data = {"value": base64.b64encode(kubeconfig.encode()).decode()}
    secret = f"{name}-kubeconfig"
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret, "namespace": namespace}, "data": data}
    await hub.apply(SECRETS, body, FIELD_MANAGER)
    await _register(hub, name, {"kubeconfigSecretRef": {"namespace": namespace, "name": secret}, "syncMode": "push"})


async def join_pull(hub: Client, name: str) -> str:
    """Registers the cluster, and returns the token of its syncer's identity on the hub."""
    version = await hub.request("GET", "/version")
    if "+shoal" not in str(version.get("gitVersion")):
        raise JoinClusterError(
            "the hub is not a Shoal server: it cannot create credentials for a syncer", "use --mode push"
        )
    with suppress(AlreadyExists):
        await hub.create(NAMESPACES, {"metadata": {"name": workloadcluster.SYNCER_NAMESPACE}})
    with suppress(AlreadyExists):
        account = {"metadata": {"name": name}, "automountServiceAccountToken": False}
        await hub.create(SERVICE_ACCOUNTS, account, workloadcluster.SYNCER_NAMESPACE)
    await _register(hub, name, {"syncMode": "pull"})
    return await _syncer_token(hub, name)


async def _register(hub: Client, name: str, spec: Object) -> None:
    body = {
        "apiVersion": f"{workloadcluster.GROUP}/{workloadcluster.VERSION}",
        "kind": workloadcluster.KIND,
        "metadata": {"name": name},
        "spec": spec,
    }
    try:
        existing = await hub.get(CLUSTERS, name)
    except NotFound:
        await hub.create(CLUSTERS, body)
        return
    if workloadcluster.MANAGED_CLUSTER_LABEL in (existing["metadata"].get("labels") or {}):
        raise JoinClusterError(
            f"{name} is already the workload Cluster of a ManagedCluster",
            "give another name: shoal join-cluster NAME ...",
        )
    await hub.apply(CLUSTERS, body, FIELD_MANAGER)


async def _syncer_token(hub: Client, name: str) -> str:
    """The token is valid until its Secret is deleted: a syncer may be offline for long and comes back by itself."""
    secret = f"{name}-token"
    metadata = {"name": secret, "annotations": {"kubernetes.io/service-account.name": name}}
    with suppress(AlreadyExists):
        body = {"metadata": metadata, "type": "kubernetes.io/service-account-token"}
        await hub.create(SECRETS, body, workloadcluster.SYNCER_NAMESPACE)
    try:
        async with asyncio.timeout(TOKEN_TIMEOUT_SECONDS):
            while True:
                data = (await hub.get(SECRETS, secret, workloadcluster.SYNCER_NAMESPACE)).get("data") or {}
                if data.get("token"):
                    return base64.b64decode(data["token"]).decode()
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise JoinClusterError(
            f"the hub has not created a token for {workloadcluster.SYNCER_NAMESPACE}/{name}"
        ) from None


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
