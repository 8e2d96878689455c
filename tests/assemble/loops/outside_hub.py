"""A hub that leaves loops out, with one worker, and processes that run those loops over HTTPS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from shoal.assemble.commands.controllers import ControllersConfig, ControllersProcess, hosting_server_of
from shoal.assemble.commands.loop_kubeconfig import loop_kubeconfig, loop_tokens
from shoal.assemble.server.embedded_controllers import USER_AGENT
from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.client.kubeconfig import rest_config_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.kinds.rbac.loop_accounts import account_of
from shoal.objects.errors import Forbidden, NotFound

Object = dict[str, Any]
T = TypeVar("T")
PATIENCE = 120.0


async def eventually(look: Callable[[], Awaitable[T | None]]) -> T:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await look()
            if found:
                return found
            await asyncio.sleep(0.05)


class OutsideHub:
    def __init__(self, up: HubWithWorkers, outside: frozenset[str]) -> None:
        self.up, self.outside = up, outside
        self.client = up.hub.client("test")
        self.kubeconfig: Object = {}
        self.denied: set[str] = set()
        """What the loops were not allowed to do."""
        self._running: dict[str, ControllersProcess] = {}

    async def ask_for_accounts(self) -> None:
        async def tokens() -> dict[str, str] | None:
            try:
                return await loop_tokens(self.client, sorted(self.outside))
            except Exception:  # the hub has just started
                return None

        server = self.up.hub.server
        authority = server.authority.certificate.decode()
        self.kubeconfig = loop_kubeconfig(server.url, authority, await eventually(tokens))

    def client_of(self, loop: str) -> Client:
        endpoint = rest_config_of(self.kubeconfig, account_of(loop), source="the test")
        return hosting_server_of(endpoint, USER_AGENT).client

    async def start_loop(self, loop: str, *, leader_elect: bool = True) -> ControllersProcess:
        client, config = self.client_of(loop), ControllersConfig((loop,), leader_elect=leader_elect)
        started = await ControllersProcess.start(client, config, new_loop_client=self.client_of)
        self._running[loop] = started
        return started

    async def get(self, kind: GroupVersionResource, name: str, namespace: str = "") -> Object:
        try:
            return await self.client.get(kind, name, namespace)
        except NotFound:
            return {}

    async def close(self) -> None:
        await asyncio.gather(*(each.stop() for each in self._running.values()))


@asynccontextmanager
async def outside_hub(directory: Path, outside: Iterable[str], workers: int = 1) -> AsyncIterator[OutsideHub]:
    settings = ShoalServerSettings(directory, port=0, outside_loops=frozenset(outside))
    given = OutsideHub(await HubWithWorkers.start(settings, InProcessWorkers(workers)), settings.outside_loops)
    try:
        await given.ask_for_accounts()
        yield given
    finally:
        await given.close()
        await given.up.stop()


async def is_refused(request: Awaitable[object]) -> bool:
    try:
        await request
    except Forbidden:
        return True
    return False
