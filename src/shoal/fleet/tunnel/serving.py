"""The tunnel agent of a worker: dials the hub and serves its hosted clusters through the tunnel, nothing else of its
server.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable

from shoal.client.transport import Endpoint, Unreachable
from shoal.client.upgrade import upgrade
from shoal.clock import Clock
from shoal.fleet.tunnel.frames import PROTOCOL
from shoal.fleet.tunnel.paths import incoming, refuse_upgrade
from shoal.fleet.tunnel.worker import WorkerEnd
from shoal.objects.errors import StatusError
from shoal.objects.wire import Answer, ByteStream, Handler, Receiver, Request

log = logging.getLogger("shoal.fleet")

Dial = Callable[[Callable[[ByteStream], Receiver]], Awaitable[None]]
"""Opens a connection to the hub and hands it over, as `wire.Upgrade` does at the other end."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""Seconds between attempts, half of that at least: a link that comes back after days is used within seconds."""
STEADY = 10.0
"""After a tunnel that lasted that many seconds the next attempt comes soon."""


def hosted_clusters(handler: Handler) -> Handler:
    """Restricts `handler` to what the hub may reach."""

    def answer(request: Request) -> Answer | Awaitable[Answer]:
        refuse_upgrade(request)
        return handler(incoming(request))

    return answer


class TunnelServer:
    def __init__(
        self, dial: Dial, handler: Handler, clock: Clock, worker: str, dice: Callable[[], float] = random.random
    ) -> None:
        self.name = f"tunnel of {worker}"
        self._dial, self._clock, self._worker, self._dice = dial, clock, worker, dice
        self._handler = hosted_clusters(handler)

    async def run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            began = self._clock.monotonic()
            end = WorkerEnd(self._worker, self._handler, self._clock)
            try:
                await self._dial(end.start)
                await end.ended()
                said = "the tunnel to the hub ended"
            except (StatusError, Unreachable) as error:
                said = f"no tunnel to the hub: {error}"
            finally:
                end.close()
            if self._clock.monotonic() - began >= STEADY:
                pause = FIRST_PAUSE
            # Jitter: workers that lost the same hub do not all reconnect at the same moment.
            rest = pause * (0.5 + self._dice() / 2)
            log.info("worker %s: %s; again in %.1f s", self._worker, said, rest)
            await self._clock.sleep(rest)
            pause = min(pause * 2, LONGEST_PAUSE)


def dial_hub(hub: Endpoint, worker: str) -> Dial:
    def dial(start: Callable[[ByteStream], Receiver]) -> Awaitable[None]:
        return upgrade(hub, f"/workers/{worker}/tunnel", PROTOCOL, start)

    return dial


def serve_tunnel(dial: Dial, handler: Handler, clock: Clock, name: str) -> TunnelServer:
    """Keeps a tunnel to the hub, through which it reaches the clusters that the server behind `handler` hosts."""
    return TunnelServer(dial, handler, clock, name)
