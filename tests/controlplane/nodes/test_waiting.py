"""Alarms and addresses: what the kubelet keeps in memory."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Network

import pytest

from shoal.clock import FakeClock
from shoal.controlplane.nodes.addresses import Addresses
from shoal.controlplane.nodes.alarms import Alarms


@pytest.mark.anyio
async def test_alarms_ring_in_order_with_one_sleeper() -> None:
    clock, rung = FakeClock(), list[str]()
    alarms = Alarms(clock, rung.append)
    task = asyncio.create_task(alarms.run())
    start = clock.now()
    for number in range(100):
        alarms.set(f"k{number}", start + 10 + number)
    alarms.set("early", start + 5)
    alarms.set("moved", start + 6)
    alarms.set("moved", start + 8)
    alarms.set("never", start + 7)
    alarms.set("never", None)
    before = len(asyncio.all_tasks())
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) <= before + 2

    async def step(seconds: float) -> list[str]:
        clock.step(seconds)
        for _ in range(10):
            await asyncio.sleep(0)
        return rung

    assert await step(4.9) == []
    assert await step(0.1) == ["early"]
    assert await step(2.5) == ["early"], "what was moved or taken back does not ring"
    assert await step(0.5) == ["early", "moved"]
    assert await step(100) == ["early", "moved", *(f"k{number}" for number in range(99))]
    task.cancel()


def test_addresses_are_unique_in_a_cluster_and_stay() -> None:
    given = Addresses(IPv4Network("10.0.0.0/28"))
    found = [given.of(("a", "default", f"p{number}"), f"uid-{number}") for number in range(14)]
    assert len(set(found)) == 14
    assert all(each.startswith("10.0.0.") for each in found)
    assert given.of(("a", "default", "p3"), "uid-3") == found[3]
    given.of(("b", "default", "p3"), "uid-3")
    with pytest.raises(RuntimeError, match="every address"):
        given.of(("a", "default", "more"), "uid")
    given.release(("a", "default", "p3"))
    assert given.of(("a", "default", "more"), "uid") == found[3]


def test_addresses_that_objects_have_are_not_given_again() -> None:
    given = Addresses(IPv4Network("10.0.0.0/29"))
    for number in (1, 2, 3, 4, 5):
        given.seen(("a", "", f"n{number}"), f"10.0.0.{number}")
    given.seen(("a", "", "other"), "192.168.0.1")
    given.seen(("a", "", "other"), "not an address")
    assert given.of(("a", "", "new"), "uid") == "10.0.0.6"
    given.seen(("a", "", "n1"), "10.0.0.1")
    given.release(("a", "", "n1"))
    assert given.of(("a", "", "newer"), "uid") == "10.0.0.1"
