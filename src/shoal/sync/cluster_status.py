"""Writes conditions into the status of workload Clusters. Each controller writes its own; Ready is recomputed in the
same write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import Conflict, NotFound
from shoal.sync.conditions import SyncCondition, with_conditions
from shoal.sync.resources import CLUSTERS

Object = dict[str, Any]

Mutate = Callable[[Object], Object]

MAX_ATTEMPTS = 5


class ClusterStatusWriter:
    def __init__(self, client: Client, clock: Clock, mode: str = workloadcluster.PUSH) -> None:
        """`mode` is the sync mode of Clusters that set none. It decides which conditions Ready depends on."""
        self._client, self._clock, self._mode = client, clock, mode

    async def update(
        self,
        name: str,
        uid: str,
        conditions: Sequence[SyncCondition],
        synced_resources: Sequence[str] | None = None,
        heartbeat: str = "",
    ) -> None:
        """Updates the workload Cluster, unless it was recreated with another uid."""

        def mutate(obj: Object) -> Object:
            if obj["metadata"]["uid"] != uid:
                return obj
            new = self._with_conditions(obj, conditions)
            if synced_resources is not None and list(synced_resources) != (
                (new.get("status") or {}).get("syncedResources") or []
            ):
                new = {**new, "status": {**(new.get("status") or {}), "syncedResources": list(synced_resources)}}
            if heartbeat:
                new = {**new, "status": {**(new.get("status") or {}), "lastSyncerHeartbeatTime": heartbeat}}
            status, reason, message = workloadcluster.ready_condition(
                new, workloadcluster.ready_condition_types(new, self._mode)
            )
            return self._with_conditions(new, [SyncCondition(workloadcluster.READY, status, reason, message)])

        await update_status(self._client, CLUSTERS, name, "", mutate)

    def _with_conditions(self, obj: Object, conditions: Sequence[SyncCondition]) -> Object:
        return with_conditions(obj, conditions, rfc3339(self._clock.now()))


async def update_status(client: Client, gvr: GroupVersionResource, name: str, namespace: str, mutate: Mutate) -> None:
    """Writes the result of `mutate`, with retries on conflict. Nothing is written if it returns the identical object or
    the object is gone.
    """
    for attempt in range(MAX_ATTEMPTS):
        try:
            obj = await client.get(gvr, name, namespace)
            new = mutate(obj)
            if new is obj:
                return
            await client.update(gvr, new, "status")
        except NotFound:
            return
        except Conflict:
            if attempt == MAX_ATTEMPTS - 1:
                raise
            continue
        return
