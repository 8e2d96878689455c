"""Builds a client from a kubeconfig. exec and auth-provider plugins are rejected."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shoal.client.rest import Client
from shoal.client.transport import RESTConfig
from shoal.objects.errors import ShoalError

if TYPE_CHECKING:
    import ssl

    from shoal.client.egress import EgressPolicy

Object = dict[str, Any]


class KubeconfigError(ShoalError):
    hint = "check the file: kubectl config view --kubeconfig FILE"


def load(path: Path, context: str = "", user_agent: str = "shoal") -> Client:
    """A client for the file's current context, or for `context`."""
    return new_client(load_rest_config(path, context), user_agent)


def load_rest_config(path: Path, context: str = "") -> RESTConfig:
    """Like `load`, for connections that do not use a Client."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise KubeconfigError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise KubeconfigError(f"{path} cannot be read: it is not text") from None
    return rest_config_of(parse(text, str(path)), context, source=str(path), base_dir=path.parent)


def has_context(path: Path, context: str) -> bool:
    """Reports whether the file, which must be a kubeconfig, has a context of that name."""
    config = parse(path.read_text(encoding="utf-8"), str(path))
    return any(isinstance(each, dict) and each.get("name") == context for each in config.get("contexts") or ())


def parse(text: str, source: str) -> Object:
    # Commands import this module for their help too, which reads no file.
    import yaml  # noqa: PLC0415

    try:
        config = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise KubeconfigError(f"{source} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(config, dict):
        raise KubeconfigError(f"{source} is not a kubeconfig")
    return config


def new_client(
    config: RESTConfig, user_agent: str, timeout: float = 60.0, egress: EgressPolicy | None = None
) -> Client:
    """`timeout`: seconds a response may take. `egress` is given if an object names the server."""
    # aiohttp loads too slowly for a command's help, and costs memory in a server without remote calls.
    from shoal.client.https import HttpsTransport  # noqa: PLC0415

    return Client(HttpsTransport(config.server, config.tls_context, timeout, egress), config.token, user_agent)


def rest_config_of(config: Object, context: str = "", *, source: str, base_dir: Path | None = None) -> RESTConfig:
    """`base_dir` is the directory of the files it names. Without it no files may be named (the config came over the
    network).
    """
    name = context or str(config.get("current-context") or "")
    if not name:
        raise KubeconfigError(f"{source} has no current context")
    context_entry = _entry(config, "context", name, source)
    cluster = _entry(config, "cluster", str(context_entry.get("cluster")), source)
    user = _entry(config, "user", str(context_entry.get("user")), source)
    for plugin in ("exec", "auth-provider"):
        if plugin in user:
            raise KubeconfigError(
                f"{source}: users with {plugin} are not supported; use a token or a client certificate"
            )
    server = str(cluster.get("server", ""))
    if not _is_https(server):
        raise KubeconfigError(f"{source}: the server must be an https URL, not {server!r}")
    files = _FileReader(source, base_dir)
    try:
        authority = _credential_data(cluster, "certificate-authority", files).decode("ascii")
        tls_context, server_name = _tls(cluster, user, files, authority), str(cluster.get("tls-server-name") or "")
        return RESTConfig(server, tls_context, _token(user, files), authority, server_name)
    except (ValueError, OSError) as error:
        raise KubeconfigError(f"{source}: a certificate, key or token in it cannot be read: {error}") from None


@dataclass(frozen=True, slots=True)
class _FileReader:
    """Reads the files that a kubeconfig refers to."""

    source: str
    base_dir: Path | None

    def read(self, name: str) -> bytes:
        if self.base_dir is None:
            raise KubeconfigError(f"{self.source} refers to the file {name!r}; embed its content instead")
        try:
            return (self.base_dir / name).read_bytes()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise KubeconfigError(f"{self.source} refers to {name}, which cannot be read: {reason}") from None


def _entry(config: Object, kind: str, name: str, source: str) -> Object:
    """The context, cluster or user of that name."""
    entries = config.get(f"{kind}s") or []
    if not isinstance(entries, list) or not all(isinstance(item, dict) for item in entries):
        raise KubeconfigError(f"{source} is not a kubeconfig: {kind}s is not a list of {kind}s")
    entry = next((item.get(kind) or {} for item in entries if item.get("name") == name), None)
    if entry is None:
        raise KubeconfigError(f"{source} has no {kind} named {name!r}")
    if not isinstance(entry, dict):
        raise KubeconfigError(f"{source} is not a kubeconfig: the {kind} {name!r} is not an object")
    return entry


def _is_https(server: str) -> bool:
    try:
        parts = urlsplit(server)
        return parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


def _tls(cluster: Object, user: Object, files: _FileReader, authority: str) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    from shoal.client.tls import client_context  # noqa: PLC0415

    tls_context = client_context(authority, str(cluster.get("tls-server-name") or ""))
    if cluster.get("insecure-skip-tls-verify"):
        tls_context.check_hostname = False
        tls_context.verify_mode = ssl.CERT_NONE
    certificate, key = _credential_data(user, "client-certificate", files), _credential_data(user, "client-key", files)
    if certificate and key:
        # Python reads client certificates from files only; this file is private to its owner and removed at once.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            tls_context.load_cert_chain(file.name)
    return tls_context


def _credential_data(section: Object, name: str, files: _FileReader) -> bytes:
    data = section.get(f"{name}-data")
    if data:
        return base64.b64decode("".join(str(data).split()), validate=True)
    file = section.get(name)
    return files.read(str(file)) if file else b""


def _token(user: Object, files: _FileReader) -> str:
    if user.get("tokenFile"):
        return files.read(str(user["tokenFile"])).decode().strip()
    return str(user.get("token") or "")
