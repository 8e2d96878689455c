"""The contract of every bus: the same tests for each implementation. A `Line` is a hub, a worker and their link."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from shoal.client.rest import Client
from shoal.client.transport import Transport, Unreachable
from shoal.fleet.bus.interface import DELETED, PUT, Bus, BusMessage, Name, StatusReport
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import Conflict, Forbidden
from tests.fleet.fleets import eventually, gone, managed, phase

Object = dict[str, Any]
WORKER = "w1"
EAST: Name = ("default", "east")


@dataclass
class Line:
    hub: Client
    """Its administrator."""
    bus: Bus
    cut: Callable[[], None]
    restore: Callable[[], None]
    told: list[Name] = field(default_factory=list)

    async def give(self, name: str, worker: str = WORKER, epoch: int = 1, **status: Any) -> Object:
        """To a worker, as the scheduler does."""
        said = {"assignedWorker": worker, "epoch": epoch, "phase": "Scheduled", **status}
        return await self.hub.merge_patch(MANAGED_CLUSTERS, name, {"status": said}, "default", "status")

    async def create(self, name: str, worker: str = WORKER, **spec: Any) -> Object:
        await self.hub.create(MANAGED_CLUSTERS, managed(name, **spec), "default")
        return await self.give(name, worker)

    async def hears(self, name: str, look: Callable[[BusMessage], bool] = lambda _: True) -> BusMessage:
        async def heard() -> BusMessage | None:
            message = self.bus.latest(("default", name))
            return message if message is not None and look(message) else None

        return await eventually(heard)

    async def hears_state(self, obj: Object) -> BusMessage:
        """At least as new as that."""
        revision = int(obj["metadata"]["resourceVersion"])
        return await self.hears(obj["metadata"]["name"], lambda message: message.version.revision >= revision)

    async def forgets(self, name: str) -> None:
        async def forgotten() -> bool:
            return self.bus.latest(("default", name)) is None

        await eventually(forgotten)

    async def is_live(self, wanted: bool) -> None:
        async def so() -> bool:
            return self.bus.is_live == wanted

        await eventually(so)


@asynccontextmanager
async def followed(line: Line) -> AsyncIterator[Line]:
    line.bus.add_event_handler(line.told.append)
    task = asyncio.create_task(line.bus.run())
    try:
        await line.is_live(True)
        yield line
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class BusContract:
    """A class that inherits it has a fixture `line`."""

    pytestmark = pytest.mark.anyio

    async def test_a_message_has_the_whole_of_it(self, line: Line) -> None:
        made = await line.create("east", nodes=3)
        await line.create("theirs", "w2")
        message = await line.hears_state(made)
        assert message.name == EAST
        assert infrav1.spec_of(message.managed)["nodes"] == 3
        metadata = made["metadata"]
        mark = message.version
        assert (mark.uid, mark.generation, mark.epoch) == (metadata["uid"], 1, 1)
        assert mark.revision == int(metadata["resourceVersion"])
        assert (message.type, message.subject) == (PUT, "default/east")
        assert message.id == f"{mark.uid}.1.{mark.revision}.put"
        assert message.time.endswith("Z")
        assert EAST in line.told
        assert line.bus.latest(("default", "theirs")) is None

    async def test_the_newest_counts(self, line: Line) -> None:
        await line.create("east")
        for nodes in (2, 5, 4):
            changed = await line.hub.merge_patch(MANAGED_CLUSTERS, "east", {"spec": {"nodes": nodes}}, "default")
        message = await line.hears_state(changed)
        assert infrav1.spec_of(message.managed)["nodes"] == 4
        assert message.version.generation == 4

    async def test_a_deletion_is_a_message_and_is_acknowledged(self, line: Line) -> None:
        await line.hears_state(await line.create("east"))
        await line.hub.delete(MANAGED_CLUSTERS, "east", "default")
        message = await line.hears("east", lambda found: found.deleting)
        assert message.type == DELETED
        assert message.id.endswith(".deleted")
        await line.bus.acknowledge(message)
        await eventually(lambda: gone(line.hub, MANAGED_CLUSTERS, "east"))
        await line.forgets("east")

    async def test_what_is_given_away_is_no_longer_known(self, line: Line) -> None:
        message = await line.hears_state(await line.create("east"))
        line.told.clear()
        moved = await line.give("east", "w2", 2)
        await line.forgets("east")
        assert EAST in line.told
        with suppress(Conflict, Forbidden):
            await line.bus.report(message, StatusReport({**infrav1.status_of(message.managed), "phase": "Failed"}))
        again = await line.give("east", WORKER, 3)
        found = await line.hears_state(again)
        assert (found.version.epoch, found.version.uid) == (3, moved["metadata"]["uid"])
        assert phase(found.managed) == "Scheduled", "what was said when it was another's changes nothing"

    async def test_a_report_becomes_the_status_and_comes_back(self, line: Line) -> None:
        message = await line.hears_state(await line.create("east"))
        status = {**infrav1.status_of(message.managed), "phase": "Running", "nodes": 2}
        await line.bus.report(message, StatusReport(status))
        back = await line.hears("east", lambda found: phase(found.managed) == "Running")
        assert infrav1.status_of(back.managed) == status
        before = await line.hub.get(MANAGED_CLUSTERS, "east", "default")
        await line.bus.report(back, StatusReport(status))
        assert await line.hub.get(MANAGED_CLUSTERS, "east", "default") == before, "nothing differs, nothing is written"

    async def test_a_report_about_an_older_state_changes_nothing(self, line: Line) -> None:
        message = await line.hears_state(await line.create("east"))
        changed = await line.hub.merge_patch(MANAGED_CLUSTERS, "east", {"spec": {"nodes": 7}}, "default")
        with suppress(Conflict, Forbidden):
            await line.bus.report(message, StatusReport({**infrav1.status_of(message.managed), "phase": "Failed"}))
        newer = await line.hears_state(changed)
        await line.bus.report(newer, StatusReport({**infrav1.status_of(newer.managed), "phase": "Running"}))
        found = await line.hears("east", lambda one: phase(one.managed) != "Scheduled")
        assert phase(found.managed) == "Running"

    async def test_nothing_is_lost_over_a_cut(self, line: Line) -> None:
        for name in ("stays", "changes", "goes", "moves"):
            await line.hears_state(await line.create(name))
        line.cut()
        await line.is_live(False)
        for nodes in (3, 6):
            changed = await line.hub.merge_patch(MANAGED_CLUSTERS, "changes", {"spec": {"nodes": nodes}}, "default")
        await line.hub.delete(MANAGED_CLUSTERS, "goes", "default")
        await line.give("moves", "w2", 2)
        fresh = await line.create("fresh")
        assert line.bus.latest(("default", "moves")) is not None, "nothing can have been heard"
        line.told.clear()
        line.restore()
        await line.is_live(True)
        assert infrav1.spec_of((await line.hears_state(changed)).managed)["nodes"] == 6
        await line.hears("goes", lambda found: found.deleting)
        await line.hears_state(fresh)
        await line.forgets("moves")
        assert line.bus.latest(("default", "stays")) is not None
        assert ("default", "stays") in line.told, "what was to be said of it may not have come through"


class CuttableTransport:
    """A way to a server that can be cut: streams break, and nobody answers."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._cut = asyncio.Event()
        self.asked: list[tuple[str, str]] = []
        """Methods and paths."""

    def cut(self) -> None:
        self._cut.set()

    def restore(self) -> None:
        self._cut = asyncio.Event()

    def _check(self) -> None:
        if self._cut.is_set():
            raise Unreachable("the link is cut")

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        self._check()
        self.asked.append((method, path))
        return await self._inner.request(method, path, query, headers, body)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        self._check()
        status, pieces = await self._inner.stream(method, path, query, headers)
        return status, self._until_cut(pieces)

    async def _until_cut(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        cut = asyncio.create_task(self._cut.wait())
        piece: asyncio.Future[bytes] | None = None
        try:
            while True:
                piece = asyncio.ensure_future(anext(pieces, b""))
                await asyncio.wait([piece, cut], return_when=asyncio.FIRST_COMPLETED)
                if cut.done():
                    raise Unreachable("the link is cut")
                if not piece.result():
                    return
                yield piece.result()
        finally:
            cut.cancel()
            if piece is not None:
                piece.cancel()
                await asyncio.gather(piece, return_exceptions=True)
            await pieces.aclose()  # type: ignore[attr-defined]

    async def close(self) -> None:
        await self._inner.close()
