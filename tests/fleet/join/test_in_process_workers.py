"""Workers inside `shoal up` have the same permissions as any worker; a declared Worker belongs to the first worker that
joins.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.fleet.resources import MANAGED_CLUSTERS, SECRETS, WORKERS
from shoal.kinds.fleet import infrav1 as names
from shoal.objects.errors import Forbidden, NotFound, Unauthorized
from tests.fleet.fleets import SYSTEM, eventually, fleet, phase

pytestmark = pytest.mark.anyio


async def test_a_worker_inside_is_a_worker_like_any_other(tmp_path: Path) -> None:
    up = await HubWithWorkers.start(ShoalServerSettings(tmp_path / "data", port=0), InProcessWorkers(1))
    try:
        admin = up.hub.client("test")

        async def running() -> bool:
            try:
                return phase(await admin.get(WORKERS, "worker-1", SYSTEM)) == "Running"
            except NotFound:
                return False

        await eventually(running)
        client = up.workers[0]._hub
        assert (await client.get(WORKERS, "worker-1", SYSTEM))["metadata"]["name"] == "worker-1"
        for kind in (SECRETS, MANAGED_CLUSTERS, WORKERS):
            with pytest.raises(Forbidden, match='User "system:worker:worker-1" cannot list'):
                await client.list_all(kind)
        with pytest.raises(Unauthorized):
            await client.in_cluster("*").list_all(SECRETS)
    finally:
        await up.stop()


async def test_a_declared_worker_is_taken_by_the_first_that_comes(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        declared = {"metadata": {"name": "w1", "labels": {"tier": "gold"}}, "spec": {"capacity": 1}}
        await made.hub.create(WORKERS, {"apiVersion": names.API_VERSION, "kind": "Worker", **declared}, SYSTEM)
        await made.join("w1", 5)
        found = await made.until_worker("w1", lambda obj: phase(obj) == "Running")
        assert found["metadata"]["annotations"][names.STORE_ANNOTATION]
        assert (found["metadata"]["labels"], found["spec"]["capacity"]) == ({"tier": "gold"}, 5)
