"""HubInformers: watches that are stopped and started again, and objects that move between two informers of a kind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shoal.client.rest import Client
from shoal.clock import FakeClock
from shoal.kinds.workload.apiresource import GVR
from shoal.sync.syncer.hub_informers import HubInformers, SyncedResource, SyncKey
from tests.client.scripted_transport import HOLD, Scripted, event, listed

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
CONFIG_MAPS = SyncedResource(GVR("", "v1", "configmaps"), "ConfigMap", has_status=False)


def config_map(name: str, revision: int) -> Object:
    return {"metadata": {"name": name, "namespace": "n", "resourceVersion": str(revision), "uid": name}}


def assigned(name: str, revision: int) -> Object:
    obj = config_map(name, revision)
    obj["metadata"]["labels"] = {"workloads.kcp.dev/cluster": "east"}
    return obj


async def idle() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


async def test_watches_start_again_after_they_were_closed() -> None:
    script = Scripted(
        [listed(5, assigned("a", 1), assigned("b", 2)), listed(9, assigned("b", 2), assigned("c", 8))], []
    )
    hub = HubInformers(Client(script), FakeClock())
    seen: list[str] = []
    hub.attach("east", lambda key: seen.append(key.name))
    hub.add_resource(CONFIG_MAPS)
    await idle()
    assert (seen, hub.has_synced()) == (["a", "b"], True)
    hub.close()
    await idle()
    assert not hub.has_synced()
    hub.add_resource(CONFIG_MAPS)
    hub.add_resource(CONFIG_MAPS)
    await idle()
    assert script.asked == ["list", "watch 5", "list", "watch 9"]
    assert hub.has_synced()
    assert [key.name for key in hub.all_keys_for("east")] == ["b", "c"], "what went meanwhile is forgotten"
    hub.close()
    await idle()


async def test_what_one_informer_drops_the_other_may_have() -> None:
    """In pull mode a dependency that is assigned to the cluster itself moves from one list to the other."""
    dropped = asyncio.Event()
    script = Scripted(
        [listed(5), listed(5, config_map("a", 1))],
        [
            [event("ADDED", assigned("a", 6)), HOLD],
            [dropped, event("DELETED", config_map("a", 6)), HOLD],
        ],
    )
    hub = HubInformers(Client(script), FakeClock(), only="east")
    hub.add_resource(CONFIG_MAPS)
    await idle()
    dropped.set()
    await idle()
    assert hub.all_keys_for("east") == [SyncKey(CONFIG_MAPS, "n", "a")]
    hub.close()
    await idle()
