"""Timeouts and expiration of NodeClaims, and one cluster served with two clients, on a fake clock."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client, GroupVersionResource
from shoal.objects.conditions import get_condition
from shoal.objects.errors import NotFound
from shoal.provision.clusterapi.provider import MACHINE_DEPLOYMENTS
from shoal.provision.management import CAPIClusterRef, SingleCluster, StoreResolver
from shoal.provision.state import NODE_CLAIMS, NODE_CLASSES
from tests.controlplane.world import World, world
from tests.provision.hosted import cluster_objects, node_class, size_objects
from tests.provision.test_crash_recovery import KINDS

Object = dict[str, Any]


async def step_until(given: World, look: Any) -> Any:
    """Small steps, so that batches end and pauses pass."""
    for _ in range(500):
        found = await look()
        if found:
            return found
        given.clock.step(0.05)
        await asyncio.sleep(0.005)
    raise AssertionError(f"it does not happen: {await look()!r}")


@pytest.mark.anyio
async def test_a_node_claim_that_gets_no_machine_is_given_up(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        for obj in cluster_objects("east"):
            await given.client.create(KINDS[obj["kind"]], obj, "default")
        deployment = size_objects("east", "small")[1]  # without its template no Machine comes
        await given.client.create(MACHINE_DEPLOYMENTS, deployment, "default")
        hosted = given.client.in_cluster("default.east")

        await step_until(given, lambda: _created(hosted, NODE_CLASSES, node_class()))
        reference = {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default"}
        spec = {"nodeClassRef": reference, "requirements": []}
        body = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "mine"}, "spec": spec}
        await hosted.create(NODE_CLAIMS, body)

        async def waiting() -> Any:
            return (get_condition(await hosted.get(NODE_CLAIMS, "mine"), "Launched") or {}).get("message")

        assert await step_until(given, waiting) == "waiting for a Machine of MachineDeployment default/east-small"
        claim = await hosted.get(NODE_CLAIMS, "mine")
        assert claim["metadata"]["finalizers"] == ["karpenter.sh/termination"]
        await asyncio.sleep(0.1)  # the loop waits now, by the clock
        given.clock.step(300)
        await step_until(given, lambda: given.is_gone(hosted, NODE_CLAIMS, "mine"))


async def _created(client: Client, kind: GroupVersionResource, obj: Object) -> bool:
    try:
        await client.create(kind, obj)
    except NotFound:
        return False  # the cluster is not there yet
    return True


def test_where_the_machines_of_a_cluster_are() -> None:
    class Nowhere:
        def in_cluster(self, cluster: str) -> str:
            return cluster

    homes = StoreResolver(Nowhere())  # type: ignore[arg-type]
    assert homes.capi_cluster_of("team-a.east.eu") == CAPIClusterRef("team-a", "east.eu")
    assert homes.logical_cluster_of(CAPIClusterRef("team-a", "east.eu")) == "team-a.east.eu"
    assert homes.capi_cluster_of("root") is None
    one = SingleCluster("hosted", "management", "ns", "east")  # type: ignore[arg-type]
    assert one.capi_cluster_of("") == CAPIClusterRef("ns", "east")
    assert one.logical_cluster_of(CAPIClusterRef("ns", "east")) == ""
    assert one.logical_cluster_of(CAPIClusterRef("ns", "west")) is None, (
        "other Clusters of the management cluster are others' business"
    )
