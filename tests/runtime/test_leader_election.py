"""Leader election: the pure rule as a table, the rest against the real server with a fake clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from shoal.client.https import HttpsTransport
from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.clock import FakeClock
from shoal.runtime.leader_election import (
    LEASE_DURATION,
    LEASES,
    RENEW_DEADLINE,
    RETRY_PERIOD,
    LeaderElector,
    acquire_record,
)
from tests.serving import Cluster

Object = dict[str, Any]
NOW = "2026-11-15T12:00:00.000000Z"


def lease(holder: str, transitions: int = 3) -> Object:
    spec = {"holderIdentity": holder, "leaseTransitions": transitions, "acquireTime": "then", "renewTime": "then"}
    return {"metadata": {"name": "loops", "resourceVersion": "7"}, "spec": spec}


@pytest.mark.parametrize(
    ("found", "expired", "expected"),
    [
        (None, True, {"leaseTransitions": 0, "acquireTime": NOW}),
        (lease("other"), False, None),
        (lease("other"), True, {"leaseTransitions": 4, "acquireTime": NOW}),
        (lease(""), False, {"leaseTransitions": 4, "acquireTime": NOW}),
        (lease("me"), False, {"leaseTransitions": 3, "acquireTime": "then"}),
        (lease("me"), True, {"leaseTransitions": 3, "acquireTime": "then"}),
    ],
)
def test_who_may_have_it(found: Object | None, expired: bool, expected: Object | None) -> None:
    mine = acquire_record(found, "me", NOW, 15, expired)
    if expected is None:
        assert mine is None
        return
    assert mine is not None
    assert mine["spec"] == {**expected, "holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": NOW}
    assert mine.get("metadata") == (found or {}).get("metadata")


class Actor:
    """A process that would act."""

    def __init__(self, client: Client, clock: FakeClock, name: str) -> None:
        self.lease = LeaderElector(client, clock, "default", "loops", name)
        self.acting = False
        self.begun = 0
        self.task = asyncio.ensure_future(self.lease.run(self._act))

    async def _act(self) -> None:
        self.acting = True
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.acting = False

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


@asynccontextmanager
async def client_of(cluster: Cluster) -> AsyncIterator[Client]:
    server = cluster.server
    transport = HttpsTransport(f"https://127.0.0.1:{server.port}", server.context)
    client = Client(transport, server.token, cluster=cluster.name)
    yield client
    await client.close()


async def until(clock: FakeClock, condition: Any, step: float = 0.0) -> None:
    async with asyncio.timeout(30):
        while not condition():
            clock.step(step)
            await asyncio.sleep(0.005)


async def test_one_acts_and_the_next_takes_over(cluster: Cluster) -> None:
    clock = FakeClock()
    async with client_of(cluster) as client:
        first = Actor(client, clock, "first")
        await until(clock, lambda: first.acting)
        second = Actor(client, clock, "second")
        for _ in range(20):
            # The next step waits for the renewal: requests take no time of this clock.
            clock.step(RETRY_PERIOD)
            await until(clock, lambda: first.lease._renew_sent_at == clock.since_boot())
        assert first.acting
        assert not second.acting
        # Leaving, it gives the lease up: the other need not wait for it to end.
        await first.stop()
        await until(clock, lambda: second.acting, step=RETRY_PERIOD)
        found = await client.get(LEASES, "loops", "default")
        assert found["spec"]["holderIdentity"] == "second"
        assert found["spec"]["leaseTransitions"] == 1
        await second.stop()


async def test_a_holder_that_vanished_is_waited_for(cluster: Cluster) -> None:
    clock = FakeClock()
    async with client_of(cluster) as client:
        spec = {"holderIdentity": "dead", "leaseDurationSeconds": LEASE_DURATION, "renewTime": NOW, "acquireTime": NOW}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "loops"}, "spec": spec}
        await client.create(LEASES, body, "default")
        actor = Actor(client, clock, "next")
        began = clock.monotonic()
        await until(clock, lambda: actor.acting, step=RETRY_PERIOD / 4)
        assert clock.monotonic() - began >= LEASE_DURATION
        await actor.stop()


async def test_who_cannot_renew_stops_acting(cluster: Cluster) -> None:
    clock = FakeClock()
    async with client_of(cluster) as client:
        actor = Actor(client, clock, "me")
        await until(clock, lambda: actor.acting)
        found = await client.get(LEASES, "loops", "default")
        found["spec"] |= {"holderIdentity": "thief", "renewTime": NOW}
        await client.update(LEASES, found)
        await until(clock, lambda: not actor.acting, step=RETRY_PERIOD)
        await actor.stop()


class Cut(HttpsTransport):
    cut = False

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        if self.cut:
            raise Unreachable("the cable is out")
        return await super().request(method, path, query, headers, body)


async def test_who_does_not_reach_the_server_stops_acting_in_time(cluster: Cluster) -> None:
    clock = FakeClock()
    server = cluster.server
    transport = Cut(f"https://127.0.0.1:{server.port}", server.context)
    client = Client(transport, server.token, cluster=cluster.name)
    actor = Actor(client, clock, "me")
    await until(clock, lambda: actor.acting)
    began = clock.monotonic()
    transport.cut = True
    await until(clock, lambda: not actor.acting, step=RETRY_PERIOD / 4)
    assert clock.monotonic() - began <= RENEW_DEADLINE + 2 * RETRY_PERIOD < LEASE_DURATION
    await actor.stop()
    await client.close()


async def test_a_holder_that_was_paused_knows_at_once_that_its_time_is_over(cluster: Cluster) -> None:
    clock = FakeClock()
    async with client_of(cluster) as client:
        actor = Actor(client, clock, "me")
        assert not actor.lease.is_lease_valid()
        await until(clock, lambda: actor.acting)
        assert actor.lease.is_lease_valid()
        # Time passes, and nothing of the process runs: as after SIGSTOP, in the moment it goes on.
        clock.step(RENEW_DEADLINE)
        assert not actor.lease.is_lease_valid()
        # It begins anew when it has the lease again.
        await until(clock, lambda: actor.begun == 2 and actor.acting, step=RETRY_PERIOD)
        assert actor.lease.is_lease_valid()
        await actor.stop()
        assert not actor.lease.is_lease_valid()


async def test_a_renewal_counts_from_when_it_was_sent(cluster: Cluster) -> None:
    """The others see it later than that, so nobody of them is faster."""
    clock = FakeClock()
    server = cluster.server
    transport = Slow(f"https://127.0.0.1:{server.port}", server.context)
    transport.clock = clock
    client = Client(transport, server.token, cluster=cluster.name)
    lease = LeaderElector(client, clock, "default", "loops", "me")
    assert await lease._try_acquire_or_renew()
    lease.is_leader = True
    clock.step(RENEW_DEADLINE - transport.seconds - 0.5)
    assert lease.is_lease_valid()
    clock.step(0.5)
    assert not lease.is_lease_valid()
    await client.close()


class Slow(HttpsTransport):
    clock: FakeClock
    seconds = 4.0

    async def request(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        answer = await super().request(method, path, query, headers, body)
        self.clock.step(self.seconds / 2)
        return answer


async def test_a_refusal_is_warned_of_once(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    async with client_of(cluster) as client:
        actor = Actor(client, clock, "first")
        await until(clock, lambda: actor.acting)
        assert actor.lease.error == ""
        accepted, client._headers = client._headers, {"authorization": "Bearer revoked"}
        await until(clock, lambda: not actor.acting, step=RETRY_PERIOD)
        for _ in range(10):
            clock.step(RETRY_PERIOD)
            await asyncio.sleep(0.02)
        assert actor.lease.error == "Unauthorized"
        client._headers = accepted
        await until(clock, lambda: actor.acting, step=RETRY_PERIOD)
        assert actor.lease.error == ""
        await actor.stop()
    assert caplog.messages == ["cannot acquire or renew lease loops: Unauthorized", "first lost lease loops"]
