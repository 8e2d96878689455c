"""Writes conditions into the status of workload Clusters. Each controller writes its own; Ready is recomputed in the
same write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.kinds import workload
from shoal.objects.errors import Conflict, NotFound
from shoal.sync.conditions import Condition, with_conditions
from shoal.sync.resources import CLUSTERS

Object = dict[str, Any]

Change = Callable[[Object], Object]

TRIES = 5


class Reporter:
    def __init__(self, client: Client, clock: Clock, mode: str = workload.PUSH) -> None:
        """`mode` is the sync mode of Clusters that set none. It decides which conditions Ready depends on."""
        self._client, self._clock, self._mode = client, clock, mode

    async def cluster(
        self,
        name: str,
        uid: str,
        conditions: Sequence[Condition],
        synced: Sequence[str] | None = None,
        heartbeat: str = "",
    ) -> None:
        """Updates the workload Cluster, unless it was recreated with another uid."""

        def changed(obj: Object) -> Object:
            if obj["metadata"]["uid"] != uid:
                return obj
            new = self._with(obj, conditions)
            if synced is not None and list(synced) != ((new.get("status") or {}).get("syncedResources") or []):
                new = {**new, "status": {**(new.get("status") or {}), "syncedResources": list(synced)}}
            if heartbeat:
                new = {**new, "status": {**(new.get("status") or {}), "lastSyncerHeartbeatTime": heartbeat}}
            status, reason, message = workload.summary(new, workload.parts_of(new, self._mode))
            return self._with(new, [Condition(workload.READY, status, reason, message)])

        await update_status(self._client, CLUSTERS, name, "", changed)

    def _with(self, obj: Object, conditions: Sequence[Condition]) -> Object:
        return with_conditions(obj, conditions, rfc3339(self._clock.now()))


async def update_status(client: Client, kind: Kind, name: str, namespace: str, changed: Change) -> None:
    """Writes the result of `mutate`, with retries on conflict. Nothing is written if it returns the identical object or
    the object is gone.
    """
    for attempt in range(TRIES):
        try:
            obj = await client.get(kind, name, namespace)
            new = changed(obj)
            if new is obj:
                return
            await client.update(kind, new, "status")
        except NotFound:
            return
        except Conflict:
            if attempt == TRIES - 1:
                raise
            continue
        return
