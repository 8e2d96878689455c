"""What the hub says of a hosted cluster that it cannot reach, by what it has seen of the token."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable

import pytest

from shoal.clock import FakeClock
from shoal.fleet.tunnel import TunnelRegistry, disclosure, managed_cluster_route
from shoal.fleet.tunnel.disclosure import STARTUP_SECONDS, Disclosure
from shoal.fleet.tunnel.peer_acceptor import PeerAcceptor
from shoal.fleet.tunnel.peers import TUNNEL_PATH, PeerTunnels
from shoal.objects.errors import NotFound, Unavailable
from shoal.objects.wire import Answer, ByteStream, Receiver, Request, Response, Upgrade
from tests.fleet.tunnel.socket_pair import Joined, join, settled
from tests.fleet.tunnel.test_registry import ASSIGNED

pytestmark = pytest.mark.anyio

EAST, NONE = "/managedclusters/default/east/api", "/managedclusters/default/none/api"
UNKNOWN = b"as for an unknown cluster"


def hosted(request: Request) -> Answer:
    return Response(401 if request.headers.get("authorization") == "Bearer bad" else 200, b"hosted")


class Hub:
    """Two hubs, of which the other one has the worker's tunnel."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.tunnels, self.others = TunnelRegistry(self.clock), TunnelRegistry(self.clock)
        self._accept = PeerAcceptor("t", self.others, 2, self.clock).route(lambda *key: ASSIGNED.get(key))
        self.peers = PeerTunnels(self.dial, lambda worker: "other", self.clock)
        refuse = lambda request: Response(403, UNKNOWN)  # noqa: E731
        self.published = ""
        self.disclosure = Disclosure(refuse, lambda namespace, name: self.published, self.clock)
        self.route = managed_cluster_route(
            self.tunnels, lambda *key: ASSIGNED.get(key), lambda request: None, self.disclosure
        )
        self._joined: list[Joined] = []

    async def dial(self, url: str, start: Callable[[ByteStream], Receiver]) -> None:
        headers = {"upgrade": "shoal-tunnel", "authorization": "Bearer t"}
        answer = self._accept(Request("GET", TUNNEL_PATH, headers=headers))
        assert isinstance(answer, Upgrade)
        one, other = socket.socketpair()
        self._joined += [await join(one, answer.start), await join(other, start)]

    async def get(self, token: str = "", path: str = EAST) -> tuple[int, bytes]:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        made = self.route(Request("GET", path, headers=headers))
        answer = made if isinstance(made, Response) else await made  # type: ignore[misc]
        assert isinstance(answer, Response)
        return answer.status, answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)


@pytest.fixture(params=["own", "peer"])
async def hub(request: pytest.FixtureRequest) -> AsyncIterator[Hub]:
    """Its worker is connected to itself or to the other hub."""
    made = Hub()
    if request.param == "peer":
        made.tunnels.remote_workers = made.peers
    yield made
    made.peers.close()
    await settled()


def register(hub: Hub) -> Callable[[], None]:
    registry = hub.tunnels if hub.tunnels.remote_workers is None else hub.others
    return registry.register("w1", hosted)


async def test_accepted_tokens(hub: Hub) -> None:
    hub.clock.step(STARTUP_SECONDS)
    unregister = register(hub)
    for token, status in (("good", 200), ("bad", 401), ("", 200)):
        assert await hub.get(token) == (status, b"hosted")
    unregister()
    for token in ("bad", "unseen", ""):
        assert await hub.get(token) == await hub.get(token, NONE) == (403, UNKNOWN)
    assert await hub.get("good", NONE) == (403, UNKNOWN)
    with pytest.raises(Unavailable, match='worker "w1" is not connected'):
        await hub.get("good")
    assert await hub.get("good", "/managedclusters/default/new/api") == (403, UNKNOWN)


async def test_after_its_start_a_hub_refuses_no_token(hub: Hub) -> None:
    for path in (EAST, NONE):
        with pytest.raises(Unavailable, match="the hub has just started and waits for its workers"):
            await hub.get("unseen", path)
        assert await hub.get("", path) == (403, UNKNOWN)
    hub.clock.step(STARTUP_SECONDS)
    assert await hub.get("unseen") == (403, UNKNOWN)


async def test_the_token_of_the_published_kubeconfig(hub: Hub) -> None:
    """It was never seen, as after a restart of the hub while the worker is away."""
    hub.clock.step(STARTUP_SECONDS)
    hub.published = "published"
    with pytest.raises(Unavailable, match='worker "w1" is not connected'):
        await hub.get("published")
    assert await hub.get("publishe") == (403, UNKNOWN)
    with pytest.raises(NotFound, match='"none" not found'):
        await hub.get("published", NONE)


async def test_tokens_are_bounded(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disclosure, "MAX_TOKENS", 3)
    register(hub)
    for number in range(10):
        await hub.get(f"t{number}")
        assert len(hub.disclosure._accepted) <= 3
