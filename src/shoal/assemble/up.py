"""`shoal up`: everything in one process, on one data directory."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from shoal.apiserver.audit import AuditSettings as AuditSettings
from shoal.apiserver.malloc import tune
from shoal.assemble.datadir import DataDir, DataDirError, host_names, kubeconfig, write_private
from shoal.assemble.loops import Loops
from shoal.assemble.server import ApiServer, ServerSettings, administrator
from shoal.store.sqlite import SqliteStore


@dataclass(frozen=True, slots=True)
class UpSettings:
    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 6443
    audit: AuditSettings = field(default_factory=AuditSettings)
    root_profile: str = ""


class Shoal:
    """A running `shoal up`. Tests start it in their own loop; the command line through `run`."""

    def __init__(self, directory: DataDir, store: SqliteStore, server: ApiServer, loops: Loops) -> None:
        self.directory = directory
        self.store = store
        self.server = server
        self._loops = loops

    @classmethod
    async def start(cls, settings: UpSettings) -> Shoal:
        directory = DataDir(settings.data_dir)
        try:
            store = await SqliteStore.open(directory.path)
            token = directory.admin_token()
            loops = Loops()
            server = await ApiServer.start(
                ServerSettings(
                    directory=directory.path / "pki",
                    host=settings.host,
                    port=directory.port(settings.port),
                    names=tuple(host_names()),
                    tokens={token: administrator(), loops.token: administrator("system:shoal:loops")},
                    audit=settings.audit,
                    root_profile=settings.root_profile,
                ),
                store,
            )
        except BaseException as error:
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
        loops.start(server.transport(), server.authority)
        return cls(directory, store, server, loops)

    async def stop(self) -> None:
        await self._loops.stop()
        await self.server.stop()
        await self.store.close()
        self.directory.close()


def run(settings: UpSettings, ready: Callable[[Shoal], None]) -> None:
    """Until SIGTERM or SIGINT."""
    tune()
    # What is loaded by now stays; what requests make dies young. Python's own thresholds suit small programs.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)

    async def main() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        shoal = await Shoal.start(settings)
        ready(shoal)
        await stopping.wait()
        print("stopping", file=sys.stderr)
        await shoal.stop()

    uvloop.run(main())
