"""Aggregates ClusterRoles. A change of one role recomputes the aggregated roles of its cluster."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.controlplane.roles.decide import outdated
from shoal.kinds.rbac import GROUP
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Loop

Object = dict[str, Any]

ROLES = Kind(GROUP, "v1", "clusterroles", namespaced=False)


def role_loop(client: Client, clock: Clock) -> Loop[str]:
    return Aggregation(client, clock).loop


class Aggregation:
    """Keys are logical clusters. A cluster whose roles were never written is never queued."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self.loop: Loop[str] = Loop("clusterroles", clock, self.reconcile)
        self.loop.sources.append(Reflector(client.at("*"), ROLES, clock, self._changed).run)

    def _changed(self, key: Key, obj: Object | None) -> None:
        self.loop.queue.add(key[0])

    async def reconcile(self, cluster: str) -> None:
        client = self._client.at(cluster)
        try:
            roles, _ = await client.list_all(ROLES)
            for role in outdated(roles):
                await client.update(ROLES, role)
        except NotFound:
            return  # the role or its cluster was deleted: either triggers its own event
