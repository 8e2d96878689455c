"""The informer keeps its objects correct whatever the connection does. On a fake clock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import pytest

from shoal.client.reflector import BASE_DELAY, MAX_DELAY, Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import FakeClock
from shoal.runtime.informer import Informer
from tests.client.scripted_transport import HOLD, Object, Scripted, event, expired, item, listed

pytestmark = pytest.mark.anyio
THINGS = GroupVersionResource("example.com", "v1", "things")


class Run:
    """An informer at work on a script."""

    def __init__(self, transport: Scripted, unserved: float | None = None) -> None:
        self.clock = FakeClock()
        self.told: list[tuple[str, str | None]] = []
        self.transport = transport
        self.informer = Informer(Client(transport), THINGS, self.clock, poll_until_served=unserved)
        self.informer.add_event_handler(self._changed)
        self._task = asyncio.create_task(self.informer.run())

    def _changed(self, key: Key, old: Object | None, obj: Object | None) -> None:
        self.told.append((key[2], obj["metadata"]["resourceVersion"] if obj is not None else None))

    async def until(self, look: Callable[[], bool]) -> None:
        for _ in range(2000):
            if look():
                return
            await asyncio.sleep(0)
        raise AssertionError(f"never: asked {self.transport.asked}, told {self.told}")

    async def stays(self, look: Callable[[], bool]) -> None:
        for _ in range(50):
            assert look()
            await asyncio.sleep(0)

    async def stop(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    @property
    def names(self) -> list[str]:
        return sorted(key[2] for key in self.informer.objects)


async def test_list_then_watch_from_there() -> None:
    run = Run(Scripted([listed(5, item("a", 3))], [[event("ADDED", item("b", 6)), HOLD]]))
    assert not run.informer.has_synced
    await run.until(lambda: len(run.told) == 2)
    assert run.informer.has_synced
    assert run.told == [("a", "3"), ("b", "6")]
    assert run.transport.asked == ["list", "watch 5"]
    assert run.names == ["a", "b"]
    await run.stop()


async def test_pages_are_put_together() -> None:
    run = Run(Scripted([listed(5, item("a", 3), token="more"), listed(5, item("b", 4))], []))
    await run.until(lambda: run.informer.has_synced)
    assert run.names == ["a", "b"]
    assert run.transport.asked[:2] == ["list", "list more"]
    await run.stop()


async def test_every_kind_of_event() -> None:
    script = [
        event("ADDED", item("a", 6)),
        event("MODIFIED", item("a", 7)),
        event("BOOKMARK", {"metadata": {"resourceVersion": "8"}}),
        event("DELETED", item("a", 9)),
        HOLD,
    ]
    run = Run(Scripted([listed(5)], [script]))
    await run.until(lambda: len(run.told) == 3)
    assert run.told == [("a", "6"), ("a", "7"), ("a", None)]
    assert run.names == []
    await run.stop()


async def test_an_ended_watch_goes_on_where_it_was() -> None:
    first = [event("ADDED", item("a", 6)), event("BOOKMARK", {"metadata": {"resourceVersion": "20"}})]
    run = Run(Scripted([listed(5)], [first, [HOLD]]))
    await run.until(lambda: len(run.transport.asked) == 3)
    assert run.transport.asked == ["list", "watch 5", "watch 20"]
    assert run.told == [("a", "6")], "nothing is told twice"
    await run.stop()


async def test_a_cut_link_is_resumed_after_a_pause() -> None:
    cut = [event("ADDED", item("a", 6)), Unreachable("the stream broke")]
    run = Run(Scripted([listed(5)], [cut, [event("ADDED", item("b", 7)), HOLD]]))
    await run.until(lambda: len(run.told) == 1)
    await run.stays(lambda: len(run.transport.asked) == 2)
    assert run.names == ["a"], "unknown is not gone"
    run.clock.step(BASE_DELAY)
    await run.until(lambda: len(run.told) == 2)
    assert run.transport.asked == ["list", "watch 5", "watch 6"]
    await run.stop()


async def test_a_forgotten_revision_leads_to_a_fresh_list() -> None:
    run = Run(
        Scripted([listed(5, item("a", 3), item("b", 4)), listed(50, item("b", 44), item("c", 45))], [[expired()]])
    )
    await run.until(lambda: len(run.transport.asked) == 4)
    assert run.transport.asked == ["list", "watch 5", "list", "watch 50"]
    assert run.told == [("a", "3"), ("b", "4"), ("b", "44"), ("c", "45"), ("a", None)]
    assert run.names == ["b", "c"]
    await run.stop()


async def test_what_is_not_reached_is_not_gone() -> None:
    down = [Unreachable("no route")] * 3
    run = Run(Scripted([listed(5, item("a", 3)), *down, listed(9, item("a", 3))], [[expired()]]))
    await run.until(lambda: len(run.transport.asked) == 3)
    for pause in (BASE_DELAY, BASE_DELAY * 2, BASE_DELAY * 4):
        assert run.names == ["a"]
        assert ("a", None) not in run.told
        asked = len(run.transport.asked)
        await run.stays(lambda asked=asked: len(run.transport.asked) == asked)  # type: ignore[misc]
        run.clock.step(pause)
        await run.until(lambda asked=asked: len(run.transport.asked) > asked)  # type: ignore[misc]
    await run.until(lambda: run.transport.asked[-1] == "watch 9")
    await run.stop()


async def test_pauses_grow_up_to_a_bound() -> None:
    run = Run(Scripted([503] * 20, []))
    pauses = []
    for asked in range(1, 13):
        await run.until(lambda asked=asked: len(run.transport.asked) == asked)  # type: ignore[misc]
        await run.stays(lambda asked=asked: len(run.transport.asked) == asked)  # type: ignore[misc]
        pause = min(BASE_DELAY * 2 ** (asked - 1), MAX_DELAY)
        run.clock.step(pause * 0.99)
        await run.stays(lambda asked=asked: len(run.transport.asked) == asked)  # type: ignore[misc]
        run.clock.step(pause * 0.01 + 1e-6)
        pauses.append(pause)
    assert pauses[-1] == MAX_DELAY
    assert not run.informer.has_synced
    await run.stop()


async def test_a_server_that_ends_watches_at_once_is_spared() -> None:
    run = Run(Scripted([listed(5)], [[], [], [HOLD]]))
    await run.until(lambda: len(run.transport.asked) == 2)
    await run.stays(lambda: len(run.transport.asked) == 2)
    run.clock.step(BASE_DELAY)
    await run.until(lambda: len(run.transport.asked) == 3)
    await run.stays(lambda: len(run.transport.asked) == 3)
    await run.stop()


async def test_a_refused_list_is_tried_again() -> None:
    run = Run(Scripted([403, listed(5, item("a", 1))], []))
    await run.until(lambda: len(run.transport.asked) == 1)
    run.clock.step(BASE_DELAY)
    await run.until(lambda: run.informer.has_synced)
    assert run.names == ["a"]
    await run.stop()


async def test_a_kind_that_is_not_served_yet_is_looked_for_quietly(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    run = Run(Scripted([404, 404, 404, listed(5, item("a", 3))], [[HOLD]]), unserved=0.1)
    for looks in (1, 2, 3):
        await run.until(lambda looks=looks: len(run.transport.asked) == looks)  # type: ignore[misc]
        await run.stays(lambda: not run.informer.has_synced)
        run.clock.step(0.1)
    await run.until(lambda: run.names == ["a"])
    assert caplog.records == []
    await run.stop()


async def test_the_revision_tells_what_has_been_seen() -> None:
    run = Run(Scripted([listed(5, item("a", 3)), 500], [[event("ADDED", item("b", 8)), expired()]]))
    assert run.informer.revision == 0
    await run.until(lambda: run.informer.revision == 8)
    await run.until(lambda: run.transport.asked[-1] == "list")
    assert run.informer.revision == 8, "what has been delivered stays delivered"
    await run.stop()
