"""Delays follow the clock: machine startup, minReadySeconds, rollout.after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.capi.informers import CLUSTERS, MACHINE_DEPLOYMENTS, MACHINE_SETS, MACHINES
from shoal.capi.providers.embedded.informers import EMBEDDED_CLUSTERS, EMBEDDED_TEMPLATES, NODES
from shoal.clock import rfc3339
from tests.capi.management_cluster import ONE_FILE, condition
from tests.controlplane.world import World, world

Object = dict[str, Any]

KINDS = {
    "Cluster": CLUSTERS,
    "EmbeddedCluster": EMBEDDED_CLUSTERS,
    "EmbeddedMachineTemplate": EMBEDDED_TEMPLATES,
    "MachineDeployment": MACHINE_DEPLOYMENTS,
}


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as place:
        yield place


async def apply(place: World, text: str = ONE_FILE) -> None:
    for obj in yaml.safe_load_all(text):
        obj["metadata"]["namespace"] = "default"
        await place.client.create(KINDS[obj["kind"]], obj, "default")


async def machines(place: World) -> list[Object]:
    return (await place.client.list_all(MACHINES, "default"))[0]


async def in_phase(place: World, phase: str) -> list[Object]:
    found = await machines(place)
    fine = len(found) == 3 and all((machine.get("status") or {}).get("phase") == phase for machine in found)
    return found if fine else []


@pytest.mark.anyio
async def test_a_node_comes_after_the_startup_delay(place: World) -> None:
    await apply(place, ONE_FILE.replace("instanceType: small", "startupDelay: 1m30s"))
    found = await place.eventually(lambda: in_phase(place, "Provisioned"))
    assert found[0]["spec"]["providerID"] == f"embedded://default/{found[0]['metadata']['name']}"
    message = condition(found[0], "InfrastructureReady")
    assert message is not None
    assert message["reason"] == "StartingUp"
    place.clock.step(89)
    assert (await place.client.in_cluster("default.east").list_all(NODES))[0] == []
    place.clock.step(2)
    await place.eventually(lambda: in_phase(place, "Running"))


@pytest.mark.anyio
async def test_a_machine_is_available_after_min_ready_seconds(place: World) -> None:
    await apply(
        place,
        ONE_FILE.replace(
            "      clusterName: east\n      infra", "      minReadySeconds: 30\n      clusterName: east\n      infra"
        ),
    )

    async def waiting() -> bool:
        found = await in_phase(place, "Running")
        states = [condition(machine, "Available") for machine in found]
        return bool(found) and all(state and state["reason"] == "WaitingForMinReadySeconds" for state in states)

    await place.eventually(waiting)
    place.clock.step(31)

    async def available() -> bool:
        deployment = await place.client.get(MACHINE_DEPLOYMENTS, "east-default", "default")
        return bool((deployment.get("status") or {}).get("availableReplicas") == 3)

    await place.eventually(available)


@pytest.mark.anyio
async def test_machines_made_before_rollout_after_are_replaced_after_it(place: World) -> None:
    await apply(place)
    before = {machine["metadata"]["name"] for machine in await place.eventually(lambda: in_phase(place, "Running"))}
    after = rfc3339(place.clock.now() + 60)
    await place.client.merge_patch(
        MACHINE_DEPLOYMENTS, "east-default", {"spec": {"rollout": {"after": after}}}, "default"
    )

    async def observed() -> bool:
        deployment = await place.client.get(MACHINE_DEPLOYMENTS, "east-default", "default")
        return bool((deployment.get("status") or {}).get("observedGeneration") == deployment["metadata"]["generation"])

    await place.eventually(observed)
    assert {machine["metadata"]["name"] for machine in await machines(place)} == before
    place.clock.step(62)

    async def replaced() -> bool:
        found = await in_phase(place, "Running")
        return bool(found) and not before & {machine["metadata"]["name"] for machine in found}

    await place.eventually(replaced)

    async def tidied() -> bool:
        return len((await place.client.list_all(MACHINE_SETS, "default"))[0]) == 1

    await place.eventually(tidied)
