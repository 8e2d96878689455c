"""Routes requests to workers: in this process, through the tunnel that a worker keeps to the hub, or by another hub to
which the worker is connected.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from shoal.clock import Clock, SystemClock
from shoal.fleet.tunnel.agent import ForeignClusters, no_foreign_clusters, no_hub_requests, restrict_to_hosted
from shoal.fleet.tunnel.disclosure import Disclosure
from shoal.fleet.tunnel.frames import PROTOCOL
from shoal.fleet.tunnel.hub_end import HubTunnel, not_connected_error
from shoal.fleet.tunnel.paths import (
    HostedPath,
    forwarded_request,
    managed_cluster_not_found,
    parse_hosted_path,
    reject_upgrade,
)
from shoal.fleet.tunnel.raw_connection import Connector
from shoal.objects.errors import MethodNotSupported, NotFound, NotImplementedHere, StatusError, Unavailable
from shoal.objects.names import is_dns1123_subdomain
from shoal.objects.wire import Answer, ByteStream, Handler, Receiver, Request, Upgrade

log = logging.getLogger("shoal.fleet")

WORKERS_SEGMENT = "workers"

WorkerOf = Callable[[str, str], str | None]
"""Returns the worker of a ManagedCluster by namespace and name: empty before it has one, None if there is no such
cluster.
"""


class ConnectedWorker(NamedTuple):
    handler: Handler
    connector: Connector | None


class RemoteWorkers(Protocol):
    """Reaches workers that are connected to other hubs."""

    def handler_for(self, worker: str) -> Handler: ...

    def connector_for(self, worker: str) -> Connector: ...


class TunnelRegistry:
    """The newest connection of a worker is used."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._workers: dict[str, ConnectedWorker] = {}
        self._tunnels: dict[str, HubTunnel] = {}
        self.change_handlers: list[Callable[[str], None]] = []
        """Called with the name of a worker that was connected or disconnected."""
        self.remote_workers: RemoteWorkers | None = None
        """Set if there are other hubs."""

    def register(
        self,
        worker: str,
        handler: Handler,
        *,
        connector: Connector | None = None,
        hub_requests: Handler = no_hub_requests,
        foreign_clusters: ForeignClusters = no_foreign_clusters,
    ) -> Callable[[], None]:
        """Registers a worker in this process by its server's handler, by what takes raw connections to its hosted
        clusters, by what answers the hub itself and by what answers for clusters that its server does not serve.
        Returns a function that unregisters it.
        """
        connected = ConnectedWorker(restrict_to_hosted(handler, hub_requests, foreign_clusters), connector)
        self._replace(worker, connected, None)
        return lambda: self._unregister(worker, connected)

    def handler_for(self, worker: str) -> Handler:
        if self.remote_workers is not None and worker not in self._workers:
            return self.remote_workers.handler_for(worker)
        return self.local_handler_for(worker)

    def connector_for(self, worker: str) -> Connector:
        if self.remote_workers is not None and worker not in self._workers:
            return self.remote_workers.connector_for(worker)
        return self.local_connector_for(worker)

    def local_handler_for(self, worker: str) -> Handler:
        """For a worker that is connected to this hub."""
        return self._connected_worker(worker).handler

    def local_connector_for(self, worker: str) -> Connector:
        connector = self._connected_worker(worker).connector
        if connector is None:
            raise NotImplementedHere(f'worker "{worker}" does not accept connections to hosted clusters')
        return connector

    def _connected_worker(self, worker: str) -> ConnectedWorker:
        connected = self._workers.get(worker)
        if connected is None:
            raise not_connected_error(worker)
        return connected

    def connected_workers(self) -> list[str]:
        return sorted(self._workers)

    def is_connected(self, worker: str) -> bool:
        return worker in self._workers

    def accept(self, request: Request) -> Answer:
        """Accepts the tunnel of a worker. The caller has authorized it."""
        worker = tunnel_worker(request.path)
        check_tunnel_upgrade(request)

        def start(stream: ByteStream) -> Receiver:
            end = HubTunnel(worker, self._clock, self._on_tunnel_lost)
            receiver = end.start(stream)
            self._replace(worker, ConnectedWorker(end.handle, end.connector), end)
            log.info("worker %s connected from %s", worker, request.remote_addr)
            return receiver

        return Upgrade(PROTOCOL, start)

    def disconnect(self, worker: str) -> None:
        """Closes the tunnel of a worker with everything that goes through it. A new connection is authorized again."""
        hub_tunnel = self._tunnels.get(worker)
        if hub_tunnel is not None:
            log.warning("disconnecting worker %s", worker)
            hub_tunnel.close()

    def close(self) -> None:
        for hub_tunnel in list(self._tunnels.values()):
            hub_tunnel.close()
        self._workers.clear()

    def _replace(self, worker: str, connected: ConnectedWorker, hub_tunnel: HubTunnel | None) -> None:
        self._workers[worker] = connected
        previous = self._tunnels.pop(worker, None)
        if hub_tunnel is not None:
            self._tunnels[worker] = hub_tunnel
        if previous is not None:
            log.warning("worker %s reconnected: closing its previous tunnel", worker)
            previous.close()
        self._on_change(worker)

    def _on_tunnel_lost(self, hub_tunnel: HubTunnel) -> None:
        if self._tunnels.get(hub_tunnel.worker) is hub_tunnel:
            log.info("worker %s disconnected", hub_tunnel.worker)
            del self._tunnels[hub_tunnel.worker]
            del self._workers[hub_tunnel.worker]
            self._on_change(hub_tunnel.worker)

    def _unregister(self, worker: str, connected: ConnectedWorker) -> None:
        if self._workers.get(worker) is connected:
            del self._workers[worker]
            self._on_change(worker)

    def _on_change(self, worker: str) -> None:
        for handler in self.change_handlers:
            handler(worker)


