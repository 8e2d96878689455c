"""When the last message is saved with a copy: not with every message, and never an uncertain one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from shoal.client.rest import Client
from shoal.clock import FakeClock
from shoal.fleet.bus.interface import Bus, BusMessage, Name, message_of
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.informers import WorkerInformers
from shoal.fleet.worker.registration.controller import WorkerRegistration
from shoal.fleet.worker.subscriber.controller import HubSubscriber, message_loader
from tests.fleet.fleets import managed, server

Object = dict[str, Any]
HUB, EAST = "hub-1", ("default", "east")


class Said:
    """A bus, a registration and a root in one: what the subscriber asks of them."""

    hub_id = HUB

    def __init__(self) -> None:
        self.joined = asyncio.Event()
        self.joined.set()
        self.message: BusMessage | None = None

    def add_event_handler(self, _told: object) -> None:
        """It is asked by the test."""

    def latest(self, _name: Name) -> BusMessage | None:
        return self.message


def at_hub(revision: int, spec: Object | None = None) -> BusMessage:
    metadata = {"name": "east", "namespace": "default", "uid": "u", "generation": 1, "resourceVersion": str(revision)}
    status = {"assignedWorker": "w1", "epoch": 1, "phase": f"at {revision}"}
    return message_of({**managed("east"), "metadata": metadata, "spec": spec or {}, "status": status})


def subscriber(own: Client, clock: FakeClock, said: Said, after: float | None = 30.0) -> HubSubscriber:
    return HubSubscriber(
        own, clock, cast(Bus, said), cast(WorkerInformers, said), cast(WorkerRegistration, said), after
    )


async def revision_of(own: Client) -> str:
    return str((await own.get(MANAGED_CLUSTERS, "east", "default"))["metadata"]["resourceVersion"])


@pytest.mark.anyio
async def test_it_is_written_when_the_hub_has_been_calm(tmp_path: Path) -> None:
    clock, said = FakeClock(), Said()
    async with server(tmp_path / "own") as own:
        loop = subscriber(own, clock, said)
        said.message = at_hub(5)
        assert await loop.reconcile(EAST) is None
        made = await revision_of(own)
        spec = (await own.get(MANAGED_CLUSTERS, "east", "default"))["spec"]  # with its defaults, as a hub has it
        said.message = at_hub(6, spec)  # its status, which changes nothing here
        assert await loop.reconcile(EAST) == 30.0
        clock.step(20.0)
        assert await loop.reconcile(EAST) == pytest.approx(10.0)
        said.message = at_hub(7, spec)
        assert await loop.reconcile(EAST) == 30.0, "counted from the last word"
        clock.step(29.0)
        assert await revision_of(own) == made
        assert await message_loader(own)(HUB) == []
        clock.step(1.0)
        assert await loop.reconcile(EAST) is None
        assert await message_loader(own)(HUB) == [at_hub(7, spec)]
        assert await message_loader(own)("another hub") == []
        written = await revision_of(own)
        clock.step(100.0)
        assert await loop.reconcile(EAST) is None
        assert await revision_of(own) == written, "once"
        said.message = at_hub(8, {**spec, "nodes": 4})
        await loop.reconcile(EAST)
        assert await message_loader(own)(HUB) == [], "the copy is of a newer message now"


@pytest.mark.anyio
async def test_a_bus_that_needs_no_memory_gets_none(tmp_path: Path) -> None:
    clock, said = FakeClock(), Said()
    async with server(tmp_path / "own") as own:
        loop = subscriber(own, clock, said, None)
        for revision in (5, 6):
            said.message = at_hub(revision)
            assert await loop.reconcile(EAST) is None
        clock.step(1000.0)
        assert await loop.reconcile(EAST) is None
        assert await message_loader(own)(HUB) == []
