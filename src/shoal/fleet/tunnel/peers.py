"""Reaches workers through the hub to which they are connected.

A hub opens one tunnel to each other hub that it needs, when it needs it, and closes it when it has not been used for
some minutes. Which hub has a worker is looked up for each request, so a hub that does not answer, or that has lost the
worker, is an error for that request only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

import orjson

from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.fleet.tunnel.hub_end import HubTunnel, not_connected_error
from shoal.fleet.tunnel.paths import UNREACHABLE_HEADER, HostedPath
from shoal.fleet.tunnel.raw_connection import Connector, SocketHandler
from shoal.objects.errors import StatusError, Unavailable, from_status
from shoal.objects.wire import Answer, ByteStream, Handler, Receiver, Request, Response

log = logging.getLogger("shoal.fleet")

DialHub = Callable[[str, Callable[[ByteStream], Receiver]], Awaitable[None]]
"""Opens a tunnel to the hub at that URL and hands the connection over."""
HubOf = Callable[[str], str]
"""Returns the URL of the hub to which a worker is connected; empty if there is no other hub that has it."""

HUBS_SEGMENT = "hubs"
TUNNEL_PATH = f"/{HUBS_SEGMENT}/tunnel"
MAX_PEERS = 64
"""Hubs to which a hub has a tunnel or opens one."""
PING_SECONDS = 3.0
"""A hub that hangs is noticed after four pings, before its clients have given up."""
MAX_IDLE_PINGS = 100
"""Five minutes."""


class PeerTunnels:
    """Implements `registry.RemoteWorkers`."""

    def __init__(self, dial: DialHub, hub_of: HubOf, clock: Clock) -> None:
        self._dial, self._hub_of, self._clock = dial, hub_of, clock
        self._tunnels: dict[str, asyncio.Task[HubTunnel]] = {}

    def handler_for(self, worker: str) -> Handler:
        url = self._hub_with(worker)

        async def handle(request: Request) -> Answer:
            tunnel = await self._tunnel_to(url, worker)
            answer = await tunnel.handle(request)
            if isinstance(answer, Response) and any(name == UNREACHABLE_HEADER for name, _ in answer.headers):
                raise from_status(orjson.loads(_content(answer)), answer.status)
            return answer

        return handle

    def connector_for(self, worker: str) -> Connector:
        url = self._hub_with(worker)

        async def connect(target: HostedPath) -> SocketHandler:
            tunnel = await self._tunnel_to(url, worker)
            return await tunnel.connector(target)

        return connect

    def connected_hubs(self) -> list[str]:
        return sorted(url for url, task in self._tunnels.items() if task.done())

    def close(self) -> None:
        for task in list(self._tunnels.values()):
            tunnel = _opened_tunnel(task)
            if tunnel is not None:
                tunnel.close()
            task.cancel()
        self._tunnels.clear()

    def _hub_with(self, worker: str) -> str:
        url = self._hub_of(worker)
        if not url:
            raise not_connected_error(worker)
        return url

    async def _tunnel_to(self, url: str, worker: str) -> HubTunnel:
        task = self._tunnels.get(url)
        if task is None:
            if len(self._tunnels) >= MAX_PEERS:
                raise Unavailable("too many connections to other hubs", retry_after=1)
            task = self._tunnels[url] = asyncio.get_running_loop().create_task(self._open(url))
            task.add_done_callback(partial(self._on_opened, url))
        try:
            # A client that goes away does not end what others wait for.
            return await asyncio.shield(task)
        except (Unreachable, StatusError) as error:
            raise Unavailable(f'the hub of worker "{worker}" does not answer', retry_after=1) from error

    async def _open(self, url: str) -> HubTunnel:
        tunnel = HubTunnel(url, self._clock, self._on_lost, "the other hub", MAX_IDLE_PINGS, PING_SECONDS)
        await self._dial(url, tunnel.start)
        log.info("connected to the hub at %s", url)
        return tunnel

    def _on_opened(self, url: str, task: asyncio.Task[HubTunnel]) -> None:
        tunnel = _opened_tunnel(task)
        if tunnel is None or tunnel.is_closed:
            self._forget(url, task)
        if tunnel is None and not task.cancelled():
            log.warning("cannot open a tunnel to the hub at %s: %s", url, task.exception())

    def _on_lost(self, tunnel: HubTunnel) -> None:
        url = tunnel.worker
        task = self._tunnels.get(url)
        if task is not None and _opened_tunnel(task) is tunnel:
            log.info("disconnected from the hub at %s", url)
            self._forget(url, task)

    def _forget(self, url: str, task: asyncio.Task[HubTunnel]) -> None:
        if self._tunnels.get(url) is task:
            del self._tunnels[url]


def _opened_tunnel(task: asyncio.Task[HubTunnel]) -> HubTunnel | None:
    return task.result() if task.done() and not task.cancelled() and task.exception() is None else None


def _content(response: Response) -> bytes:
    return response.body if isinstance(response.body, bytes) else b"".join(response.body)
