"""A request that is cancelled by another task than its own fails like any other. A task that is cancelled ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import orjson
import pytest

from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from tests.client.scripted_transport import event, item

pytestmark = pytest.mark.anyio

ADDED = orjson.dumps(event("ADDED", item("a", 1))) + b"\n"
THINGS = GroupVersionResource("example.com", "v1", "things")


class Waiting:
    """Every response waits for one future. A watch waits after `sent`."""

    def __init__(self, *sent: bytes) -> None:
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sent = sent

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        await self.answered
        return 200, {}, b"{}"

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        return 200, self._pieces()

    async def _pieces(self) -> AsyncIterator[bytes]:
        for piece in self._sent:
            yield piece
        await self.answered

    async def close(self) -> None:
        """Nothing is held open."""


async def get(client: Client) -> None:
    await client.get(THINGS, "a")


async def watch(client: Client) -> None:
    async for _ in client.watch(THINGS):
        pass


both = pytest.mark.parametrize("talk", [get, watch])


@both
async def test_a_response_that_another_task_cancels_is_an_error(talk: Callable[[Client], Awaitable[None]]) -> None:
    transport = Waiting(ADDED)
    task = asyncio.ensure_future(talk(Client(transport)))
    await asyncio.sleep(0.01)
    transport.answered.cancel()
    with pytest.raises(Unreachable, match=r"^the request was cancelled$"):
        await task


@both
async def test_a_task_that_is_cancelled_ends(talk: Callable[[Client], Awaitable[None]]) -> None:
    task = asyncio.ensure_future(talk(Client(Waiting(ADDED))))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@both
async def test_a_request_that_takes_too_long_times_out(talk: Callable[[Client], Awaitable[None]]) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await talk(Client(Waiting(ADDED)))
