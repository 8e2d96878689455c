"""`shoal explain`: what the API says of the fleet, looked at as the scheduler does."""

from __future__ import annotations

from shoal.client.requests import Client
from shoal.fleet.explain.decide import Explanation, Verdict, explain
from shoal.fleet.resources import CONFIG_MAPS, MANAGED_CLUSTERS, WORKERS
from shoal.kinds import fleet
from shoal.objects.errors import NotFound

__all__ = ["Explanation", "Verdict", "explain_managed_cluster"]


async def explain_managed_cluster(client: Client, namespace: str, name: str) -> Explanation:
    """NotFound where there is none of that name."""
    managed = await client.get(MANAGED_CLUSTERS, name, namespace)
    workers, _ = await client.list_all(WORKERS, fleet.NAMESPACE)
    everybody, _ = await client.list_all(MANAGED_CLUSTERS)
    others = [each for each in everybody if each["metadata"]["uid"] != managed["metadata"]["uid"]]
    try:
        config = await client.get(CONFIG_MAPS, fleet.AUTO_WORKERS, fleet.NAMESPACE)
    except NotFound:
        config = None
    return explain(managed, workers, others, config)
