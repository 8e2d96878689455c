"""From a kubeconfig file to a client. Files with exec or auth-provider plugins are refused by name."""

from __future__ import annotations

import base64
import ssl
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from shoal.client.https import HttpsTransport
from shoal.client.requests import Client
from shoal.objects.errors import ShoalError

Object = dict[str, Any]


class KubeconfigError(ShoalError):
    pass


def load(path: Path, context: str = "", agent: str = "shoal") -> Client:
    """A client for the file's current context, or the one named."""
    try:
        config = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise KubeconfigError(f"{path} cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise KubeconfigError(f"{path} is not a kubeconfig")
    name = context or str(config.get("current-context") or "")
    chosen = _named(config, "contexts", name, path).get("context") or {}
    cluster = _named(config, "clusters", str(chosen.get("cluster")), path).get("cluster") or {}
    user = _named(config, "users", str(chosen.get("user")), path).get("user") or {}
    for plugin in ("exec", "auth-provider"):
        if plugin in user:
            raise KubeconfigError(f"{path}: users with {plugin} are not supported; use a token or a client certificate")
    server = str(cluster.get("server", ""))
    parts = urlsplit(server)
    if parts.scheme != "https" or not parts.netloc:
        raise KubeconfigError(f"{path}: the server must be an https URL, not {server!r}")
    transport = HttpsTransport(server, _tls(cluster, user, path.parent))
    return Client(transport, _token(user, path.parent), agent)


def _named(config: Object, section: str, name: str, path: Path) -> Object:
    for item in config.get(section) or ():
        if item.get("name") == name:
            found: Object = item
            return found
    raise KubeconfigError(f"{path} has no {section[:-1]} named {name!r}")


def _tls(cluster: Object, user: Object, beside: Path) -> ssl.SSLContext:
    authority = _material(cluster, "certificate-authority", beside)
    trusted = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        trusted.check_hostname = False
        trusted.verify_mode = ssl.CERT_NONE
    certificate, key = _material(user, "client-certificate", beside), _material(user, "client-key", beside)
    if certificate and key:
        # Python reads client certificates from files only; this one is the owner's alone and gone at once.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            trusted.load_cert_chain(file.name)
    return trusted


def _material(section: Object, name: str, beside: Path) -> bytes:
    data = section.get(f"{name}-data")
    if data:
        return base64.b64decode(data)
    file = section.get(name)
    return (beside / str(file)).read_bytes() if file else b""


def _token(user: Object, beside: Path) -> str:
    if user.get("tokenFile"):
        return (beside / str(user["tokenFile"])).read_text().strip()
    return str(user.get("token") or "")
