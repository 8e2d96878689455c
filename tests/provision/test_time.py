"""Timeouts and expiration of NodeClaims, and one cluster served with two clients, on a fake clock."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal.client.requests import Client, Kind
from shoal.objects.conditions import get_condition
from shoal.objects.errors import NotFound
from shoal.provision.clusterapi.provider import DEPLOYMENTS
from shoal.provision.homes import Home, OneHome, StoreHomes
from shoal.provision.view import CLAIMS, CLASSES
from tests.controlplane.world import World, world
from tests.provision.hosted import cluster_objects, node_class, size_objects
from tests.provision.test_crashes import KINDS

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
        await given.client.create(DEPLOYMENTS, deployment, "default")
        hosted = given.client.at("default.east")

        await step_until(given, lambda: _created(hosted, CLASSES, node_class()))
        reference = {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default"}
        spec = {"nodeClassRef": reference, "requirements": []}
        body = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "mine"}, "spec": spec}
        await hosted.create(CLAIMS, body)

        async def waiting() -> Any:
            return (get_condition(await hosted.get(CLAIMS, "mine"), "Launched") or {}).get("message")

        assert await step_until(given, waiting) == "waiting for a Machine of MachineDeployment default/east-small"
        claim = await hosted.get(CLAIMS, "mine")
        assert claim["metadata"]["finalizers"] == ["karpenter.sh/termination"]
        await asyncio.sleep(0.1)  # the loop waits now, by the clock
        given.clock.step(300)
        await step_until(given, lambda: given.gone(hosted, CLAIMS, "mine"))


async def _created(client: Client, kind: Kind, obj: Object) -> bool:
    try:
        await client.create(kind, obj)
    except NotFound:
        return False  # the cluster is not there yet
    return True


def test_where_the_machines_of_a_cluster_are() -> None:
    class Nowhere:
        def at(self, cluster: str) -> str:
            return cluster

    homes = StoreHomes(Nowhere())  # type: ignore[arg-type]
    assert homes.of("team-a.east.eu") == Home("team-a", "east.eu")
    assert homes.cluster(Home("team-a", "east.eu")) == "team-a.east.eu"
    assert homes.of("root") is None
    one = OneHome("hosted", "management", "ns", "east")  # type: ignore[arg-type]
    assert one.of("") == Home("ns", "east")
    assert one.cluster(Home("ns", "east")) == ""
    assert one.cluster(Home("ns", "west")) is None, "other Clusters of the management cluster are others' business"
