"""Keys wait until all informers have synced."""

from __future__ import annotations

import asyncio

import pytest

from shoal.client.requests import Client, Kind
from shoal.clock import FakeClock
from shoal.runtime.dependents import Dependents
from shoal.runtime.gate import Gate
from tests.client.scripted import HOLD, Scripted, listed

pytestmark = pytest.mark.anyio
THINGS = Kind("example.com", "v1", "things")


def view() -> Dependents:
    return Dependents(Client(Scripted([listed(5)], [[HOLD]])), THINGS, FakeClock())


async def test_keys_that_come_too_early_come_back() -> None:
    added: list[str] = []
    one, other = view(), view()
    gate: Gate[str] = Gate(added.append, one, other)
    assert not gate.admits("a")
    tasks = [asyncio.create_task(one.run())]
    await asyncio.sleep(0.01)
    assert (gate.admits("b"), gate.admits("a"), added) == (False, False, [])
    tasks.append(asyncio.create_task(other.run()))
    await asyncio.sleep(0.01)
    assert added == ["a", "b"]
    assert gate.admits("c")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert added == ["a", "b"]
