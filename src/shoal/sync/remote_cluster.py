"""Connects to the cluster of a workload Cluster object."""

from __future__ import annotations

import base64
import binascii
import hashlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from shoal.client.kubeconfig import KubeconfigError, parse
from shoal.client.rest import Client
from shoal.kinds.fleet import infrav1
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import NotFound, ShoalError
from shoal.sync.resources import SECRETS

Object = dict[str, Any]
NewClient = Callable[[Object], Client]
"""Builds a client from a parsed kubeconfig."""


class NoKubeconfig(ShoalError):
    """The workload Cluster has no usable kubeconfig. The message never contains the content of a Secret."""


HOSTED_PATH = "shoal.dev/hosted-path"
"""Key that is added to the parsed kubeconfig of a ManagedCluster: its path at the hub. A worker writes that kubeconfig,
so the hub itself decides where it connects to.
"""


@dataclass(frozen=True, slots=True)
class KubeconfigText:
    text: str = field(repr=False)
    hosted_path: str = ""
    """The path of the ManagedCluster at the hub, if it is the kubeconfig of one."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def client(self, new_client: NewClient) -> Client:
        try:
            parsed = parse(self.text, "the kubeconfig")
        except KubeconfigError:
            # The parser's message would contain the text.
            raise NoKubeconfig("the kubeconfig is not valid YAML") from None
        parsed[HOSTED_PATH] = self.hosted_path
        try:
            return new_client(parsed)
        except KubeconfigError as error:
            raise NoKubeconfig(_redact(str(error), parsed)) from None
        except (ValueError, KeyError, TypeError, AttributeError, ssl.SSLError):
            raise NoKubeconfig("the kubeconfig cannot be used: its structure or certificates are invalid") from None


@dataclass(frozen=True, slots=True)
class RemoteCluster:
    client: Client
    owns_client: bool = True
    """Whether the connections belong to the caller alone."""

    async def close(self) -> None:
        if self.owns_client:
            await self.client.close()


ConnectFunc = Callable[[Object], Awaitable[RemoteCluster]]
"""Connects to the cluster of a workload Cluster. Raises NoKubeconfig if it has none."""


def connect_by_kubeconfig(client: Client, new_client: NewClient) -> ConnectFunc:
    """Connects by the kubeconfig in the workload Cluster or in the Secret it refers to."""

    async def connect(cluster: Object) -> RemoteCluster:
        return RemoteCluster((await kubeconfig_of(client, cluster)).client(new_client))

    return connect


def is_pull_mode(cluster: Object, mode: str) -> bool:
    """Whether the hub does not connect to the cluster: its own syncer connects to the hub."""
    spec = cluster.get("spec") or {}
    has_kubeconfig = bool(spec.get("kubeconfig") or spec.get("kubeconfigSecretRef"))
    return not has_kubeconfig and workloadcluster.sync_mode(cluster, mode) == workloadcluster.PULL


async def kubeconfig_of(client: Client, cluster: Object) -> KubeconfigText:
    spec = cluster.get("spec") or {}
    reference = spec.get("kubeconfigSecretRef")
    if reference is None:
        if not spec.get("kubeconfig"):
            raise NoKubeconfig("neither spec.kubeconfigSecretRef nor spec.kubeconfig is set")
        return KubeconfigText(spec["kubeconfig"])
    namespace, name, key = reference["namespace"], reference["name"], reference.get("key", "value")
    try:
        secret = await client.get(SECRETS, name, namespace)
    except NotFound:
        raise NoKubeconfig(f"Secret {namespace}/{name} not found") from None
    data = (secret.get("data") or {}).get(key)
    if not data:
        raise NoKubeconfig(f"Secret {namespace}/{name} has no key {key!r}")
    managed = infrav1.cluster_of_kubeconfig_secret(name)
    hosted_path = infrav1.managed_cluster_path(namespace, managed) if _is_of_worker(secret, managed) else ""
    try:
        return KubeconfigText(base64.b64decode(data).decode(), hosted_path)
    except (binascii.Error, UnicodeDecodeError):
        raise NoKubeconfig(f"key {key!r} of Secret {namespace}/{name} is not text") from None


def _is_of_worker(secret: Object, managed: str) -> bool:
    """Reports whether workers write the Secret."""
    return secret.get("type") == infrav1.CLUSTER_SECRET and infrav1.is_owned_by_cluster(secret, managed)


def _redact(message: str, parsed: Object) -> str:
    """The message, unless it contains credentials of the kubeconfig."""
    users = [user.get("user") for user in parsed.get("users") or () if isinstance(user, dict)]
    secrets = [str(value) for user in users if isinstance(user, dict) for value in user.values() if value]
    if "@" in message or any(value in message for value in secrets):
        return "the kubeconfig cannot be used"
    return message
