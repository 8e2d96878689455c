"""The limits of a ManagedCluster reach its logical cluster at the worker, and change there while it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.client.rest import GroupVersionResource
from shoal.fleet.resources import LOGICAL_CLUSTERS, MANAGED_CLUSTERS
from shoal.kinds.limits import DEFAULT_LIMITS
from shoal.objects.errors import Forbidden, Invalid
from tests.fleet.fleets import condition, eventually, managed, phase

pytestmark = pytest.mark.anyio

Object = dict[str, Any]
CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps", namespaced=True)


@pytest.fixture
async def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HubWithWorkers]:
    monkeypatch.setattr("shoal.assemble.server.limit_conditions.INTERVAL_SECONDS", 0.05)
    settings = ShoalServerSettings(
        tmp_path / "data", port=0, cluster_limits=DEFAULT_LIMITS._replace(objects=50, bytes=1 << 30)
    )
    up = await HubWithWorkers.start(settings, InProcessWorkers(1))
    yield up
    await up.stop()


async def test_limits_reach_the_worker_and_change_there(up: HubWithWorkers) -> None:
    hub, own = up.hub.client("test"), up.workers[0].shoal.client("test")
    inside = own.in_cluster("default.east")
    limits = {"objects": 30, "bytes": "10Mi"}
    await hub.create(MANAGED_CLUSTERS, managed("east", limits=limits), "default")

    async def is_running() -> bool:
        return phase(await hub.get(MANAGED_CLUSTERS, "east", "default")) == "Running"

    async def fill(start: int) -> int:
        for number in range(start, 200):
            try:
                await inside.create(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}}, "default")
            except Forbidden:
                return number
        raise AssertionError("no limit")

    async def limits_inside(expected: Object | None) -> None:
        async def so() -> bool:
            return bool((await own.get(LOGICAL_CLUSTERS, "default.east"))["spec"].get("limits") == expected)

        await eventually(so)

    await eventually(is_running)
    await limits_inside(limits)
    first = await fill(0)
    assert 0 < first <= 30

    async def reports_full() -> bool:
        found = condition(await hub.get(MANAGED_CLUSTERS, "east", "default"), "WithinLimits")
        return bool(found and found["reason"] == "LimitsReached" and "objects 30 of 30" in found["message"])

    await eventually(reports_full)
    with pytest.raises(Invalid, match=r"spec\.limits\.bytes"):
        await hub.merge_patch(MANAGED_CLUSTERS, "east", {"spec": {"limits": {"bytes": "0"}}}, "default")
    await hub.merge_patch(MANAGED_CLUSTERS, "east", {"spec": {"limits": {"objects": 40, "bytes": None}}}, "default")
    await limits_inside({"objects": 40})
    second = await fill(first)
    assert first < second <= first + 10
    # Without the field, the limits are those of the worker, which has them from the hub.
    await hub.merge_patch(MANAGED_CLUSTERS, "east", {"spec": {"limits": None}}, "default")

    async def without() -> bool:
        return not (await own.get(LOGICAL_CLUSTERS, "default.east"))["spec"].get("limits")

    await eventually(without)
    assert second < await fill(second) <= second + 10
