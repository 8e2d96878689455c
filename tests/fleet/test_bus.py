"""Messages between hub and worker: ordering by version, and conversion of watch events."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.clock import SystemClock
from shoal.fleet.bus.decide import is_stale
from shoal.fleet.bus.interface import KubeconfigSecretConflict, MessageVersion, Name, StatusReport, message_of
from shoal.fleet.bus.watch_bus import WatchBus
from shoal.fleet.resources import MANAGED_CLUSTERS, SECRETS
from shoal.objects.errors import Conflict
from tests.fleet.fleets import eventually, managed, server

Object = dict[str, Any]
KNOWN = MessageVersion("u", 2, 3, 50)


@pytest.mark.parametrize(
    ("told", "stale"),
    [
        (KNOWN, False),
        (MessageVersion("u", 2, 3, 51), False),
        (MessageVersion("u", 2, 3, 49), True),
        (MessageVersion("u", 9, 2, 99), True),
        (MessageVersion("u", 1, 4, 51), False),
        (MessageVersion("new", 1, 1, 51), False),
        (MessageVersion("old", 7, 9, 49), True),
    ],
)
def test_which_message_is_stale(told: MessageVersion, stale: bool) -> None:
    assert is_stale(KNOWN, told) == stale
    assert not is_stale(None, told)


@given(st.permutations(range(8)), st.lists(st.integers(0, 7), max_size=8))
def test_in_any_order_and_repeated_the_last_word_is_the_newest(order: list[int], again: list[int]) -> None:
    """One object's history: revision, generation and epoch rise together."""
    history = [MessageVersion("u", 1 + number // 2, 1 + number // 4, 10 + number) for number in range(8)]
    known: MessageVersion | None = None
    for number in [*order, *again]:
        if not is_stale(known, history[number]):
            known = history[number]
    assert known == history[7]


def bound(name: str, worker: str) -> Object:
    return {**managed(name), "status": {"phase": "Provisioning", "assignedWorker": worker, "epoch": 1}}


@pytest.mark.anyio
async def test_a_worker_is_told_of_its_own_and_silence_deletes_nothing(tmp_path: Path) -> None:
    async with server(tmp_path / "hub") as hub:
        bus = WatchBus(hub, "w1", SystemClock())
        told: list[Name] = []
        bus.add_event_handler(told.append)
        task = asyncio.create_task(bus.run())
        for name, worker in (("mine", "w1"), ("theirs", "w2")):
            made = await hub.create(MANAGED_CLUSTERS, managed(name), "default")
            await hub.update(MANAGED_CLUSTERS, {**made, "status": bound(name, worker)["status"]}, "status")

        async def heard() -> bool:
            return bool(told)

        await eventually(heard)
        message = bus.latest(("default", "mine"))
        assert message is not None
        assert not message.deleting
        assert bus.latest(("default", "theirs")) is None
        told.clear()
        moved = {"status": {"assignedWorker": "w2", "epoch": 2}}
        await hub.merge_patch(MANAGED_CLUSTERS, "mine", moved, "default", "status")
        await eventually(heard)
        assert bus.latest(("default", "mine")) is None, "nothing is known of it: not that it is deleted"
        with pytest.raises(Conflict):
            await bus.report(message, StatusReport({"phase": "Running"}))
        task.cancel()


@pytest.mark.anyio
async def test_a_kubeconfig_is_published_where_nobody_elses_secret_is(tmp_path: Path) -> None:
    async with server(tmp_path / "hub") as hub:
        bus = WatchBus(hub, "w1", SystemClock())
        made = await hub.create(MANAGED_CLUSTERS, managed("east"), "default")
        message = message_of(made)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "east-kubeconfig"}}
        theirs = await hub.create(SECRETS, secret, "default")
        with pytest.raises(
            KubeconfigSecretConflict,
            match="Secret east-kubeconfig already exists and does not belong to this ManagedCluster",
        ):
            await bus.report(message, StatusReport({"phase": "Running"}, "text"))
        assert await hub.get(SECRETS, "east-kubeconfig", "default") == theirs
        assert "status" not in await hub.get(MANAGED_CLUSTERS, "east", "default"), "the status comes after the Secret"
        await bus.acknowledge(message)
        assert await hub.get(SECRETS, "east-kubeconfig", "default") == theirs
        message = message_of(await hub.get(MANAGED_CLUSTERS, "east", "default"))
        earlier = {"apiVersion": made["apiVersion"], "kind": "ManagedCluster", "name": "east", "uid": "before"}
        await hub.merge_patch(SECRETS, "east-kubeconfig", {"metadata": {"ownerReferences": [earlier]}}, "default")
        await bus.report(message, StatusReport({"phase": "Running"}, "text"))
        found = await hub.get(SECRETS, "east-kubeconfig", "default")
        assert found["data"] == {"value": "dGV4dA=="}
        assert found["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
