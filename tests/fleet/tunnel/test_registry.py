"""The hub's tunnel registry, the route of stable addresses, and how a worker keeps its tunnel."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from shoal.client.transport import Unreachable
from shoal.clock import FakeClock
from shoal.fleet.tunnel import TunnelRegistry, managed_cluster_route, new_tunnel_agent, tunnel_worker
from shoal.fleet.tunnel.agent import FIRST_PAUSE, STABLE_SECONDS, TunnelAgent
from shoal.objects.errors import Forbidden, NotFound, NotImplementedHere, StatusError, Unavailable
from shoal.objects.wire import Answer, ByteStream, Receiver, Request, Response, Upgrade
from tests.fleet.tunnel.socket_pair import Joined, join, settled, until

pytestmark = pytest.mark.anyio

UPGRADE = {"connection": "Upgrade", "upgrade": "shoal-tunnel"}
ASSIGNED = {("default", "east"): "w1", ("default", "new"): ""}
EAST = "/managedclusters/default/east/api"


def saying(name: str) -> Callable[[Request], Answer]:
    return lambda request: Response(200, f"{name}: {request.path}".encode())


async def answered(made: Answer | Awaitable[Answer]) -> bytes:
    answer = made if isinstance(made, Response) else await made  # type: ignore[misc]
    assert isinstance(answer, Response)
    return answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)


class Hub:
    def __init__(self) -> None:
        self.tunnels = TunnelRegistry(FakeClock())
        self.joined: list[Joined] = []
        self.refusal: Exception | None = None
        self.dialled = 0
        self.route = managed_cluster_route(self.tunnels, lambda *key: ASSIGNED.get(key), lambda request: None)

    async def dial(self, start: Callable[[ByteStream], Receiver]) -> None:
        self.dialled += 1
        if self.refusal is not None:
            raise self.refusal
        answer = self.tunnels.accept(Request("GET", "/workers/w1/tunnel", headers=UPGRADE))
        assert isinstance(answer, Upgrade)
        one, other = socket.socketpair()
        self.joined.append(await join(other, start))
        self.joined.append(await join(one, answer.start))

    def cut(self) -> None:
        for each in self.joined:
            each.transport.abort()


def test_the_path_of_a_tunnel() -> None:
    assert tunnel_worker("/workers/w1/tunnel") == "w1"
    for path in ("/workers/w1", "/workers//tunnel", "/workers/w1/tunnel/", "/workers/W/tunnel", "/workers/../tunnel"):
        with pytest.raises(NotFound, match="the server could not find the requested resource"):
            tunnel_worker(path)


@pytest.mark.parametrize(
    ("method", "wanted", "code", "said"),
    [
        ("GET", "", 426, "a tunnel requires an upgrade to shoal-tunnel"),
        ("GET", "websocket", 426, "a tunnel requires an upgrade to shoal-tunnel, not websocket"),
        ("POST", "SPDY/3.1", 426, "a tunnel requires an upgrade to shoal-tunnel, not SPDY/3.1"),
        ("DELETE", "shoal-tunnel", 405, "the server does not allow this method on the requested resource"),
    ],
)
def test_what_is_no_tunnel_is_refused(method: str, wanted: str, code: int, said: str) -> None:
    headers = {"upgrade": wanted} if wanted else {}
    with pytest.raises(StatusError) as caught:
        TunnelRegistry().accept(Request(method, "/workers/w1/tunnel", headers=headers))
    assert (caught.value.status_code, caught.value.message) == (code, said)


async def test_a_worker_in_the_same_process() -> None:
    hub = Hub()
    leave = hub.tunnels.register("w1", saying("one"))
    assert hub.tunnels.connected_workers() == ["w1"]
    assert await answered(hub.route(Request("GET", EAST))) == b"one: /clusters/default.east/api"
    with pytest.raises(NotFound):
        hub.tunnels.handler_for("w1")(Request("GET", "/api/v1/secrets"))
    hub.tunnels.register("w1", saying("two"))
    leave()
    assert await answered(hub.route(Request("GET", EAST))) == b"two: /clusters/default.east/api"


async def test_addresses_that_lead_nowhere() -> None:
    hub = Hub()
    for path, error, said in [
        (EAST, Unavailable, 'worker "w1" is not connected'),
        ("/managedclusters/default/new/api", Unavailable, "ManagedCluster default/new is not assigned to a worker yet"),
        (
            "/managedclusters/other/east/api",
            NotFound,
            'managedclusters.infrastructure.cluster.x-k8s.io "east" not found',
        ),
    ]:
        with pytest.raises(error) as caught:
            hub.route(Request("GET", path))
        assert caught.value.message == said
        assert caught.value.retry_after == (1 if error is Unavailable else 0)


@pytest.mark.parametrize("protocol", ["SPDY/3.1", "websocket"])
async def test_upgrades_are_refused_by_name(protocol: str) -> None:
    hub = Hub()
    hub.tunnels.register("w1", saying("one"))
    with pytest.raises(NotImplementedHere, match=f"do not support an upgrade to {protocol}"):
        hub.route(Request("POST", EAST, headers={"connection": "Upgrade", "upgrade": protocol}))
    with pytest.raises(NotImplementedHere, match=f"do not support an upgrade to {protocol}"):
        hub.tunnels.handler_for("w1")(Request("POST", EAST, headers={"upgrade": protocol}))
    headers = {"connection": "Upgrade", "upgrade": protocol}
    hub.route(Request("POST", f"{EAST}/exec", headers=headers))  # the worker refuses it, and says why


class Recording(FakeClock):
    def __init__(self) -> None:
        super().__init__()
        self.sleeps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        await super().sleep(seconds)


async def running(hub: Hub, name: str, clock: FakeClock) -> tuple[TunnelAgent, asyncio.Task[None]]:
    server = TunnelAgent(hub.dial, saying(name), clock, "w1", random_float=lambda: 1.0)
    return server, asyncio.create_task(server.run())


async def ended(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await settled()


async def test_the_newest_tunnel_of_a_worker_counts() -> None:
    hub, clock = Hub(), FakeClock()
    _, one = await running(hub, "one", clock)
    await until(lambda: hub.tunnels.connected_workers() == ["w1"])
    assert await answered(hub.route(Request("GET", EAST))) == b"one: /clusters/default.east/api"
    _, two = await running(hub, "two", clock)
    await until(lambda: len(hub.joined) == 4)
    assert await answered(hub.route(Request("GET", EAST))) == b"two: /clusters/default.east/api"
    assert hub.tunnels.connected_workers() == ["w1"]
    leave = hub.tunnels.register("w1", saying("inside"))
    assert await answered(hub.route(Request("GET", EAST))) == b"inside: /clusters/default.east/api"
    leave()
    assert hub.tunnels.connected_workers() == []
    await ended(one, two)


async def test_a_cut_tunnel_is_dialled_again() -> None:
    hub, clock = Hub(), Recording()
    _, task = await running(hub, "one", clock)
    await until(lambda: hub.tunnels.connected_workers() == ["w1"])
    hub.cut()
    await until(lambda: hub.tunnels.connected_workers() == [] and clock.sleeps[-1] == FIRST_PAUSE)
    assert hub.dialled == 1
    clock.step(FIRST_PAUSE)
    await until(lambda: hub.tunnels.connected_workers() == ["w1"])
    assert await answered(hub.route(Request("GET", EAST))) == b"one: /clusters/default.east/api"
    await ended(task)
    assert hub.tunnels.connected_workers() == []


async def test_a_hub_that_refuses_is_asked_ever_less_often() -> None:
    hub, clock = Hub(), Recording()
    hub.refusal = Unreachable("gone")
    _, task = await running(hub, "one", clock)
    for count in range(1, 10):
        while len(clock.sleeps) < count:
            await settled()
        hub.refusal = Forbidden("no") if count % 2 else Unreachable("gone")
        clock.step(clock.sleeps[-1])
    await until(lambda: len(clock.sleeps) == 10)
    assert clock.sleeps == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 5.0, 5.0]
    hub.refusal = None
    clock.step(5.0)
    await until(lambda: hub.tunnels.connected_workers() == ["w1"])
    clock.step(STABLE_SECONDS)
    hub.cut()
    await until(lambda: clock.sleeps[-1] == FIRST_PAUSE)
    await ended(task)


async def test_the_end_of_the_hub_ends_its_tunnels() -> None:
    hub = Hub()
    server = new_tunnel_agent(hub.dial, saying("one"), FakeClock(), "w1")
    assert server.name == "tunnel of w1"
    task = asyncio.create_task(server.run())
    await until(lambda: hub.tunnels.connected_workers() == ["w1"])
    hub.tunnels.close()
    assert hub.tunnels.connected_workers() == []
    await ended(task)
