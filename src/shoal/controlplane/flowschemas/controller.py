"""Updates the status of FlowSchemas. A change of a FlowSchema or priority level reconciles all FlowSchemas of its
cluster.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.controlplane.flowschemas.decide import outdated
from shoal.objects.errors import Conflict, NotFound
from shoal.runtime.loop import Loop

Object = dict[str, Any]

GROUP = "flowcontrol.apiserver.k8s.io"
SCHEMAS = Kind(GROUP, "v1", "flowschemas", namespaced=False)
LEVELS = Kind(GROUP, "v1", "prioritylevelconfigurations", namespaced=False)


def flow_schema_loop(client: Client, clock: Clock) -> Loop[str]:
    return FlowSchemas(client, clock).loop


class FlowSchemas:
    """Keys are logical clusters. A cluster without FlowSchemas is never queued."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.loop: Loop[str] = Loop("flowschemas", clock, self.reconcile)
        for kind in (SCHEMAS, LEVELS):
            self.loop.sources.append(Reflector(client.at("*"), kind, clock, self._changed).run)

    def _changed(self, key: Key, obj: Object | None) -> None:
        self.loop.queue.add(key[0])

    async def reconcile(self, cluster: str) -> None:
        client = self._client.at(cluster)
        try:
            levels, _ = await client.list_all(LEVELS)
            schemas, _ = await client.list_all(SCHEMAS)
            for schema in outdated(
                schemas, {level["metadata"]["name"] for level in levels}, rfc3339(self._clock.now())
            ):
                await client.update(SCHEMAS, schema, "status")
        except (NotFound, Conflict):
            return  # a schema or its cluster changed or was deleted: each triggers its own event
