"""The tunnel agent of a worker: dials the hub and serves its hosted clusters through the tunnel, nothing else of its
server.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable

from shoal.client.transport import RESTConfig, Unreachable
from shoal.client.upgrade import upgrade
from shoal.clock import Clock
from shoal.fleet.tunnel.frames import PROTOCOL
from shoal.fleet.tunnel.paths import (
    HUB_REQUEST_PREFIX,
    HostedPath,
    local_request,
    parse_hosted_path,
    reject_upgrade,
)
from shoal.fleet.tunnel.raw_connection import Connector
from shoal.fleet.tunnel.worker_end import WorkerTunnel
from shoal.objects.errors import NotFound, StatusError
from shoal.objects.wire import Answer, ByteStream, Handler, Receiver, Request

log = logging.getLogger("shoal.fleet")

Dial = Callable[[Callable[[ByteStream], Receiver]], Awaitable[None]]
"""Opens a connection to the hub and hands it over, as `wire.Upgrade` does at the other end."""

ForeignClusters = Callable[[HostedPath], Handler | None]
"""Returns what answers the requests for a cluster that the worker's own server does not serve; None: it serves it."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""Seconds between attempts, half of that at least: a link that comes back after days is used within seconds."""
STABLE_SECONDS = 10.0
"""After a tunnel that lasted that many seconds the next attempt comes soon."""


def no_hub_requests(request: Request) -> Answer:
    raise NotFound("the server could not find the requested resource")


def no_foreign_clusters(target: HostedPath) -> Handler | None:
    return None


def restrict_to_hosted(
    handler: Handler, hub_requests: Handler, foreign_clusters: ForeignClusters = no_foreign_clusters
) -> Handler:
    """Restricts `handler` to what clients may reach through the hub. `hub_requests` answers requests that the hub makes
    itself: this end of the tunnel is the only way to it.
    """

    def answer(request: Request) -> Answer | Awaitable[Answer]:
        reject_upgrade(request)
        if request.path.startswith(HUB_REQUEST_PREFIX):
            return hub_requests(request)
        foreign = foreign_clusters(parse_hosted_path(request.path))
        return handler(local_request(request)) if foreign is None else foreign(request)

    return answer


class TunnelAgent:
    def __init__(
        self,
        dial: Dial,
        handler: Handler,
        clock: Clock,
        worker: str,
        *,
        connector: Connector | None = None,
        hub_requests: Handler = no_hub_requests,
        foreign_clusters: ForeignClusters = no_foreign_clusters,
        random_float: Callable[[], float] = random.random,
    ) -> None:
        self.name = f"tunnel of {worker}"
        self._dial, self._clock, self._worker, self._random = dial, clock, worker, random_float
        self._handler = restrict_to_hosted(handler, hub_requests, foreign_clusters)
        self._connector = connector

    async def run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            started = self._clock.monotonic()
            tunnel = WorkerTunnel(self._worker, self._handler, self._clock, self._connector)
            try:
                await self._dial(tunnel.start)
                await tunnel.wait_ended()
                message = "tunnel to the hub closed"
            except (StatusError, Unreachable) as error:
                message = f"cannot open tunnel to the hub: {error}"
            finally:
                tunnel.close()
            if self._clock.monotonic() - started >= STABLE_SECONDS:
                pause = FIRST_PAUSE
            # Jitter: workers that lost the same hub do not all reconnect at the same moment.
            delay = pause * (0.5 + self._random() / 2)
            log.info("worker %s: %s; reconnecting in %.1f s", self._worker, message, delay)
            await self._clock.sleep(delay)
            pause = min(pause * 2, LONGEST_PAUSE)


def hub_dialer(hub: RESTConfig, worker: str) -> Dial:
    def dial(start: Callable[[ByteStream], Receiver]) -> Awaitable[None]:
        return upgrade(hub, f"/workers/{worker}/tunnel", PROTOCOL, start)

    return dial


def new_tunnel_agent(
    dial: Dial,
    handler: Handler,
    clock: Clock,
    name: str,
    *,
    connector: Connector | None = None,
    hub_requests: Handler = no_hub_requests,
    foreign_clusters: ForeignClusters = no_foreign_clusters,
) -> TunnelAgent:
    """Keeps a tunnel to the hub, through which it reaches the clusters that the server behind `handler` hosts.
    `connector` takes raw connections to them. `hub_requests` answers the hub itself.
    """
    return TunnelAgent(
        dial,
        handler,
        clock,
        name,
        connector=connector,
        hub_requests=hub_requests,
        foreign_clusters=foreign_clusters,
    )
