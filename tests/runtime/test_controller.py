"""Controller with several sources: every key is reconciled, failures are retried, one failing key stops no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from shoal.clock import FakeClock
from shoal.objects.errors import Conflict, Forbidden
from shoal.runtime.controller import Controller, RequeueError

pytestmark = pytest.mark.anyio
HANG = 30.0


async def ran(loop: Controller[str], look: Callable[[], bool]) -> None:
    """Runs the loop until the look is true."""
    task = asyncio.create_task(loop.run())
    for _ in range(2000):
        if look():
            break
        await asyncio.sleep(0)
    else:
        raise AssertionError("never")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def source(loop: Controller[str], *keys: str) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        for key in keys:
            loop.queue.add(key)
        await asyncio.Event().wait()

    return run


async def test_keys_of_all_sources_are_worked_on() -> None:
    seen: list[str] = []

    async def work(key: str) -> None:
        seen.append(key)

    loop: Controller[str] = Controller("l", FakeClock(), work)
    loop.sources += [source(loop, "a", "b"), source(loop, "b", "c")]
    await ran(loop, lambda: set(seen) == {"a", "b", "c"})


@pytest.mark.parametrize(
    "error", [RequeueError("not now"), Conflict("changed"), ZeroDivisionError(), asyncio.CancelledError()]
)
async def test_a_failure_comes_back(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    clock, seen = FakeClock(), list[str]()

    async def work(key: str) -> None:
        seen.append(key)
        if key == "bad" and seen.count("bad") < 3:
            raise error

    loop: Controller[str] = Controller("l", clock, work, workers=1)
    loop.sources.append(source(loop, "bad", "good"))

    def look() -> bool:
        clock.step(0.05)
        return seen.count("bad") == 3

    await ran(loop, look)
    assert seen[:2] == ["bad", "good"]


async def test_it_comes_back_when_told() -> None:
    clock, seen = FakeClock(), list[float]()

    async def work(key: str) -> float | None:
        seen.append(clock.now())
        return 30.0 if len(seen) == 1 else None

    loop: Controller[str] = Controller("l", clock, work)
    loop.sources.append(source(loop, "a"))

    def look() -> bool:
        clock.step(1)
        return len(seen) == 2

    await ran(loop, look)
    assert seen[1] - seen[0] >= 30


async def test_a_source_that_is_cancelled_from_within_ends_the_controller() -> None:
    async def cancelled() -> None:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    async def work(key: str) -> None:
        raise AssertionError(key)

    loop: Controller[str] = Controller("l", FakeClock(), work)
    loop.sources += [source(loop), cancelled]
    async with asyncio.timeout(HANG):
        with pytest.raises(ExceptionGroup) as raised:
            await loop.run()
    assert [str(error) for error in raised.value.exceptions] == ["a source was cancelled from within"]


REFUSED = "pods is forbidden: "


@pytest.mark.parametrize(
    ("message", "failures"),
    [
        (f'{REFUSED}User "a" cannot create resource "pods" in API group "" at the cluster scope', 1),
        ('forbidden: User "a" cannot enter the logical cluster "b"', 1),
        (f"{REFUSED}unable to create new content in namespace a because it is being terminated", 0),
        (f"{REFUSED}exceeded quota: a, requested: pods=1, used: pods=1, limited: pods=1", 0),
        ('admission webhook "a" denied the request: User "a" is odd', 0),
    ],
)
async def test_only_a_missing_permission_is_a_failure_of_the_controller(message: str, failures: int) -> None:
    """What tenants are refused by admission says nothing about the health of the server."""
    seen, reported = list[str](), list[str]()

    async def work(key: str) -> None:
        seen.append(key)
        raise Forbidden(message)

    loop: Controller[str] = Controller("l", FakeClock(), work)
    loop.on_failure = lambda name, error: reported.append(error)
    loop.sources.append(source(loop, "a"))
    await ran(loop, lambda: bool(seen))
    assert reported == [message] * failures
