"""The ports of a hub at which clusters have an address of their own.

Every hub of a store listens on the port of every cluster whose status has one. It passes connections to the worker
that hosts the cluster, through its tunnel, or to its own server, and does not look into them: TLS ends at the server of
the cluster. The address of a cluster is decided elsewhere (`fleet/endpoints`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from shoal.apiserver.cache.cacher import CachedObject, CacheEvent, ResourceCache
from shoal.apiserver.cluster_addresses import PARTS, connection_limit
from shoal.apiserver.request.info import ROOT
from shoal.assemble.server.api_server import ApiServer
from shoal.assemble.server.port_listener import ConnectionBudget, PortListener
from shoal.fleet.tunnel import TunnelRegistry
from shoal.fleet.tunnel.paths import HostedPath
from shoal.fleet.tunnel.raw_connection import SocketHandler
from shoal.kinds.fleet import infrav1, logicalcluster
from shoal.kinds.fleet.endpoint import PortRange, endpoint_of
from shoal.objects.errors import NotFound, Unavailable

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

_ENDPOINT_MARKER = b'"endpoint":'


class PortHolder(NamedTuple):
    """A cluster with a port. An empty namespace: a LogicalCluster of the hub itself."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class ClusterPorts:
    def __init__(self, server: ApiServer, tunnels: TunnelRegistry, ports: PortRange, max_connections: int = 0) -> None:
        """Listens on ports in the range only. `max_connections` is for all ports; 0: as many as there are files for."""
        self._server, self._tunnels, self._range = server, tunnels, ports
        self._budget = ConnectionBudget(max_connections or connection_limit())
        self._listeners: dict[int, PortListener] = {}
        self._holders: dict[int, dict[PortHolder, tuple[str, str]]] = {}
        """The clusters whose status has a port, with their age: the oldest one has it."""
        self._port_of: dict[PortHolder, int] = {}
        self._managed = server.core.cache.resource_cache(infrav1.GROUP, "managedclusters")
        self._logical = server.core.cache.resource_cache(logicalcluster.GROUP, logicalcluster.PLURAL)
        self._unsubscribe: list[Callable[[], None]] = []

    def start(self) -> None:
        for kind in (self._managed, self._logical):
            for entry in kind.table(ROOT).select(""):
                self._update(entry, entry)
            handler = self._on_event
            kind.add_event_handler(ROOT, handler)
            self._unsubscribe.append(partial(_remove_handler, kind, handler))

    def close(self) -> None:
        """Stops to listen. Open connections go on until the tunnels and the server end."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe.clear()
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()

    @property
    def open_connections(self) -> int:
        return self._budget.open_connections

    def is_listening(self, port: int) -> bool:
        listener = self._listeners.get(port)
        return listener is not None and listener.is_listening

    def _on_event(self, event: CacheEvent) -> None:
        self._update(event.latest, event.new)

    def _update(self, entry: CachedObject, new: CachedObject | None) -> None:
        holder = PortHolder(entry.namespace, entry.name)
        before = self._port_of.get(holder)
        # Most clusters have no port, and the bytes show it without decoding.
        obj = new.object() if new is not None and _ENDPOINT_MARKER in new.data else None
        endpoint = endpoint_of(obj) if obj is not None else None
        port = endpoint.port if endpoint is not None and endpoint.port in self._range else None
        if before is not None and before != port:
            del self._port_of[holder], self._holders[before][holder]
            self._listen_or_close(before)
        if port is not None and obj is not None:
            metadata = obj["metadata"]
            self._port_of[holder] = port
            age = metadata.get("creationTimestamp", ""), metadata.get("uid", "")
            self._holders.setdefault(port, {})[holder] = age
            self._listen_or_close(port)

    def _listen_or_close(self, port: int) -> None:
        listener = self._listeners.get(port)
        if self._holders.get(port):
            if listener is None:
                listener = self._listeners[port] = PortListener(
                    self._server.settings.host,
                    port,
                    partial(self._handler_for, port),
                    self._budget,
                    max(1, self._budget.limit // PARTS),
                )
                listener.start()
            return
        self._holders.pop(port, None)
        if listener is not None:
            del self._listeners[port]
            listener.close()

    async def _handler_for(self, port: int) -> SocketHandler:
        """Returns what takes over a new connection: a cluster that has moved is found at its new worker."""
        holders = self._holders.get(port)
        if not holders:
            raise NotFound("no cluster has this port any more")
        holder = min(holders, key=holders.__getitem__)
        if not holder.namespace:
            return await self._server.cluster_addresses.socket_handler(holder.name)
        entry = self._managed.get(ROOT, *holder)
        worker = infrav1.assigned_worker(entry.object()) if entry is not None else ""
        if not worker:
            raise Unavailable(f"ManagedCluster {holder} is not assigned to a worker yet")
        return await self._tunnels.connector_for(worker)(HostedPath(holder.namespace, holder.name, ""))


def _remove_handler(kind: ResourceCache, handler: Callable[[CacheEvent], None]) -> None:
    kind.remove_event_handler(ROOT, handler)
