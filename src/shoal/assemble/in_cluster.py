"""The cluster in which a process runs as a pod: a client with the pod's ServiceAccount."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from shoal.client.https import HttpsTransport
from shoal.client.rest import Client
from shoal.client.transport import Transport
from shoal.objects.errors import ShoalError

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_REREAD_SECONDS = 60.0


class NotInCluster(ShoalError):
    hint = "give a kubeconfig: shoal syncer --to-kubeconfig FILE, shoal provisioner --kubeconfig FILE"

    def __init__(self) -> None:
        super().__init__("this process does not run in a cluster, and no kubeconfig was given")


class TokenFileTransport:
    """A transport that rereads its token from a file: in a cluster it is replaced every hour."""

    def __init__(self, transport: Transport, file: Path) -> None:
        self._transport, self._file = transport, file
        self._token, self._read_at = "", 0.0

    def _with_token(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        if not self._token or time.monotonic() - self._read_at > TOKEN_REREAD_SECONDS:
            self._token, self._read_at = self._file.read_text().strip(), time.monotonic()
        return {**headers, "authorization": f"Bearer {self._token}"}

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        return await self._transport.request(method, path, query, self._with_token(headers), body)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        return await self._transport.stream(method, path, query, self._with_token(headers))

    async def close(self) -> None:
        await self._transport.close()


def in_cluster_client(
    user_agent: str, service_account_dir: Path = SERVICE_ACCOUNT_DIR, environment: Mapping[str, str] = os.environ
) -> Client:
    """A client of the cluster this process runs in, as its pod's service account."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (service_account_dir / "token").exists():
        raise NotInCluster
    tls = ssl.create_default_context(cafile=str(service_account_dir / "ca.crt"))
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Client(TokenFileTransport(HttpsTransport(server, tls), service_account_dir / "token"), user_agent=user_agent)
