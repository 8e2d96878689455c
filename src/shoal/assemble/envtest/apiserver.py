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

from shoal.apiserver.audit import AuditSettings
from shoal.apiserver.authn import User, parse_token_file
from shoal.apiserver.certificates import Authority
from shoal.assemble.datadir import DataDir
from shoal.assemble.envtest.flags import Flags
from shoal.assemble.envtest.loops import Loops
from shoal.assemble.process import serve
from shoal.assemble.server import ApiServer, ServerSettings, administrator
from shoal.assemble.store_settings import Opened, StoreSettings
from shoal.assemble.stores import open_store
from shoal.objects.errors import ShoalError, StoreError


class Standin:
    def __init__(self, directory: DataDir, opened: Opened, server: ApiServer, loops: Loops) -> None:
        self._directory, self._opened, self.server, self._loops = directory, opened, server, loops

    @classmethod
    async def start(cls, flags: Flags, chosen: str) -> Standin:
        path, settings = _place(flags.get("etcd-servers"))
        directory = DataDir(path)
        opened = await open_store(directory, settings)
        loops = Loops(chosen, service_accounts=flags.service_accounts)
        server = await ApiServer.start(_settings(directory.path / "pki", flags, loops.token), opened.store)
        loops.start(server)
        return cls(directory, opened, server, loops)

    @property
    def failure(self) -> asyncio.Future[StoreError]:
        return self._opened.store.failure

    async def stop(self) -> None:
        await self._loops.stop()
        await self.server.stop()
        await self._opened.close()
        self._directory.close()


def _place(servers: str) -> tuple[Path, StoreSettings]:
    """Uses the directory of the etcd replacement; a real etcd is used as the store."""
    first = servers.split(",")[0]
    try:
        with urlopen(f"{first}/shoal", timeout=5) as answer:
            return Path(json.load(answer)["dataDir"]) / "shoal", StoreSettings()
    except (URLError, ValueError, KeyError, OSError):
        own = Path(tempfile.mkdtemp(prefix="shoal-envtest-"))
        return own, StoreSettings("etcd", tuple(servers.split(",")), prefix=f"/shoal-{os.getpid()}")


def _settings(pki: Path, flags: Flags, token: str) -> ServerSettings:
    host = flags.get("bind-address", "127.0.0.1")
    certificates = Path(flags.get("cert-dir", "."))
    certificate = Path(flags.get("tls-cert-file") or certificates / "apiserver.crt")
    key = Path(flags.get("tls-private-key-file") or certificates / "apiserver.key")
    authority = Authority(pki)
    found = certificate.is_file() and key.is_file()
    if found:
        (pki / "serving.pem").write_bytes(key.read_bytes() + b"\n" + certificate.read_bytes())
        (pki / "serving.pem").chmod(0o600)
    given = flags.get("client-ca-file")
    if given:
        _trust(pki / "ca.crt", authority.certificate, Path(given).read_bytes())
    tokens: dict[str, User] = {token: administrator("system:shoal-loops")}
    if flags.get("token-auth-file"):
        tokens |= parse_token_file(Path(flags.get("token-auth-file")).read_text().splitlines())
    policy = flags.get("audit-policy-file")
    audit = AuditSettings(
        flags.get("audit-log-path"),
        int(flags.get("audit-log-maxsize", "100")),
        int(flags.get("audit-log-maxbackup", "0")),
        Path(policy) if policy else None,
    )
    return ServerSettings(
        directory=pki,
        host=host,
        port=int(flags.get("secure-port", "6443")),
        advertise=flags.get("advertise-address"),
        tokens=tokens,
        audit=audit,
        root_profile="cluster",
        stop_seconds=1.0,
        serving_given=found,
        bare_certificates=bool(given),
    )


def _trust(file: Path, own: bytes, other: bytes) -> None:
    """Certificates after the first are trusted as well."""
    file.write_bytes(own.rstrip() + b"\n" + other)


def run(flags: Flags, chosen: str) -> None:
    async def start() -> Standin:
        return await Standin.start(flags, chosen)

    try:
        serve(start)
    except ShoalError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(1)
