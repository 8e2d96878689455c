"""The cost of a worker's resync: bytes on the wire, including TLS, in proportion to what has changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson
import pytest

from shoal.fleet.bus import watch_bus
from shoal.fleet.health.controller import new_health_controllers
from shoal.fleet.resources import CONFIG_MAPS, MANAGED_CLUSTERS, WORKERS
from shoal.kinds.fleet import infrav1
from tests.fleet.bus.metered_link import WORKER, Hub, Worker, hub_in, linked
from tests.fleet.fleets import SYSTEM, condition, eventually, running, there

pytestmark = pytest.mark.anyio
COUNT = 200
NOTHING = 12_000
"""Bytes: two TLS handshakes, the hub's id, a digest and the head of a watch. Nothing grows with the clusters."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_bus, "FIRST_PAUSE", 0.01)


async def filled(hub: Hub, worker: Worker) -> int:
    """All are known, copied and remembered; answers how many bytes a list of them has."""
    for first in range(0, COUNT, 20):
        await asyncio.gather(*(hub.give(f"c{number:03d}") for number in range(first, first + 20)))
    await worker.start()
    await worker.remembers_all(COUNT)
    return len(orjson.dumps((await hub.client.list_all(MANAGED_CLUSTERS))[0]))


class Cost:
    def __init__(self, worker: Worker) -> None:
        self._link = worker.link
        self._before = self._link.carried + self._link.sent

    @property
    def bytes(self) -> int:
        return self._link.carried + self._link.sent - self._before


def changes(*names: str) -> tuple[tuple[str, ...], ...]:
    """Nothing, then those."""
    return (), names


async def reconnect(worker: Worker) -> None:
    worker.link.restore()
    await worker.is_live()


async def test_bytes_are_in_proportion_to_what_has_changed(tmp_path: Path) -> None:
    async with linked(tmp_path) as (hub, worker):
        whole = await filled(hub, worker)
        assert whole > 10 * NOTHING
        one = whole // COUNT
        assert worker.traffic.resyncs == {"resume": 0, "digest": 0, "list": 1}

        # The link is cut, and nothing changes; then three do.
        for changed in changes("c003", "c050", "c199"):
            cost = Cost(worker)
            worker.link.cut()
            await worker.is_live(False)
            for name in changed:
                await hub.resize(name, 7)
            await reconnect(worker)
            await worker.has_nodes(dict.fromkeys(changed, 7))
            assert cost.bytes < NOTHING + 6 * one * len(changed)
        assert worker.traffic.resyncs == {"resume": 2, "digest": 0, "list": 1}

        # Days pass: what has happened meanwhile is no longer known at the hub.
        for nodes, changed in enumerate(changes("c001", "c100", "c150"), 8):
            await worker.remembers_all(COUNT)
            cost = Cost(worker)
            worker.link.cut()
            await worker.is_live(False)
            for name in changed:
                await hub.resize(name, nodes)
            await hub.resize("c000", nodes)  # something has: history is not empty, and goes
            await hub.forget_history()
            await reconnect(worker)
            await worker.has_nodes(dict.fromkeys(changed, nodes))
            assert cost.bytes < NOTHING + 6 * one * (1 + len(changed))
        assert worker.traffic.resyncs == {"resume": 2, "digest": 2, "list": 1}

        # The worker is killed, and started anew: it has its store only.
        for nodes, changed in enumerate(changes("c010", "c020", "c030"), 10):
            await worker.remembers_all(COUNT)
            await worker.stop()
            cost = Cost(worker)
            for name in changed:
                await hub.resize(name, nodes)
            await worker.start()
            await worker.is_live()
            await worker.has_nodes(dict.fromkeys(changed, nodes))
            assert worker.traffic.resyncs == {"resume": 0, "digest": 1, "list": 0}
            assert cost.bytes < NOTHING + 6 * one * len(changed)
            assert worker.bus.latest(("default", "c123")) is not None


