"""Updates the status of FlowSchemas. A change of a FlowSchema or priority level reconciles all FlowSchemas of its
cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.kinds.flowcontrol.bootstrap import dangling_condition
from shoal.objects.errors import Conflict, NotFound
from shoal.runtime.controller import Controller
from shoal.runtime.informer import Informer


def schemas_to_update(schemas: Iterable[Object], levels: Collection[str], now: str) -> list[Object]:
    """Returns the FlowSchemas of one cluster whose condition is wrong, with the right one."""
    result = []
    for schema in schemas:
        name = schema["spec"]["priorityLevelConfiguration"]["name"]
        condition = dangling_condition(name, name in levels)
        conditions = (schema.get("status") or {}).get("conditions") or []
        current: Object = next((each for each in conditions if each.get("type") == condition["type"]), {})
        if any(current.get(field) != value for field, value in condition.items()):
            since = now if current.get("status") != condition["status"] else current.get("lastTransitionTime") or now
            others = [each for each in conditions if each is not current]
            result.append({**schema, "status": {"conditions": [*others, {**condition, "lastTransitionTime": since}]}})
    return result


Object = dict[str, Any]

GROUP = "flowcontrol.apiserver.k8s.io"
FLOW_SCHEMAS = GroupVersionResource(GROUP, "v1", "flowschemas", namespaced=False)
PRIORITY_LEVELS = GroupVersionResource(GROUP, "v1", "prioritylevelconfigurations", namespaced=False)


def new_flow_schema_controller(client: Client, clock: Clock) -> Controller[str]:
    return FlowSchemaReconciler(client, clock).controller


class FlowSchemaReconciler:
    """Keys are logical clusters. A cluster without FlowSchemas is never queued."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.controller: Controller[str] = Controller("flowschemas", clock, self.reconcile)
        for kind in (FLOW_SCHEMAS, PRIORITY_LEVELS):
            self.controller.watch(Informer(client.in_cluster("*"), kind, clock), self._enqueue_cluster)

    def _enqueue_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        self.controller.queue.add(key[0])

    async def reconcile(self, cluster: str) -> None:
        client = self._client.in_cluster(cluster)
        try:
            levels, _ = await client.list_all(PRIORITY_LEVELS)
            schemas, _ = await client.list_all(FLOW_SCHEMAS)
            for schema in schemas_to_update(
                schemas, {level["metadata"]["name"] for level in levels}, rfc3339(self._clock.now())
            ):
                await client.update(FLOW_SCHEMAS, schema, "status")
        except (NotFound, Conflict):
            return  # a schema or its cluster changed or was deleted: each triggers its own event
