"""One Shoal server: its data directory, store, API and loops. A hub is one, and so is every worker."""

from __future__ import annotations

import errno
import os
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path

from shoal.apiserver.audit import AuditSettings as AuditSettings
from shoal.apiserver.sleep import IDLE_SECONDS as IDLE_SECONDS
from shoal.assemble.datadir import DataDir, DataDirError, host_names, kubeconfig, write_private
from shoal.assemble.loops import Loops
from shoal.assemble.routes import hub_routes, no_routes
from shoal.assemble.server import ApiServer, ServerSettings, administrator, worker_user
from shoal.assemble.store_settings import Opened
from shoal.assemble.store_settings import StoreSettings as StoreSettings
from shoal.assemble.stores import open_store
from shoal.client.requests import Client
from shoal.fleet.bus.settings import BusSettings
from shoal.fleet.tunnel import Tunnels


@dataclass(frozen=True, slots=True)
class UpSettings:
    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 6443
    audit: AuditSettings = field(default_factory=AuditSettings)
    root_profile: str = ""
    store: StoreSettings = field(default_factory=StoreSettings)
    advertise: str = ""
    """The name or address clients use, where it is not the host."""
    hub: bool = True
    """False: a worker's server, which runs the loops of a hub nowhere."""
    idle_seconds: float = IDLE_SECONDS
    """After which a logical cluster that is asked nothing sleeps."""
    bus: BusSettings = field(default_factory=BusSettings)
    """By which a hub speaks with its workers."""


class Shoal:
    """A running server. Tests start it in their own loop; commands through `run` of theirs."""

    def __init__(self, directory: DataDir, opened: Opened, server: ApiServer, loops: Loops, tunnels: Tunnels) -> None:
        self.directory = directory
        self.store = opened.store
        self._opened = opened
        self.server = server
        self.tunnels = tunnels
        """By which the hosted clusters of workers are reached."""
        self._loops = loops

    @classmethod
    async def start(cls, settings: UpSettings) -> Shoal:
        directory = DataDir(settings.data_dir)
        opened: Opened | None = None
        try:
            opened = await open_store(directory, settings.store)
            token = directory.admin_token()
            loops, tunnels = Loops(), Tunnels()
            server = await ApiServer.start(
                ServerSettings(
                    directory=directory.path / "pki",
                    host=settings.host,
                    port=directory.port(settings.port),
                    advertise=settings.advertise,
                    names=tuple(host_names()),
                    tokens={token: administrator(), loops.token: administrator("system:shoal:loops")},
                    audit=settings.audit,
                    root_profile=settings.root_profile,
                    idle_seconds=settings.idle_seconds,
                    routes=hub_routes(tunnels, directory.path / "pki" / "ca.crt") if settings.hub else no_routes,
                ),
                opened.store,
            )
        except BaseException as error:
            if opened is not None:
                await opened.close()
            directory.close()
            if isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                port = directory.port(settings.port)
                why = os.strerror(error.errno).lower()
                raise DataDirError(
                    f"cannot listen on {settings.host}:{port}: {why}",
                    "give another address: shoal up --listen HOST:PORT",
                ) from None
            raise
        if not settings.port:
            directory.keep_port(server.port)
        write_private(directory.path / "kubeconfig", kubeconfig(server.url, server.authority.certificate, token))
        holder = f"{socket.gethostname()}_{secrets.token_hex(4)}" if opened.shared else ""
        loops.start(
            server.transport(), server.authority, holder=holder, hub=settings.hub, url=server.url, bus=settings.bus
        )
        return cls(directory, opened, server, loops, tunnels)

    def client(self, agent: str) -> Client:
        """Of root, without a socket, as the loops."""
        return Client(self.server.transport(), self._loops.token, agent=agent, cluster="root")

    def worker_client(self, name: str) -> Client:
        """Of root, without a socket, as the worker of that name: with its rights and no others."""
        token = secrets.token_urlsafe(32)
        self.server.core.authenticator.accept(token, worker_user(name))
        return Client(self.server.transport(), token, agent="shoal-worker", cluster="root")

    async def stop(self) -> None:
        await self._loops.stop()
        self.tunnels.close()
        await self.server.stop()
        await self._opened.close()
        self.directory.close()
