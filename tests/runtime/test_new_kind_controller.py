"""Controllers of one kind: objects that match the predicate are reconciled, failures are retried, one failing key
stops no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import FakeClock
from shoal.objects.errors import Conflict
from shoal.runtime.controller import new_kind_controller
from shoal.runtime.informer import Informer
from tests.client.scripted_transport import HOLD, Object, Scripted, event, item, listed

pytestmark = pytest.mark.anyio
THINGS = GroupVersionResource("example.com", "v1", "things")
Work = Callable[[Key, Object], Awaitable[float | None]]


class Run:
    def __init__(self, transport: Scripted, work: Work, wanted: Callable[[Object], bool] = lambda obj: True) -> None:
        self.clock = FakeClock()
        self.informer = Informer(Client(transport), THINGS, self.clock)
        self.controller = new_kind_controller("things", self.informer, self.clock, wanted, work)
        self._task = asyncio.create_task(self.controller.run())

    async def until(self, look: Callable[[], bool]) -> None:
        for _ in range(2000):
            if look():
                return
            await asyncio.sleep(0)
        raise AssertionError("never")

    async def idle(self) -> None:
        for _ in range(60):
            await asyncio.sleep(0)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_what_is_wanted_is_reconciled() -> None:
    seen: list[str] = []

    async def work(key: Key, obj: Object) -> None:
        seen.append(key[2])

    script = [event("ADDED", item("b", 6)), event("DELETED", item("a", 7)), HOLD]
    run = Run(
        Scripted([listed(5, item("a", 1), item("no", 2))], [script]), work, lambda o: o["metadata"]["name"] != "no"
    )
    await run.until(lambda: "b" in seen)
    await run.idle()
    assert set(seen) <= {"a", "b"}
    await run.stop()


async def test_a_failure_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    attempts: list[str] = []

    async def work(key: Key, obj: Object) -> None:
        attempts.append(key[2])
        if attempts.count(key[2]) < 3 and key[2] == "a":
            raise Conflict("somebody was faster")

    run = Run(Scripted([listed(5, item("a", 1), item("b", 2))], []), work)
    await run.until(lambda: len(attempts) == 2)
    await run.idle()
    assert sorted(attempts) == ["a", "b"]
    run.clock.step(0.05)
    await run.until(lambda: attempts.count("a") == 2)
    await run.idle()
    run.clock.step(0.1)
    await run.until(lambda: attempts.count("a") == 3)
    await run.idle()
    run.clock.step(100)
    await run.idle()
    assert attempts.count("a") == 3
    await run.stop()


async def test_a_mistake_stops_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    async def work(key: Key, obj: Object) -> None:
        if key[2] == "bad":
            raise KeyError("a mistake")
        seen.append(key[2])

    with caplog.at_level(logging.ERROR, "shoal.runtime"):
        run = Run(Scripted([listed(5, item("bad", 1), item("good", 2))], []), work)
        await run.until(lambda: seen == ["good"])
        await run.idle()
        await run.stop()
    assert "things: reconciling n/bad failed" in caplog.text


async def test_it_comes_back_when_asked_to() -> None:
    seen: list[float] = []

    async def work(key: Key, obj: Object) -> float | None:
        seen.append(run.clock.now())
        return 7.0 if len(seen) == 1 else None

    run = Run(Scripted([listed(5, item("a", 1))], []), work)
    await run.until(lambda: len(seen) == 1)
    await run.idle()
    run.clock.step(6.9)
    await run.idle()
    assert len(seen) == 1
    run.clock.step(0.2)
    await run.until(lambda: len(seen) == 2)
    await run.stop()


async def test_the_newest_state_is_given() -> None:
    sizes: list[str] = []
    gate = asyncio.Event()

    async def work(key: Key, obj: Object) -> None:
        await gate.wait()
        sizes.append(obj["metadata"]["resourceVersion"])

    script = [event("MODIFIED", item("a", revision)) for revision in (6, 7, 8)]
    run = Run(Scripted([listed(5, item("a", 1))], [[*script, HOLD]]), work)
    await run.until(lambda: run.informer.objects != {} and _newest(run) == "8")
    gate.set()
    await run.until(lambda: sizes[-1:] == ["8"])
    await run.idle()
    assert len(sizes) == 2, "three changes meanwhile are one more look"
    await run.stop()


def _newest(run: Run) -> str:
    (obj,) = run.informer.objects.values()
    revision: str = obj["metadata"]["resourceVersion"]
    return revision
