"""The replacement for kube-apiserver: one API server whose root is a whole cluster, with the given certificates, and
the cleanup controllers.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from shoal.apiserver.audit import AuditConfig
from shoal.apiserver.authn.authenticator import User, parse_token_file
from shoal.assemble.envtest.controllers import EnvtestControllers
from shoal.assemble.envtest.flags import Flags
from shoal.assemble.server.api_server import ApiServer, admin_user
from shoal.assemble.server.api_server_settings import ApiServerSettings
from shoal.assemble.server.process import run_until_stopped
from shoal.assemble.storage.config import OpenedStore, StoreSettings
from shoal.assemble.storage.datadir import DataDir
from shoal.assemble.storage.factory import open_store
from shoal.objects.errors import ShoalError, StoreError


class EnvtestServer:
    def __init__(
        self, directory: DataDir, opened_store: OpenedStore, server: ApiServer, controllers: EnvtestControllers
    ) -> None:
        self._directory, self._opened_store, self.server, self._controllers = (
            directory,
            opened_store,
            server,
            controllers,
        )

    @classmethod
    async def start(cls, flags: Flags, controller_set: str) -> EnvtestServer:
        path, settings = _data_location(flags.get("etcd-servers"))
        directory = DataDir(path)
        opened_store = await open_store(directory, settings)
        controllers = EnvtestControllers(controller_set, service_accounts=flags.has_service_accounts)
        server = await ApiServer.start(
            _server_settings(directory.path / "pki", flags, controllers.token), opened_store.store
        )
        controllers.start(server)
        return cls(directory, opened_store, server, controllers)

    @property
    def failure(self) -> asyncio.Future[StoreError]:
        return self._opened_store.store.failure

    async def stop(self) -> None:
        await self._controllers.stop()
        await self.server.stop()
        await self._opened_store.close()
        self._directory.close()


def _data_location(servers: str) -> tuple[Path, StoreSettings]:
    """Uses the directory of the etcd replacement; a real etcd is used as the store."""
    first = servers.split(",")[0]
    try:
        with urlopen(f"{first}/shoal", timeout=5) as answer:
            return Path(json.load(answer)["dataDir"]) / "shoal", StoreSettings()
    except (URLError, ValueError, KeyError, OSError):
        temporary = Path(tempfile.mkdtemp(prefix="shoal-envtest-"))
        return temporary, StoreSettings("etcd", tuple(servers.split(",")), prefix=f"/shoal-{os.getpid()}")


def _server_settings(pki: Path, flags: Flags, token: str) -> ApiServerSettings:
    host = flags.get("bind-address", "127.0.0.1")
    certificates = Path(flags.get("cert-dir", "."))
    certificate = Path(flags.get("tls-cert-file") or certificates / "apiserver.crt")
    key = Path(flags.get("tls-private-key-file") or certificates / "apiserver.key")
    pki.mkdir(parents=True, exist_ok=True)
    has_serving_cert = certificate.is_file() and key.is_file()
    if has_serving_cert:
        (pki / "serving.pem").write_bytes(key.read_bytes() + b"\n" + certificate.read_bytes())
        (pki / "serving.pem").chmod(0o600)
    client_ca_file = flags.get("client-ca-file")
    if client_ca_file:
        (pki / "client-ca.crt").write_bytes(Path(client_ca_file).read_bytes())
    tokens: dict[str, User] = {token: admin_user("system:shoal-loops")}
    if flags.get("token-auth-file"):
        tokens |= parse_token_file(Path(flags.get("token-auth-file")).read_text().splitlines())
    policy = flags.get("audit-policy-file")
    audit = AuditConfig(
        flags.get("audit-log-path"),
        int(flags.get("audit-log-maxsize", "100")),
        int(flags.get("audit-log-maxbackup", "0")),
        Path(policy) if policy else None,
    )
    return ApiServerSettings(
        directory=pki,
        host=host,
        port=int(flags.get("secure-port", "6443")),
        advertise_address=flags.get("advertise-address"),
        tokens=tokens,
        audit=audit,
        root_profile="cluster",
        shutdown_timeout=1.0,
        external_serving_cert=has_serving_cert,
        bare_certificates=bool(client_ca_file),
    )


def run(flags: Flags, controller_set: str) -> None:
    async def start() -> EnvtestServer:
        return await EnvtestServer.start(flags, controller_set)

    try:
        run_until_stopped(start)
    except ShoalError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(1)
