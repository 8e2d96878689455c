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

from shoal.assemble.syncer_manifest import Installation, manifest
from shoal.client.kubeconfig import KubeconfigError, endpoint_of, parse
from shoal.client.requests import Client, Kind
from shoal.kinds import workload
from shoal.objects.errors import AlreadyExists, NotFound, ShoalError
from shoal.sync.resources import CLUSTERS, NAMESPACES, SECRETS

Object = dict[str, Any]

ACCOUNTS = Kind("", "v1", "serviceaccounts")
TOKEN_SECONDS, LOOK_SECONDS = 30.0, 0.05
MANAGER = "shoal-join-cluster"
_FILES = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key"),
}


class JoinClusterError(ShoalError):
    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def self_contained(file: Path, context: str = "") -> str:
    """Returns the kubeconfig with one context only and with the contents of the files it names."""
    config = parse(file.read_text(), str(file))
    endpoint_of(config, context, where=str(file), beside=file.parent)  # raises if it cannot be used
    name = context or str(config["current-context"])
    chosen = next(item for item in config["contexts"] if item["name"] == name)
    kept: Object = {"apiVersion": "v1", "kind": "Config", "current-context": name, "contexts": [chosen]}
    for section, part in (("clusters", "cluster"), ("users", "user")):
        wanted = chosen["context"][part]
        found = next(item for item in config[section] if item["name"] == wanted)
        kept[section] = [{"name": wanted, part: _inlined(dict(found.get(part) or {}), _FILES[part], file)}]
    return yaml.safe_dump(kept, sort_keys=False)


def _inlined(part: Object, names: tuple[str, ...], file: Path) -> Object:
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
    await hub.apply(SECRETS, body, MANAGER)
    await _register(hub, name, {"kubeconfigSecretRef": {"namespace": namespace, "name": secret}, "syncMode": "push"})


async def join_pull(hub: Client, name: str) -> str:
    """Registers the cluster, and returns the token of its syncer's identity on the hub."""
    version = await hub.call("GET", "/version")
    if "+shoal" not in str(version.get("gitVersion")):
        raise JoinClusterError("the hub is no Shoal server: it has no rights made for a syncer", "use --mode push")
    with suppress(AlreadyExists):
        await hub.create(NAMESPACES, {"metadata": {"name": workload.SYNCERS}})
    with suppress(AlreadyExists):
        account = {"metadata": {"name": name}, "automountServiceAccountToken": False}
        await hub.create(ACCOUNTS, account, workload.SYNCERS)
    await _register(hub, name, {"syncMode": "pull"})
    return await _token(hub, name)


async def _register(hub: Client, name: str, spec: Object) -> None:
    body = {
        "apiVersion": f"{workload.GROUP}/{workload.VERSION}",
        "kind": workload.KIND,
        "metadata": {"name": name},
        "spec": spec,
    }
    try:
        found = await hub.get(CLUSTERS, name)
    except NotFound:
        await hub.create(CLUSTERS, body)
        return
    if workload.MANAGED in (found["metadata"].get("labels") or {}):
        raise JoinClusterError(
            f"{name} is the workload Cluster of a ManagedCluster", "give another name: shoal join-cluster NAME ..."
        )
    await hub.apply(CLUSTERS, body, MANAGER)


async def _token(hub: Client, name: str) -> str:
    """The token is valid until its Secret is deleted: a syncer may be offline for long and comes back by itself."""
    secret = f"{name}-token"
    metadata = {"name": secret, "annotations": {"kubernetes.io/service-account.name": name}}
    with suppress(AlreadyExists):
        body = {"metadata": metadata, "type": "kubernetes.io/service-account-token"}
        await hub.create(SECRETS, body, workload.SYNCERS)
    try:
        async with asyncio.timeout(TOKEN_SECONDS):
            while True:
                data = (await hub.get(SECRETS, secret, workload.SYNCERS)).get("data") or {}
                if data.get("token"):
                    return base64.b64decode(data["token"]).decode()
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise JoinClusterError(f"the hub has not made a token for {workload.SYNCERS}/{name}") from None


async def apply_manifest(cluster: Client, wanted: Installation) -> list[str]:
    """Returns the applied objects as `kind/name`."""
    kinds = {
        "Namespace": NAMESPACES,
        "ServiceAccount": ACCOUNTS,
        "ClusterRole": Kind("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False),
        "ClusterRoleBinding": Kind("rbac.authorization.k8s.io", "v1", "clusterrolebindings", namespaced=False),
        "Secret": SECRETS,
        "Deployment": Kind("apps", "v1", "deployments"),
    }
    applied = []
    for obj in manifest(wanted):
        await cluster.apply(kinds[obj["kind"]], obj, MANAGER)
        applied.append(f"{obj['kind'].lower()}/{obj['metadata']['name']}")
    return applied
