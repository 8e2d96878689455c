"""From a workload Cluster to a client of the cluster it stands for."""

from __future__ import annotations

import base64
import binascii
import hashlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal.client.kubeconfig import KubeconfigError, parse
from shoal.client.requests import Client
from shoal.objects.errors import NotFound, ShoalError
from shoal.sync.resources import SECRETS

Object = dict[str, Any]
Connect = Callable[[Object], Client]
"""Given a parsed kubeconfig."""


class NoKubeconfig(ShoalError):
    """The workload Cluster cannot be reached because it does not say how. Never holds what a Secret held."""


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    text: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def client(self, connect: Connect) -> Client:
        try:
            return connect(parse(self.text, "the kubeconfig"))
        except KubeconfigError as error:
            raise NoKubeconfig(str(error)) from None
        except (ValueError, KeyError, TypeError, AttributeError, ssl.SSLError):
            raise NoKubeconfig("the kubeconfig cannot be used: its certificates or its form are not readable") from None


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
