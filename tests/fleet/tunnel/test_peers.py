"""Tunnels between hubs: what they carry, when they open and close, and what they refuse."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from shoal.client.transport import Unreachable
from shoal.clock import FakeClock
from shoal.fleet.tunnel import TunnelRegistry, managed_cluster_route, peer_acceptor, peers
from shoal.fleet.tunnel.connection import MAX_MISSED_PINGS
from shoal.fleet.tunnel.frames import INITIAL_CREDIT
from shoal.fleet.tunnel.paths import HostedPath
from shoal.fleet.tunnel.peer_acceptor import PeerAcceptor
from shoal.fleet.tunnel.peers import PING_SECONDS, TUNNEL_PATH, PeerTunnels
from shoal.fleet.tunnel.raw_connection import SocketHandler
from shoal.fleet.tunnel.user_tokens import decode_request, encode_request
from shoal.kinds.fleet.access import HubUser, HubUserTokenRequest
from shoal.objects.errors import NotFound, StatusError, Unavailable
from shoal.objects.wire import Answer, ByteStream, Receiver, Request, Response, Sink, StreamResponse, Upgrade
from tests.fleet.tunnel.socket_pair import Joined, Slow, join, settled, until
from tests.fleet.tunnel.test_registry import ASSIGNED, EAST, answered, saying

pytestmark = pytest.mark.anyio

TARGET = HostedPath("default", "east", "")


class Hub:
    """One of two hubs, A and B."""

    def __init__(self, name: str, hubs: dict[str, Hub], holders: dict[str, str], clock: FakeClock) -> None:
        self.name, self._hubs, self.dialled = name, hubs, 0
        hubs[name] = self
        self.token = self.sent_token = "secret"
        self.refusal: Exception | None = None
        self.allowed = asyncio.Event()
        self.allowed.set()
        self.joined: list[Joined] = []
        self.tunnels = TunnelRegistry(clock)
        self.acceptor = PeerAcceptor("secret", self.tunnels, 2, clock)
        self.accept = self.acceptor.route(lambda *key: ASSIGNED.get(key))
        self.outgoing = PeerTunnels(self.dial, lambda worker: holders.get(worker, "").replace(name, ""), clock)
        self.tunnels.remote_workers = self.outgoing
        self.route = managed_cluster_route(self.tunnels, lambda *key: ASSIGNED.get(key), lambda request: None)

    async def dial(self, url: str, start: Callable[[ByteStream], Receiver]) -> None:
        self.dialled += 1
        await self.allowed.wait()
        if self.refusal is not None:
            raise self.refusal
        headers = {"upgrade": "shoal-tunnel", "authorization": f"Bearer {self.sent_token}"}
        answer = self._hubs[url].accept(Request("GET", TUNNEL_PATH, headers=headers))
        assert isinstance(answer, Upgrade)
        one, other = socket.socketpair()
        self.joined += [await join(one, answer.start), await join(other, start)]

    async def get(self, path: str = EAST) -> Answer:
        answer = self.route(Request("GET", path, remote_addr="10.1.1.1"))
        return answer if isinstance(answer, (Response, StreamResponse, Upgrade)) else await answer


class Hubs:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.holders = {"w1": "A"}
        self.by_name: dict[str, Hub] = {}
        self.a, self.b = (Hub(name, self.by_name, self.holders, self.clock) for name in "AB")

    async def close(self) -> None:
        for hub in (self.a, self.b):
            hub.outgoing.close()
            hub.acceptor.close()
            hub.tunnels.close()
        await settled()


@pytest.fixture
async def hubs() -> AsyncIterator[Hubs]:
    made = Hubs()
    yield made
    await made.close()


async def message_of(hub: Hub) -> tuple[str, int]:
    with pytest.raises(Unavailable) as caught:
        await hub.get()
    return caught.value.message, caught.value.retry_after


async def status_of(hub: Hub) -> tuple[int, bytes, dict[str, str]]:
    answer = await hub.get()
    assert isinstance(answer, Response)
    return answer.status, b"".join(answer.body), dict(answer.headers)  # type: ignore[arg-type]


async def test_a_request_goes_to_the_hub_of_the_worker(hubs: Hubs) -> None:
    seen: list[Request] = []

    def site(request: Request) -> Answer:
        seen.append(request)
        return Response(200, f"w1: {request.path}".encode())

    hubs.a.tunnels.register("w1", site)
    for hub in (hubs.b, hubs.a, hubs.b):
        answer = await hub.get()
        assert await answered(answer) == b"w1: /clusters/default.east/api"
        assert seen[-1].headers["x-forwarded-for"] == "10.1.1.1"
    assert (hubs.a.dialled, hubs.b.dialled) == (0, 1)
    assert hubs.b.outgoing.connected_hubs() == ["A"]
    with pytest.raises(NotFound):
        await hubs.b.get("/managedclusters/default/west/api")
    await hubs.close()
    assert hubs.a.acceptor.tunnel_count == 0


async def test_a_worker_that_no_hub_has(hubs: Hubs) -> None:
    hubs.holders.clear()
    assert await message_of(hubs.b) == ('worker "w1" is not connected', 1)
    assert hubs.b.dialled == 0


async def test_a_hub_that_has_lost_the_worker_forwards_to_nobody(hubs: Hubs) -> None:
    """Also if it believes that the other one has it."""
    hubs.a.outgoing._hub_of = lambda worker: "B"
    assert await message_of(hubs.b) == ('worker "w1" is not connected', 1)
    assert (hubs.a.dialled, hubs.b.dialled) == (0, 1)
    # The next request looks again.
    hubs.b.tunnels.register("w1", saying("here"))
    assert await answered(await hubs.b.get()) == b"here: /clusters/default.east/api"


async def test_a_hub_that_does_not_answer(hubs: Hubs, caplog: pytest.LogCaptureFixture) -> None:
    hubs.a.tunnels.register("w1", saying("w1"))
    hubs.b.refusal = Unreachable("connection refused")
    with caplog.at_level(logging.WARNING, "shoal.fleet"):
        assert await message_of(hubs.b) == ('the hub of worker "w1" does not answer', 1)
    assert caplog.messages == ["cannot open a tunnel to the hub at A: connection refused"]
    hubs.b.refusal = None
    hubs.b.sent_token = "wrong"
    assert await message_of(hubs.b) == ('the hub of worker "w1" does not answer', 1)
    hubs.b.sent_token = "secret"
    assert (await status_of(hubs.b))[0] == 200


async def test_those_who_wait_share_one_attempt(hubs: Hubs) -> None:
    hubs.a.tunnels.register("w1", saying("w1"))
    hubs.b.allowed.clear()
    waiting = [asyncio.create_task(status_of(hubs.b)) for _ in range(5)]
    await settled()
    waiting[0].cancel()
    await settled()
    hubs.b.allowed.set()
    assert [(await task)[0] for task in waiting[1:]] == [200] * 4
    assert hubs.b.dialled == 1


async def test_a_cut_tunnel_is_opened_again(hubs: Hubs) -> None:
    hubs.a.tunnels.register("w1", saying("w1"))
    assert (await status_of(hubs.b))[0] == 200
    for each in hubs.b.joined:
        each.transport.abort()
    await until(lambda: not hubs.b.outgoing.connected_hubs() and not hubs.a.acceptor.tunnel_count)
    assert (await status_of(hubs.b))[0] == 200
    assert hubs.b.dialled == 2


async def test_a_hub_that_hangs(hubs: Hubs) -> None:
    """Its connection stays open, and nobody reads what comes."""
    silent, far = socket.socketpair()

    async def dial(url: str, start: Callable[[ByteStream], Receiver]) -> None:
        await join(far, start)

    hubs.b.outgoing._dial = dial
    waiting = asyncio.create_task(message_of(hubs.b))
    await settled()
    for _ in range(MAX_MISSED_PINGS):
        hubs.clock.step(PING_SECONDS)
        await settled()
    assert not waiting.done()
    hubs.clock.step(PING_SECONDS)
    assert await waiting == ("the other hub is not connected", 1)
    silent.close()
    hubs.b.outgoing._dial = hubs.b.dial
    hubs.a.tunnels.register("w1", saying("w1"))
    assert (await status_of(hubs.b))[0] == 200


async def test_an_idle_tunnel_is_closed(hubs: Hubs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "MAX_IDLE_PINGS", 6)
    hubs.a.tunnels.register("w1", saying("w1"))
    await hubs.b.get()
    for _ in range(3):
        for _ in range(4):
            hubs.clock.step(PING_SECONDS)
            await settled()
        assert hubs.b.outgoing.connected_hubs() == ["A"]
        await hubs.b.get()
    for _ in range(8):
        hubs.clock.step(PING_SECONDS)
        await settled()
    await until(lambda: not hubs.b.outgoing.connected_hubs() and not hubs.a.acceptor.tunnel_count)
    assert hubs.b.dialled == 1
    assert (await status_of(hubs.b))[0] == 200


async def test_a_stream_waits_for_its_client(hubs: Hubs) -> None:
    """Through both hubs: the worker's server is told how far behind the client is."""
    sinks: list[Sink] = []
    hubs.a.tunnels.register("w1", lambda request: StreamResponse(200, sinks.append, "application/json"))
    answer = await hubs.b.get()
    assert isinstance(answer, StreamResponse)
    client = Slow()
    answer.start(client)
    for _ in range(8):
        sinks[0].write(b"x" * (INITIAL_CREDIT // 2))
    await settled()
    held = sinks[0].pending_bytes
    assert held >= 4 * INITIAL_CREDIT - 2 * INITIAL_CREDIT
    while sinks[0].pending_bytes:
        client.take()
        await settled()
    client.take()
    await until(lambda: len(client.body) == 4 * INITIAL_CREDIT)
    client.close()
    await until(lambda: sinks[0].closed)


async def test_raw_connections_and_their_limit(hubs: Hubs, caplog: pytest.LogCaptureFixture) -> None:
    served: list[tuple[socket.socket, str, Callable[[], None]]] = []

    async def connect(target: HostedPath) -> SocketHandler:
        assert target == TARGET
        return lambda sock, client, on_closed: served.append((sock, client, on_closed))

    hubs.a.tunnels.register("w1", saying("w1"), connector=connect)
    closed: list[int] = []
    ends: list[socket.socket] = []
    for number in range(3):
        handler = await hubs.b.tunnels.connector_for("w1")(TARGET)
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        ends.append(near)
        handler(far, "10.1.1.1", lambda number=number: closed.append(number))  # type: ignore[misc]
        if number < 2:
            await until(lambda number=number: len(served) == number + 1)  # type: ignore[misc]
    await until(lambda: closed == [2])
    assert "too many connections from other hubs" in caplog.text
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(ends[0], b"hello")
    assert await loop.sock_recv(served[0][0], 10) == b"hello"
    assert served[0][1] == "10.1.1.1"
    await loop.sock_sendall(served[0][0], b"there")
    assert await loop.sock_recv(ends[0], 10) == b"there"
    assert hubs.a.acceptor.open_connections == 2
    for sock, _, on_closed in served:
        sock.close()
        on_closed()
    assert hubs.a.acceptor.open_connections == 0
    for end in ends:
        end.close()
    await until(lambda: sorted(closed) == [0, 1, 2])


async def test_no_more_hubs_than_allowed(hubs: Hubs, monkeypatch: pytest.MonkeyPatch) -> None:
    hubs.a.tunnels.register("w1", saying("w1"))
    monkeypatch.setattr(peers, "MAX_PEERS", 0)
    assert await message_of(hubs.b) == ("too many connections to other hubs", 1)
    monkeypatch.setattr(peers, "MAX_PEERS", 1)
    monkeypatch.setattr(peer_acceptor, "MAX_TUNNELS", 0)
    assert await message_of(hubs.b) == ('the hub of worker "w1" does not answer', 1)


@pytest.mark.parametrize(
    ("path", "method", "headers", "code", "said"),
    [
        ("/hubs/tunnel", "GET", {}, 401, "Unauthorized"),
        ("/hubs/tunnel", "GET", {"authorization": "Bearer wrong"}, 401, "Unauthorized"),
        ("/hubs/tunnel", "GET", {"authorization": "Bearer \udcff"}, 401, "Unauthorized"),
        ("/hubs/tunnel", "GET", {"authorization": "Basic secret"}, 401, "Unauthorized"),
        ("/hubs/", "GET", {"authorization": "Bearer secret"}, 404, "the server could not find the requested resource"),
        (
            "/hubs/tunnel",
            "DELETE",
            {"authorization": "Bearer secret"},
            405,
            "the server does not allow this method on the requested resource",
        ),
        (
            "/hubs/tunnel",
            "GET",
            {"authorization": "bearer secret"},
            426,
            "a tunnel requires an upgrade to shoal-tunnel",
        ),
    ],
)
async def test_what_is_no_tunnel_of_a_hub_is_refused(
    hubs: Hubs, path: str, method: str, headers: dict[str, str], code: int, said: str
) -> None:
    with pytest.raises(StatusError) as caught:
        hubs.a.accept(Request(method, path, headers=headers))
    assert (caught.value.status_code, caught.value.message) == (code, said)


async def test_a_request_for_a_users_token_goes_to_the_hub_of_the_worker(hubs: Hubs) -> None:
    asked: list[HubUserTokenRequest] = []

    def issue(request: Request) -> Answer:
        asked.append(decode_request(request))
        return Response(201, b"{}")

    hubs.a.tunnels.register("w1", saying("w1"), hub_requests=issue)
    wanted = HubUserTokenRequest("default", "east", "uid", HubUser("alice", ("devs",)), 600)
    answer = hubs.b.tunnels.handler_for("w1")(encode_request(wanted))
    response = answer if isinstance(answer, (Response, StreamResponse, Upgrade)) else await answer
    assert (response.status, asked) == (201, [wanted])
