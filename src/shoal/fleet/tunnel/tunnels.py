"""Routes requests to workers: in this process, or through the tunnel that a worker keeps to the hub."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from shoal.clock import Clock, SystemClock
from shoal.fleet.tunnel.frames import PROTOCOL
from shoal.fleet.tunnel.hub import HubEnd, not_connected
from shoal.fleet.tunnel.paths import hosted, outgoing, refuse_upgrade, unknown
from shoal.fleet.tunnel.serving import hosted_clusters
from shoal.objects.errors import MethodNotSupported, NotFound, StatusError, Unavailable
from shoal.objects.names import is_dns1123_subdomain
from shoal.objects.wire import Answer, ByteStream, Handler, Receiver, Request, Upgrade

log = logging.getLogger("shoal.fleet")

SEGMENT = "workers"

WorkerOf = Callable[[str, str], str | None]
"""Returns the worker of a ManagedCluster by namespace and name: empty before it has one, None if there is no such
cluster.
"""


class Tunnels:
    """The newest connection of a worker is used."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._handlers: dict[str, Handler] = {}
        self._ends: dict[str, HubEnd] = {}

    def register(self, worker: str, handler: Handler) -> Callable[[], None]:
        """Registers a worker in this process by its server's handler. Returns a function that unregisters it."""
        inside = hosted_clusters(handler)
        self._replace(worker, inside, None)
        return lambda: self._forget(worker, inside)

    def handler(self, worker: str) -> Handler:
        found = self._handlers.get(worker)
        if found is None:
            raise not_connected(worker)
        return found

    def connected(self) -> list[str]:
        return sorted(self._handlers)

    def accept(self, request: Request) -> Answer:
        """Accepts the tunnel of a worker. The caller has authorized it."""
        worker = tunnel_worker(request.path)
        if request.method not in ("GET", "POST"):
            raise MethodNotSupported("the server does not allow this method on the requested resource")
        wanted = request.headers.get("upgrade", "")
        if wanted.lower() != PROTOCOL:
            said = f", not {wanted[:40]}" if wanted else ""
            raise StatusError(f"a tunnel takes an upgrade to {PROTOCOL}{said}", code=426, reason="UpgradeRequired")

        def start(stream: ByteStream) -> Receiver:
            end = HubEnd(worker, self._clock, self._lost)
            receiver = end.start(stream)
            self._replace(worker, end.handle, end)
            log.info("worker %s is connected from %s", worker, request.remote)
            return receiver

        return Upgrade(PROTOCOL, start)

    def disconnect(self, worker: str) -> None:
        """Closes the tunnel of a worker with everything that goes through it. A new connection is authorized again."""
        end = self._ends.get(worker)
        if end is not None:
            log.warning("worker %s is cut off", worker)
            end.close()

    def close(self) -> None:
        for end in list(self._ends.values()):
            end.close()
        self._handlers.clear()

    def _replace(self, worker: str, handler: Handler, end: HubEnd | None) -> None:
        self._handlers[worker] = handler
        older = self._ends.pop(worker, None)
        if end is not None:
            self._ends[worker] = end
        if older is not None:
            log.warning("worker %s connected again: its older tunnel is closed", worker)
            older.close()

    def _lost(self, end: HubEnd) -> None:
        if self._ends.get(end.worker) is end:
            log.info("worker %s is not connected any more", end.worker)
            del self._ends[end.worker]
            del self._handlers[end.worker]

    def _forget(self, worker: str, handler: Handler) -> None:
        if self._handlers.get(worker) is handler:
            del self._handlers[worker]


def tunnel_worker(path: str) -> str:
    """Returns the worker of `/workers/<name>/tunnel`."""
    parts = path.split("/")
    if len(parts) != 4 or parts[1] != SEGMENT or parts[3] != "tunnel" or is_dns1123_subdomain(parts[2]):
        raise NotFound("the server could not find the requested resource")
    return parts[2]


def managed_cluster_route(tunnels: Tunnels, worker_of: WorkerOf) -> Handler:
    """Forwards requests for stable addresses to the workers that host the clusters. Authenticates nobody."""

    def answer(request: Request) -> Answer | Awaitable[Answer]:
        target = hosted(request.path)
        worker = worker_of(target.namespace, target.name)
        if worker is None:
            raise unknown(target.name)
        refuse_upgrade(request)
        if not worker:
            raise Unavailable(
                f"ManagedCluster {target.namespace}/{target.name} is not assigned to a worker yet", retry_after=1
            )
        return tunnels.handler(worker)(outgoing(request, target))

    return answer
