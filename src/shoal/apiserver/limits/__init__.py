"""The limits of each logical cluster: what it may store, and how many watches and connections it may hold."""

from __future__ import annotations

from shoal.apiserver.cache.cacher import WatchCache
from shoal.apiserver.limits.open_requests import OpenCounter
from shoal.apiserver.limits.refusals import Refusals
from shoal.apiserver.limits.storage_limits import StorageLimits
from shoal.apiserver.registry.clusters import LogicalCluster
from shoal.objects.errors import TooManyRequests
from shoal.objects.wire import ClientConnection
from shoal.store.interface import Store


class ServerLimits:
    def __init__(self, cache: WatchCache, store: Store) -> None:
        self.refusals = Refusals()
        self.storage = StorageLimits(cache, store, self.refusals)
        self.watches = OpenCounter("watches", self.refusals)
        self.connections = OpenCounter("connections", self.refusals)

    def count_connection(self, connection: ClientConnection, cluster: LogicalCluster) -> None:
        """Counts the connection for the cluster, and no more for the one before. Raises TooManyRequests, and the
        connection ends with that answer.
        """
        try:
            self.connections.check(cluster.name, cluster.limits.connections)
        except TooManyRequests:
            connection.is_refused = True
            raise
        connection.close()
        self.connections.add(cluster.name)
        connection.cluster, connection.on_close = cluster.name, self.connections.remove

    def forget(self, cluster: str) -> None:
        """Forgets a deleted logical cluster. What is open there ends by itself."""
        self.refusals.forget(cluster)
