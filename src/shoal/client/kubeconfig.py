"""Builds a client from a kubeconfig. exec and auth-provider plugins are rejected."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shoal.client.requests import Client
from shoal.client.transport import Endpoint
from shoal.objects.errors import ShoalError

if TYPE_CHECKING:
    import ssl

Object = dict[str, Any]


class KubeconfigError(ShoalError):
    hint = "it is to be as kubectl has it: kubectl config view --kubeconfig FILE"


def load(path: Path, context: str = "", agent: str = "shoal") -> Client:
    """A client for the file's current context, or for `context`."""
    return client_to(load_endpoint(path, context), agent)


def load_endpoint(path: Path, context: str = "") -> Endpoint:
    """Like `load`, for connections that do not use a Client."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise KubeconfigError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise KubeconfigError(f"{path} cannot be read: it is not text") from None
    return endpoint_of(parse(text, str(path)), context, where=str(path), beside=path.parent)


def parse(text: str, where: str) -> Object:
    # Commands import this module for their help too, which reads no file.
    import yaml  # noqa: PLC0415

    try:
        config = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise KubeconfigError(f"{where} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(config, dict):
        raise KubeconfigError(f"{where} is not a kubeconfig")
    return config


def client_to(endpoint: Endpoint, agent: str, cut: float = 60.0) -> Client:
    """`timeout`: seconds a response may take."""
    # aiohttp loads too slowly for a command's help, and costs memory in a server without remote calls.
    from shoal.client.https import HttpsTransport  # noqa: PLC0415

    return Client(HttpsTransport(endpoint.server, endpoint.tls, cut), endpoint.token, agent)


def endpoint_of(config: Object, context: str = "", *, where: str, beside: Path | None = None) -> Endpoint:
    """`base_dir` is the directory of the files it names. Without it no files may be named (the config came over the
    network).
    """
    name = context or str(config.get("current-context") or "")
    if not name:
        raise KubeconfigError(f"{where} names no current context")
    chosen = _named(config, "context", name, where)
    cluster = _named(config, "cluster", str(chosen.get("cluster")), where)
    user = _named(config, "user", str(chosen.get("user")), where)
    for plugin in ("exec", "auth-provider"):
        if plugin in user:
            raise KubeconfigError(
                f"{where}: users with {plugin} are not supported; use a token or a client certificate"
            )
    server = str(cluster.get("server", ""))
    if not _is_https(server):
        raise KubeconfigError(f"{where}: the server must be an https URL, not {server!r}")
    files = _Files(where, beside)
    try:
        authority = _material(cluster, "certificate-authority", files).decode("ascii")
        return Endpoint(server, _tls(cluster, user, files, authority), _token(user, files), authority)
    except (ValueError, OSError) as error:
        raise KubeconfigError(f"{where}: a certificate, key or token in it cannot be read: {error}") from None


@dataclass(frozen=True, slots=True)
class _Files:
    """Reads the files that a kubeconfig refers to."""

    where: str
    beside: Path | None

    def read(self, name: str) -> bytes:
        if self.beside is None:
            raise KubeconfigError(f"{self.where} names the file {name!r}; it must hold its content instead")
        try:
            return (self.beside / name).read_bytes()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise KubeconfigError(f"{self.where} names {name}, which cannot be read: {why}") from None


def _named(config: Object, kind: str, name: str, where: str) -> Object:
    """The context, cluster or user of that name."""
    listed = config.get(f"{kind}s") or []
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise KubeconfigError(f"{where} is not a kubeconfig: {kind}s is no list of {kind}s")
    found = next((item.get(kind) or {} for item in listed if item.get("name") == name), None)
    if found is None:
        raise KubeconfigError(f"{where} has no {kind} named {name!r}")
    if not isinstance(found, dict):
        raise KubeconfigError(f"{where} is not a kubeconfig: the {kind} {name!r} is no object")
    return found


def _is_https(server: str) -> bool:
    try:
        parts = urlsplit(server)
        return parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


def _tls(cluster: Object, user: Object, files: _Files, authority: str) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    trusted = ssl.create_default_context(cadata=authority or None)
    if cluster.get("insecure-skip-tls-verify"):
        trusted.check_hostname = False
        trusted.verify_mode = ssl.CERT_NONE
    certificate, key = _material(user, "client-certificate", files), _material(user, "client-key", files)
    if certificate and key:
        # Python reads client certificates from files only; this file is private to its owner and removed at once.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            trusted.load_cert_chain(file.name)
    return trusted


def _material(section: Object, name: str, files: _Files) -> bytes:
    data = section.get(f"{name}-data")
    if data:
        return base64.b64decode("".join(str(data).split()), validate=True)
    file = section.get(name)
    return files.read(str(file)) if file else b""


def _token(user: Object, files: _Files) -> str:
    if user.get("tokenFile"):
        return files.read(str(user["tokenFile"])).decode().strip()
    return str(user.get("token") or "")
