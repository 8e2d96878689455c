"""Keys wait until all informers have synced."""

from __future__ import annotations

import asyncio

import pytest

from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import FakeClock
from shoal.runtime.cache_sync import CacheSyncGate
from shoal.runtime.informer import Informer
from tests.client.scripted_transport import HOLD, Scripted, listed

pytestmark = pytest.mark.anyio
THINGS = GroupVersionResource("example.com", "v1", "things")


def view() -> Informer:
    return Informer(Client(Scripted([listed(5)], [[HOLD]])), THINGS, FakeClock())


async def test_keys_that_come_too_early_come_back() -> None:
    added: list[str] = []
    one, other = view(), view()
    gate: CacheSyncGate[str] = CacheSyncGate(added.append, one, other)
    assert not gate.allow("a")
    tasks = [asyncio.create_task(one.run())]
    await asyncio.sleep(0.01)
    assert (gate.allow("b"), gate.allow("a"), added) == (False, False, [])
    tasks.append(asyncio.create_task(other.run()))
    await asyncio.sleep(0.01)
    assert added == ["a", "b"]
    assert gate.allow("c")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert added == ["a", "b"]
