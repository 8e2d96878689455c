"""Which hub has a worker's tunnel, as its Lease says: one write for each connection, and the newest one counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from shoal.clock import FakeClock
from shoal.fleet.tunnel import TunnelRegistry
from shoal.fleet.tunnel.recorder import TunnelRecorder
from shoal.kinds.fleet.infrav1 import TUNNEL_HUB_ANNOTATION, tunnel_hub
from shoal.objects.errors import Conflict, NotFound
from tests.fleet.tunnel.socket_pair import settled
from tests.fleet.tunnel.test_registry import saying

pytestmark = pytest.mark.anyio

Object = dict[str, Any]
HERE, THERE = "https://here:6443", "https://there:6443"


class Leases:
    """The Lease of w1, and the hub's event handler for it."""

    def __init__(self) -> None:
        self.lease: Object | None = None
        self.revision = 0
        self.writes: list[str | None] = []
        self.before_write: Callable[[], None] = lambda: None
        self.on_changed: Callable[[str, str, int], None] = lambda worker, hub, revision: None

    async def get(self, gvr: object, name: str, namespace: str) -> Object:
        assert (name, namespace) == ("worker-w1", "shoal-system")
        if self.lease is None:
            raise NotFound("no Lease")
        return self.lease

    async def merge_patch(self, gvr: object, name: str, patch: Object, namespace: str) -> Object:
        self.before_write()
        metadata = patch["metadata"]
        if metadata.get("resourceVersion", str(self.revision)) != str(self.revision):
            raise Conflict("changed")
        hub = metadata["annotations"][TUNNEL_HUB_ANNOTATION]
        self.writes.append(hub)
        return self.write(hub)

    def write(self, hub: str | None) -> Object:
        """As any hub or the worker does."""
        self.revision += 1
        annotations = {TUNNEL_HUB_ANNOTATION: hub} if hub else {}
        self.lease = {"metadata": {"resourceVersion": str(self.revision), "annotations": annotations}}
        self.on_changed("w1", hub or "", self.revision)
        return self.lease

    @property
    def hub(self) -> str:
        assert self.lease is not None
        return tunnel_hub(self.lease)

    def renew(self) -> None:
        self.write(self.hub)


class Hub:
    def __init__(self) -> None:
        self.clock, self.leases = FakeClock(), Leases()
        self.tunnels = TunnelRegistry(self.clock)
        self.disconnected: list[str] = []
        self.tunnels.disconnect = self.disconnected.append  # type: ignore[method-assign,assignment]
        recorder = TunnelRecorder(self.leases, self.clock, self.tunnels, HERE)  # type: ignore[arg-type]
        self.leases.on_changed = recorder.on_lease_changed
        self.task = asyncio.create_task(recorder.controller.run())

    def connect(self) -> Callable[[], None]:
        return self.tunnels.register("w1", saying("w1"))


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    made = Hub()
    yield made
    made.task.cancel()
    await asyncio.gather(made.task, return_exceptions=True)


async def test_one_write_for_each_connection(hub: Hub) -> None:
    hub.leases.write(None)
    leave = hub.connect()
    await settled()
    for _ in range(5):
        hub.leases.renew()
        await settled()
    assert (hub.leases.hub, hub.leases.writes) == (HERE, [HERE])
    leave()
    await settled()
    assert (hub.leases.hub, hub.leases.writes) == ("", [HERE, None])
    for _ in range(5):
        hub.leases.renew()
        await settled()
    assert len(hub.leases.writes) == 2
    # The hub has restarted: the worker connects before it has noticed that it was away.
    hub.leases.write(HERE)
    hub.connect()
    await settled()
    assert len(hub.leases.writes) == 2


async def test_a_worker_that_connects_before_it_has_a_lease(hub: Hub) -> None:
    hub.connect()
    await settled()
    assert hub.leases.writes == []
    hub.leases.write(None)
    await settled()
    assert hub.leases.hub == HERE
    # Somebody deletes the Lease, and the worker creates it anew.
    hub.leases.write(None)
    await settled()
    assert hub.leases.hub == HERE


async def test_the_entry_of_another_hub_is_replaced_but_not_removed(hub: Hub) -> None:
    hub.leases.write(THERE)
    leave = hub.connect()
    await settled()
    assert (hub.leases.hub, hub.disconnected) == (HERE, [])

    def write_first() -> None:
        hub.leases.before_write = lambda: None
        hub.leases.write(THERE)

    hub.leases.before_write = write_first
    leave()
    await settled()
    hub.clock.step(10.0)
    await settled()
    assert (hub.leases.hub, hub.leases.writes) == (THERE, [HERE])


async def test_a_worker_that_has_connected_elsewhere_is_let_go(hub: Hub) -> None:
    """But not because of what its Lease said before it connected here."""
    hub.leases.write(THERE)
    hub.leases.before_write = hub.leases.renew
    hub.connect()
    await settled()
    hub.leases.before_write = lambda: None
    assert (hub.leases.hub, hub.disconnected) == (HERE, [])
    hub.leases.write(THERE)
    assert hub.disconnected == ["w1"]
    hub.leases.renew()
    await settled()
    assert (hub.leases.hub, hub.disconnected) == (THERE, ["w1"])
