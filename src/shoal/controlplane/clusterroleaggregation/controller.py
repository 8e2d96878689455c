"""Aggregates ClusterRoles. A change of one role recomputes the aggregated roles of its cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.kinds.rbac.rbac import GROUP, aggregation_steps
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller
from shoal.runtime.informer import Informer


def roles_to_update(roles: Sequence[Object]) -> Iterator[Object | None]:
    """Yields the roles of one cluster to update, with their new rules, and None after each small step without one. A
    role that aggregates another updated role is corrected by the next reconcile.
    """
    for role in roles:
        if role.get("aggregationRule") is None or "deletionTimestamp" in role["metadata"]:
            continue
        rules = yield from aggregation_steps(role, roles)
        if rules != (role.get("rules") or []):
            yield {**role, "rules": rules}


Object = dict[str, Any]

CLUSTER_ROLES = GroupVersionResource(GROUP, "v1", "clusterroles", namespaced=False)


def new_cluster_role_aggregation_controller(client: Client, clock: Clock) -> Controller[str]:
    return ClusterRoleAggregationReconciler(client, clock).controller


class ClusterRoleAggregationReconciler:
    """Keys are logical clusters. A cluster whose roles were never written is never queued."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self.controller: Controller[str] = Controller("clusterroles", clock, self.reconcile)
        self.controller.watch(Informer(client.in_cluster("*"), CLUSTER_ROLES, clock), self._enqueue_cluster)

    def _enqueue_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        self.controller.queue.add(key[0])

    async def reconcile(self, cluster: str) -> None:
        client = self._client.in_cluster(cluster)
        try:
            roles, _ = await client.list_all(CLUSTER_ROLES)
            for role in roles_to_update(roles):
                if role is not None:
                    await client.update(CLUSTER_ROLES, role)
                else:
                    await asyncio.sleep(0)
        except NotFound:
            return  # the role or its cluster was deleted: either triggers its own event
