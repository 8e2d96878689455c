"""Tests of Leases of simulated nodes at a server that does not synthesize them: written, spread over time, and on
time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client
from shoal.clock import rfc3339_micro
from shoal.controlplane.kubelet.informers import NODES
from shoal.controlplane.kubelet.nodelease import LEASES, next_renewal
from shoal.controlplane.node_controllers import new_simulated_node_controllers
from shoal.kinds.core.node_identity import LEASE_NAMESPACE as NAMESPACE
from tests.controlplane.kubelet.test_kubelet import SETTLE, bare_server, create, node, node_is, run_controllers
from tests.controlplane.world import World

Object = dict[str, Any]


def test_beats_are_ten_seconds_apart_and_spread() -> None:
    begun = 1_700_000_000.3
    beats = [next_renewal(f"uid-{number}", begun) for number in range(1000)]
    assert all(begun < beat <= begun + 10 for beat in beats)
    assert all(beat * 4 == int(beat * 4) for beat in beats), "on quarters of a second"
    assert len(set(beats)) == 40
    assert max(beats.count(beat) for beat in set(beats)) < 50
    for number, beat in enumerate(beats):
        assert next_renewal(f"uid-{number}", beat) == beat + 10


async def stored_leases(given: World, client: Client) -> dict[str, Object]:
    """Leases by name; only written ones have managedFields."""
    found, _ = await client.list_all(LEASES, NAMESPACE)
    return {lease["metadata"]["name"]: lease for lease in found if "managedFields" in lease["metadata"]}


def lease_renewed(given: World, client: Client, name: str, since: float) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        lease = (await stored_leases(given, client)).get(name)
        return lease is not None and lease["spec"]["renewTime"] >= rfc3339_micro(since)

    return look


@pytest.mark.anyio
async def test_leases_are_renewed_until_the_node_is_lost_or_gone(tmp_path: Path) -> None:
    async with bare_server(tmp_path) as given:
        client = await given.cluster("a")
        await create(client, node("n"), node("m"))
        async with run_controllers(new_simulated_node_controllers(client, given.clock)):
            begun = given.clock.now()
            for name in ("n", "m"):
                await given.eventually(lease_renewed(given, client, name, begun))
            lease = (await stored_leases(given, client))["n"]
            assert lease["spec"]["holderIdentity"] == "n"
            assert lease["spec"]["leaseDurationSeconds"] == 40
            uid = (await client.get(NODES, "n"))["metadata"]["uid"]
            assert [owner["uid"] for owner in lease["metadata"]["ownerReferences"]] == [uid]

            await asyncio.sleep(SETTLE)
            given.clock.step(10)
            for name in ("n", "m"):
                await given.eventually(lease_renewed(given, client, name, begun + 10))

            await client.merge_patch(NODES, "n", {"metadata": {"annotations": {"shoal.dev/simulate": "not-ready"}}})
            await given.eventually(node_is(client, "Unknown"))
            await client.delete(LEASES, "m", NAMESPACE)
            await asyncio.sleep(SETTLE)
            given.clock.step(10)
            await given.eventually(lease_renewed(given, client, "m", begun + 20))
            assert (await stored_leases(given, client))["n"]["spec"]["renewTime"] < rfc3339_micro(begun + 20)

            await client.merge_patch(NODES, "n", {"metadata": {"annotations": {"shoal.dev/simulate": None}}})
            await given.eventually(lease_renewed(given, client, "n", begun + 20))
