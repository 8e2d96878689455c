"""The file of `shoal hub --join-secrets`: which Secrets of the hub's own cluster workers join with."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from shoal.assemble.in_cluster import NotInCluster, in_cluster_client
from shoal.fleet.join.join_secrets import JoinSecrets, JoinSecretSettings
from shoal.kinds.fleet import worker_join
from shoal.objects.errors import ShoalError
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain

USER_AGENT = "shoal-hub"


class JoinSecretFileError(ShoalError):
    hint = "it has the keys address (a URL) and secrets (WORKER: NAMESPACE/NAME)"


class HubNotInCluster(ShoalError):
    hint = "create tokens with: shoal join-token create"

    def __init__(self) -> None:
        super().__init__("--join-secrets is for a hub that runs as a pod with a ServiceAccount")


def join_secret_settings(file: Path) -> JoinSecretSettings:
    """Raises ShoalError if the file is invalid, or if this process does not run in a cluster."""
    read_join_secrets(file)
    new_client = partial(in_cluster_client, USER_AGENT)
    try:
        new_client()
    except NotInCluster:
        raise HubNotInCluster from None
    return JoinSecretSettings(partial(read_join_secrets, file), new_client)


def read_join_secrets(file: Path) -> JoinSecrets:
    try:
        content = yaml.load(file.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise JoinSecretFileError(f"{file} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict) or set(content) != {"address", "secrets"}:
        raise JoinSecretFileError(f"{file} does not have exactly the keys address and secrets")
    address, secrets = content["address"], content["secrets"]
    if not isinstance(address, str) or not _is_https(address):
        raise JoinSecretFileError(f"{file}: address must be an https URL, not {address!r}")
    if not isinstance(secrets, dict):
        raise JoinSecretFileError(f"{file}: secrets must be a map")
    return JoinSecrets(address, {str(worker): _secret(file, worker, secrets[worker]) for worker in secrets})


def _is_https(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


def _secret(file: Path, worker: Any, secret: Any) -> tuple[str, str]:
    invalid_name = worker_join.name_error(str(worker))
    if invalid_name:
        raise JoinSecretFileError(f"{file}: secrets.{worker}: {invalid_name}")
    namespace, _, name = str(secret).partition("/")
    if is_dns1123_label(namespace) or is_dns1123_subdomain(name):
        raise JoinSecretFileError(f"{file}: secrets.{worker} must be NAMESPACE/NAME, not {secret!r}")
    return namespace, name
