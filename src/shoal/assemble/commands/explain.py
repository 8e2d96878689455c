"""`shoal explain`: reads the state of the fleet and evaluates it as the scheduler does."""

from __future__ import annotations

from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.fleet.explain.decide import ManagedClusterExplanation, WorkerFit, explain
from shoal.fleet.explain.worker import WorkerExplanation, explain_worker
from shoal.fleet.migration.settings import CONFIG_MAP as MOVING
from shoal.fleet.resources import CONFIG_MAPS, LEASES, MANAGED_CLUSTERS, WORKERS
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import NotFound

__all__ = [
    "ManagedClusterExplanation",
    "WorkerExplanation",
    "WorkerFit",
    "explain_managed_cluster",
    "explain_worker_by_name",
]

Object = dict[str, Any]


async def explain_managed_cluster(client: Client, namespace: str, name: str) -> ManagedClusterExplanation:
    """Raises NotFound if it does not exist."""
    managed_cluster = await client.get(MANAGED_CLUSTERS, name, namespace)
    workers, _ = await client.list_all(WORKERS, infrav1.NAMESPACE)
    managed_clusters, _ = await client.list_all(MANAGED_CLUSTERS)
    others = [each for each in managed_clusters if each["metadata"]["uid"] != managed_cluster["metadata"]["uid"]]
    return explain(
        managed_cluster, workers, others, await _get_optional(client, CONFIG_MAPS, infrav1.AUTO_WORKERS_CONFIG_MAP)
    )


async def explain_worker_by_name(client: Client, name: str) -> WorkerExplanation:
    """Raises NotFound if it does not exist."""
    await client.get(WORKERS, name, infrav1.NAMESPACE)
    workers, _ = await client.list_all(WORKERS, infrav1.NAMESPACE)
    managed_clusters, _ = await client.list_all(MANAGED_CLUSTERS)
    lease = await _get_optional(client, LEASES, infrav1.lease_name(name))
    return explain_worker(name, workers, managed_clusters, lease, await _get_optional(client, CONFIG_MAPS, MOVING))


async def _get_optional(client: Client, kind: GroupVersionResource, name: str) -> Object | None:
    """Returns the object of that name in the namespace of Workers, or None."""
    try:
        return await client.get(kind, name, infrav1.NAMESPACE)
    except NotFound:
        return None
