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
from shoal.client.requests import Client
from shoal.kinds import workload
from shoal.objects.errors import NotFound, ShoalError
from shoal.sync.resources import SECRETS

Object = dict[str, Any]
Connect = Callable[[Object], Client]
"""Builds a client from a parsed kubeconfig."""


class NoKubeconfig(ShoalError):
    """The workload Cluster has no usable kubeconfig. The message never contains the content of a Secret."""


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    text: str = field(repr=False)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def client(self, connect: Connect) -> Client:
        try:
            parsed = parse(self.text, "the kubeconfig")
        except KubeconfigError:
            # The parser's message would contain the text.
            raise NoKubeconfig("the kubeconfig is not readable as YAML") from None
        try:
            return connect(parsed)
        except KubeconfigError as error:
            raise NoKubeconfig(_discreet(str(error), parsed)) from None
        except (ValueError, KeyError, TypeError, AttributeError, ssl.SSLError):
            raise NoKubeconfig("the kubeconfig cannot be used: its certificates or its form are not readable") from None


@dataclass(frozen=True, slots=True)
class Reached:
    client: Client
    owned: bool = True
    """Whether the connections belong to the caller alone."""

    async def close(self) -> None:
        if self.owned:
            await self.client.close()


Reach = Callable[[Object], Awaitable[Reached]]
"""Connects to the cluster of a workload Cluster. Raises NoKubeconfig if it has none."""


def reach_by(client: Client, connect: Connect) -> Reach:
    """Connects by the kubeconfig in the workload Cluster or in the Secret it refers to."""

    async def reach(cluster: Object) -> Reached:
        return Reached((await kubeconfig_of(client, cluster)).client(connect))

    return reach


def dials_in(cluster: Object, mode: str) -> bool:
    """Whether the hub does not connect to the cluster: its own syncer connects to the hub."""
    spec = cluster.get("spec") or {}
    said = bool(spec.get("kubeconfig") or spec.get("kubeconfigSecretRef"))
    return not said and workload.sync_mode(cluster, mode) == workload.PULL


async def kubeconfig_of(client: Client, cluster: Object) -> Kubeconfig:
    spec = cluster.get("spec") or {}
    reference = spec.get("kubeconfigSecretRef")
    if reference is None:
        if not spec.get("kubeconfig"):
            raise NoKubeconfig("neither spec.kubeconfigSecretRef nor spec.kubeconfig is given")
        return Kubeconfig(spec["kubeconfig"])
    namespace, name, key = reference["namespace"], reference["name"], reference.get("key", "value")
    try:
        secret = await client.get(SECRETS, name, namespace)
    except NotFound:
        raise NoKubeconfig(f"the Secret {namespace}/{name} is not there") from None
    data = (secret.get("data") or {}).get(key)
    if not data:
        raise NoKubeconfig(f"the Secret {namespace}/{name} has no key {key!r}")
    try:
        return Kubeconfig(base64.b64decode(data).decode())
    except (binascii.Error, UnicodeDecodeError):
        raise NoKubeconfig(f"the key {key!r} of the Secret {namespace}/{name} is not text") from None


def _discreet(message: str, parsed: Object) -> str:
    """The message, unless it contains credentials of the kubeconfig."""
    users = [user.get("user") for user in parsed.get("users") or () if isinstance(user, dict)]
    secret = [str(value) for user in users if isinstance(user, dict) for value in user.values() if value]
    if "@" in message or any(value in message for value in secret):
        return "the kubeconfig cannot be used"
    return message
