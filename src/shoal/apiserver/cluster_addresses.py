"""Serves logical clusters at addresses of their own: connections that were accepted elsewhere, each for one cluster.

TLS ends here with the cluster's certificate. A request is one for that cluster, whatever its path; nothing else of the
server can be reached there, and only credentials of the cluster are accepted.
"""

from __future__ import annotations

import resource
import socket
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

from shoal.apiserver.http.server import HTTPServer
from shoal.apiserver.http.virtual_host import VirtualHost
from shoal.apiserver.pki.cluster_contexts import ClusterTLSContexts
from shoal.apiserver.server import ServerComponents
from shoal.kinds.core.kubernetes_service import api_server_names
from shoal.objects.errors import NotFound, Unavailable
from shoal.objects.wire import Answer, Handler, Request

MAX_CONNECTIONS = 8_192
"""Connections to all clusters, if the limit of open files allows as many."""
PARTS = 4
"""One cluster may have a quarter of the connections, or what its limits allow if that is less."""
FILES_PER_CONNECTION = 4
"""A connection through a tunnel needs two sockets. The other half of the files is for everything else."""

SocketHandler = Callable[[socket.socket, str, Callable[[], None]], None]
"""Takes over an accepted connection: its socket, the address of the client, and what to call when it has ended."""


def connection_limit() -> int:
    """Returns how many connections to clusters' own addresses the process may have."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files < 0 else max(PARTS, min(MAX_CONNECTIONS, files // FILES_PER_CONNECTION))


class ClusterAddresses:
    def __init__(self, core: ServerComponents, http: HTTPServer, directory: Path, max_connections: int = 0) -> None:
        """`directory` is private to the server. `max_connections` is for all clusters; 0: as many as there are files
        for.
        """
        self._core, self._http = core, http
        self._max_connections = max_connections or connection_limit()
        self._contexts = ClusterTLSContexts(core.keys, directory, core.clock)
        self._hosts: dict[str, VirtualHost] = {}
        self.connection_count = 0
        """Connections to all clusters."""
        core.clusters.on_deleted(self._close)

    async def socket_handler(self, cluster: str) -> SocketHandler:
        """Returns what takes over connections to the cluster. Raises NotFound for a cluster without an address, and
        Unavailable if it has too many connections.
        """
        found = self._core.clusters.get(cluster)
        # No authority is created for a cluster that is being deleted.
        if found is None or found.endpoint is None or (found.terminating and not self._core.keys.ca_bundle(cluster)):
            raise NotFound(f'logical cluster "{cluster}" has no address of its own here')
        host = self._hosts.get(cluster)
        if host is not None:
            self._set_limit(cluster, host)
        if self.connection_count >= self._max_connections or (host is not None and host.is_full):
            raise Unavailable(f'there are too many connections to logical cluster "{cluster}"', retry_after=1)
        context = await self._contexts.context(cluster, found.uid, api_server_names(found.endpoint.host))
        if self._core.clusters.get(cluster) is None:
            raise NotFound(f'logical cluster "{cluster}" has no address of its own here')

        def serve(conn: socket.socket, client: str, on_closed: Callable[[], None]) -> None:
            def count_closed() -> None:
                self.connection_count -= 1
                on_closed()

            self.connection_count += 1
            self._host(cluster).serve(conn, context, client, count_closed)

        return serve

    def _host(self, cluster: str) -> VirtualHost:
        host = self._hosts.get(cluster)
        if host is None:
            other_routes = self._core.paths.extra_routes.names | {"clusters"}
            handler, head_handler = (
                confined_handler(each, cluster, other_routes) for each in (self._http.handler, self._http.head_handler)
            )
            host = self._hosts[cluster] = VirtualHost(
                self._http, handler, head_handler, max(1, self._max_connections // PARTS)
            )
        self._set_limit(cluster, host)
        return host

    def _set_limit(self, cluster: str, host: VirtualHost) -> None:
        part, limit = max(1, self._max_connections // PARTS), self._core.clusters.limits(cluster).connections
        host.max_connections = part if limit is None else min(part, limit)

    def _close(self, cluster: str) -> None:
        self._contexts.forget(cluster)
        host = self._hosts.pop(cluster, None)
        if host is not None:
            host.shut_down()


def confined_handler(handler: Handler, cluster: str, other_routes: Collection[str]) -> Handler:
    """Returns the handler of requests at the cluster's own address. `other_routes` are the first path segments of what
    the server serves beside the API of one cluster.
    """

    def handle(request: Request) -> Answer | Awaitable[Answer]:
        path = request.path
        if not path.startswith("/") or path[1:].partition("/")[0] in other_routes:
            raise NotFound("the server could not find the requested resource")
        confined = Request(
            request.method,
            f"/clusters/{cluster}{path}",
            request.query,
            request.headers,
            request.body,
            request.certificate,
            request.remote_addr,
            request.raw_headers,
            original_path=path,
            at_own_address=True,
            hold=request.hold,
            connection=request.connection,
        )
        return handler(confined)

    return handle
