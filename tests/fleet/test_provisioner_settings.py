"""The provisioner settings of a ManagedCluster: they reach the provisioner of its worker and change there live."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.client.rest import GroupVersionResource
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.informers import EMBEDDED_CLUSTERS
from shoal.objects.errors import Invalid, StatusError
from shoal.provision.settings import DEFAULT_SETTINGS, ProvisionerSettings, settings_from_spec
from shoal.provision.state import NODE_CLAIMS, NODE_CLASSES, NODE_POOLS, PODS
from tests.fleet.fleets import eventually, managed, phase
from tests.provision.hosted import node_class, node_pool, pod

Object = dict[str, Any]
EVENTS = GroupVersionResource("", "v1", "events", namespaced=True)
MIN_VALUES = {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 9}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, DEFAULT_SETTINGS),
        ({}, DEFAULT_SETTINGS),
        ({"planner": "karpenter", "later": "x"}, ProvisionerSettings(planner="karpenter")),
        (
            {"batchIdleDuration": "250ms", "batchMaxDuration": "1m30s"},
            ProvisionerSettings(batch_idle_seconds=0.25, batch_max_seconds=90.0),
        ),
        ({"batchIdleDuration": "0s"}, ProvisionerSettings(batch_idle_seconds=0.0)),
        (
            {"preferencePolicy": "Ignore", "minValuesPolicy": "BestEffort"},
            ProvisionerSettings(preference_policy="Ignore", min_values_policy="BestEffort"),
        ),
        (
            {"featureGates": {"nodeRepair": True, "spotToSpotConsolidation": True, "later": True}},
            ProvisionerSettings(node_repair=True, spot_to_spot_consolidation=True),
        ),
    ],
)
def test_settings_come_from_the_spec(spec: Object | None, expected: ProvisionerSettings) -> None:
    assert settings_from_spec(spec) == expected


@pytest.fixture
async def up(tmp_path: Path) -> AsyncIterator[HubWithWorkers]:
    up = await HubWithWorkers.start(ShoalServerSettings(tmp_path / "data", port=0), InProcessWorkers(1))
    yield up
    await up.stop()


@pytest.mark.anyio
async def test_a_policy_changes_while_the_cluster_runs(up: HubWithWorkers) -> None:
    hub, own = up.hub.client("test"), up.workers[0].shoal.client("test")
    inside = own.in_cluster("default.east")
    chosen = {"planner": "karpenter", "featureGates": {"nodeRepair": True}}
    await hub.create(MANAGED_CLUSTERS, managed("east", nodes=0, provisioner=chosen), "default")

    async def is_running() -> bool:
        return phase(await hub.get(MANAGED_CLUSTERS, "east", "default")) == "Running"

    async def at_worker() -> object:
        return (await own.get(EMBEDDED_CLUSTERS, "east", "default"))["spec"].get("provisioner")

    async def is_refused() -> bool:
        events, _ = await inside.list_all(EVENTS, "default")
        return any("minValues requirement is not met" in each["message"] for each in events)

    async def is_bought() -> bool:
        return len((await inside.list_all(NODE_CLAIMS))[0]) == 1

    async def is_default_again() -> bool:
        return await at_worker() is None

    await eventually(is_running)
    assert await at_worker() == chosen
    await inside.create(NODE_CLASSES, node_class())
    await inside.create(NODE_POOLS, node_pool(requirements=[MIN_VALUES]))
    await inside.create(PODS, pod("one", "1"), "default")
    await eventually(is_refused)
    assert not await is_bought()
    patch = {"provisioner": {"minValuesPolicy": "BestEffort", "featureGates": None}}
    await hub.merge_patch(MANAGED_CLUSTERS, "east", {"spec": patch}, "default")
    await eventually(is_bought)
    assert await at_worker() == {"planner": "karpenter", "minValuesPolicy": "BestEffort"}
    await hub.merge_patch(MANAGED_CLUSTERS, "east", {"spec": {"provisioner": None}}, "default")
    await eventually(is_default_again)
    for wrong in ({"planner": "fast"}, {"batchIdleDuration": "soon"}, {"featureGates": {"nodeRepair": "yes"}}):
        with pytest.raises(StatusError, match=r"spec\.provisioner"):
            await hub.merge_patch(MANAGED_CLUSTERS, "east", {"spec": {"provisioner": wrong}}, "default")
    with pytest.raises(Invalid, match="run shoal provisioner for it"):
        await hub.create(
            MANAGED_CLUSTERS, managed("west", infrastructure="kind", provisioner={"planner": "karpenter"}), "default"
        )
