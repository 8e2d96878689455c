"""`shoal explain`: reads the state of the fleet and evaluates it as the scheduler does."""

from __future__ import annotations

from typing import Any

from shoal.client.requests import Client, Kind
from shoal.fleet.explain.decide import Explanation, Verdict, explain
from shoal.fleet.explain.worker import WorkerExplanation, explain_worker
from shoal.fleet.moving.settings import NAME as MOVING
from shoal.fleet.resources import CONFIG_MAPS, LEASES, MANAGED_CLUSTERS, WORKERS
from shoal.kinds import fleet
from shoal.objects.errors import NotFound

__all__ = ["Explanation", "Verdict", "WorkerExplanation", "explain_a_worker", "explain_managed_cluster"]

Object = dict[str, Any]


async def explain_managed_cluster(client: Client, namespace: str, name: str) -> Explanation:
    """Raises NotFound if it does not exist."""
    managed = await client.get(MANAGED_CLUSTERS, name, namespace)
    workers, _ = await client.list_all(WORKERS, fleet.NAMESPACE)
    everybody, _ = await client.list_all(MANAGED_CLUSTERS)
    others = [each for each in everybody if each["metadata"]["uid"] != managed["metadata"]["uid"]]
    return explain(managed, workers, others, await _beside(client, CONFIG_MAPS, fleet.AUTO_WORKERS))


async def explain_a_worker(client: Client, name: str) -> WorkerExplanation:
    """Raises NotFound if it does not exist."""
    await client.get(WORKERS, name, fleet.NAMESPACE)
    workers, _ = await client.list_all(WORKERS, fleet.NAMESPACE)
    everybody, _ = await client.list_all(MANAGED_CLUSTERS)
    lease = await _beside(client, LEASES, fleet.lease_name(name))
    return explain_worker(name, workers, everybody, lease, await _beside(client, CONFIG_MAPS, MOVING))


async def _beside(client: Client, kind: Kind, name: str) -> Object | None:
    """Returns the object of that name in the namespace of Workers, or None."""
    try:
        return await client.get(kind, name, fleet.NAMESPACE)
    except NotFound:
        return None