def check_tunnel_upgrade(request: Request) -> None:
    """Rejects a request that does not ask for a tunnel."""
    if request.method not in ("GET", "POST"):
        raise MethodNotSupported("the server does not allow this method on the requested resource")
    protocol = request.headers.get("upgrade", "")
    if protocol.lower() != PROTOCOL:
        suffix = f", not {protocol[:40]}" if protocol else ""
        raise StatusError(f"a tunnel requires an upgrade to {PROTOCOL}{suffix}", code=426, reason="UpgradeRequired")


def tunnel_worker(path: str) -> str:
    """Returns the worker of `/workers/<name>/tunnel`."""
    parts = path.split("/")
    if len(parts) != 4 or parts[1] != WORKERS_SEGMENT or parts[3] != "tunnel" or is_dns1123_subdomain(parts[2]):
        raise NotFound("the server could not find the requested resource")
    return parts[2]


def managed_cluster_route(
    tunnels: TunnelRegistry,
    worker_of: WorkerOf,
    check_credential: Callable[[Request], None],
    disclosure: Disclosure | None = None,
) -> Handler:
    """Forwards requests for stable addresses to the workers that host the clusters. Authenticates nobody.
    `check_credential` raises an error for a credential that a worker must not get. Without `disclosure` everybody
    learns why a cluster does not answer.
    """

    def answer(request: Request) -> Answer | Awaitable[Answer]:
        check_credential(request)
        target = parse_hosted_path(request.path)
        reject_upgrade(request)
        try:
            worker = hosting_worker(target, worker_of)
            pending = tunnels.handler_for(worker)(forwarded_request(request, target))
        except StatusError as error:
            if disclosure is None:
                raise
            return disclosure.answer_unreachable(request, target, error)
        return pending if disclosure is None else disclosure.observe(request, target, pending)

    return answer


def hosting_worker(target: HostedPath, worker_of: WorkerOf) -> str:
    worker = worker_of(target.namespace, target.name)
    if worker is None:
        raise managed_cluster_not_found(target.name)
    if not worker:
        raise Unavailable(
            f"ManagedCluster {target.namespace}/{target.name} is not assigned to a worker yet", retry_after=1
        )
    return worker