async def test_what_has_gone_or_come_meanwhile_is_found_by_digest(tmp_path: Path) -> None:
    async with linked(tmp_path) as (hub, worker):
        for number in range(10):
            await hub.give(f"c{number}")
        await worker.start()
        await worker.remembers_all(10)
        await worker.stop()
        await hub.client.delete(MANAGED_CLUSTERS, "c1", "default")
        await hub.client.merge_patch(MANAGED_CLUSTERS, "c2", {"metadata": {"finalizers": None}}, "default")
        await hub.client.delete(MANAGED_CLUSTERS, "c2", "default")
        moved = {"status": {"assignedWorker": "w2", "epoch": 2}}
        await hub.client.merge_patch(MANAGED_CLUSTERS, "c3", moved, "default", "status")
        await hub.give("fresh")
        await hub.forget_history()
        await worker.start()
        await worker.is_live()
        assert worker.traffic.resyncs["digest"] == 1

        async def heard() -> bool:
            deleted, fresh = (worker.bus.latest(("default", name)) for name in ("c1", "fresh"))
            return deleted is not None and deleted.deleting and fresh is not None

        await eventually(heard)
        assert worker.bus.latest(("default", "c2")) is None
        assert worker.bus.latest(("default", "c3")) is None

        async def settled() -> bool:
            found = {copy["metadata"]["name"]: infrav1.is_deleting(copy) for copy in await worker.copies()}
            return len(found) == 11 and found["c1"]

        await eventually(settled)
        found = {copy["metadata"]["name"]: infrav1.is_deleting(copy) for copy in await worker.copies()}
        assert [name for name, deleting in found.items() if deleting] == ["c1"], "the others were never said to be gone"


async def test_many_changes_come_as_one_list(tmp_path: Path) -> None:
    async with linked(tmp_path) as (hub, worker):
        for number in range(40):
            await hub.give(f"c{number}")
        await worker.start()
        await worker.remembers_all(40)
        await worker.stop()
        for number in range(35):
            await hub.resize(f"c{number}", 9)
        await worker.start()
        await worker.has_nodes({f"c{number}": 9 for number in range(35)})
        assert worker.traffic.resyncs == {"resume": 0, "digest": 0, "list": 1}


async def test_another_store_behind_the_address_gets_nothing_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(infrav1, "HEARTBEAT_SECONDS", 0.05)
    async with linked(tmp_path) as (hub, worker), hub_in(tmp_path / "other", tmp_path / "pki") as other:
        for name in ("east", "west"):
            await hub.give(name)
        await worker.start()
        await worker.remembers_all(2)
        worker.link.cut()
        await worker.is_live(False)
        # The other has one of the same name, which is being deleted, and one of its own.
        await other.give("east")
        await other.client.delete(MANAGED_CLUSTERS, "east", "default")
        await other.give("fresh")
        worker.link.target, worker.beats.inner = other.server.port, other.client._transport
        async with running(new_health_controllers(other.client, worker._clock)):
            await reconnect(worker)

            async def said() -> dict[str, str] | None:
                found = await other.client.list_all(WORKERS, SYSTEM)
                told = condition(found[0][0], "HubAccepted") if found[0] else {}
                return told or None

            told = await eventually(said)
            pin = await worker.own.get(CONFIG_MAPS, "hub", SYSTEM)
            assert (told["status"], told["reason"]) == ("False", "AnotherHub")
            assert told["message"].startswith(f"worker belongs to hub {pin['data']['id']} and deletes nothing")
            await eventually(lambda: there(worker.own, MANAGED_CLUSTERS, "fresh"))
            assert worker.bus.latest(("default", "west")) is None
            copies = {copy["metadata"]["name"]: copy for copy in await worker.copies()}
            assert sorted(copies) == ["east", "fresh", "west"]
            assert not any(map(infrav1.is_deleting, copies.values()))
            # People accept it.
            await worker.own.delete(CONFIG_MAPS, "hub", SYSTEM)

            async def accepted() -> bool:
                worker_object = await other.client.get(WORKERS, WORKER, SYSTEM)
                return bool(condition(worker_object, "HubAccepted")["status"] == "True")

            await eventually(accepted)
