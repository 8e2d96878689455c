"""The address of a kind cluster's API server, and the certificates of its administrator, from kind's kubeconfig.

The content of that kubeconfig comes out of a container in which the cluster's administrators can be root. So only the
address that kind has written is used, and certificates that are in the text: no files, plugins, tokens or proxies.
"""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from shoal.client.kubeconfig import KubeconfigError, parse, rest_config_of
from shoal.client.transport import RESTConfig
from shoal.kinds.clusterapi import capi

Object = dict[str, Any]

SOURCE = "kind's kubeconfig"
_CLUSTER_FIELDS, _USER_FIELDS = ("certificate-authority-data",), ("client-certificate-data", "client-key-data")


@dataclass(frozen=True, slots=True)
class KindEndpoint:
    server: str
    admin: RESTConfig = field(repr=False)
    """Authenticates as kind's administrator."""
    unauthenticated: ssl.SSLContext = field(repr=False)
    """Trusts the server, and authenticates as nobody."""


def endpoint_of_secret(secret: Object) -> KindEndpoint:
    """Reads Cluster API's kubeconfig Secret of a KINDCluster. Raises KubeconfigError."""
    try:
        text = base64.b64decode((secret.get("data") or {})[capi.KUBECONFIG_KEY], validate=True).decode()
        config = parse(text, SOURCE)
        (cluster,) = (each["cluster"] for each in config["clusters"])
        (user,) = (each["user"] for each in config["users"])
        server = _checked_server(str(cluster["server"]))
        trusted = {"server": server, **{name: cluster[name] for name in _CLUSTER_FIELDS}}
        certificate = {name: user[name] for name in _USER_FIELDS}
    except (KeyError, TypeError, ValueError):
        raise KubeconfigError(f"{SOURCE} is not as kind writes it") from None
    admin = rest_config_of(_config(trusted, certificate), source=SOURCE)
    return KindEndpoint(server, admin, rest_config_of(_config(trusted, {}), source=SOURCE).tls_context)


def _checked_server(server: str) -> str:
    parts = urlsplit(server)
    if parts.scheme != "https" or not parts.hostname or parts.path.strip("/") or parts.query or parts.username:
        raise ValueError("not the address of an API server")
    return server.rstrip("/")


def _config(cluster: Object, user: Object) -> Object:
    return {
        "clusters": [{"name": "kind", "cluster": cluster}],
        "users": [{"name": "kind", "user": user}],
        "contexts": [{"name": "kind", "context": {"cluster": "kind", "user": "kind"}}],
        "current-context": "kind",
    }
