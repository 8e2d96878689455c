"""The order of handshakes when many clients connect at once: newest and oldest first, bounded waiting time and
queue.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from shoal.apiserver.http import listener as module
from shoal.apiserver.http.listener import Listener
from tests.apiserver.http.loopback import until


class Crowd:
    """A listener, and clients that connect before the event loop can look."""

    def __init__(self) -> None:
        self.greeted: list[int] = []
        """Ports of the clients, in the order they were greeted."""
        self.listener = Listener(lambda: Greeted(self), 10.0)
        self.meanwhile: Callable[[], object] = lambda: None
        """Called when the first connection is accepted."""
        self.port = 0
        self.clients: list[socket.socket] = []

    def connect(self, count: int) -> list[int]:
        fresh = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(count)]
        self.clients += fresh
        return [each.getsockname()[1] for each in fresh]


class Greeted(asyncio.Protocol):
    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._crowd.greeted.append(transport.get_extra_info("peername")[1])
        if len(self._crowd.greeted) == 1:
            self._crowd.meanwhile()

    def data_received(self, data: bytes) -> None:
        pass


@pytest.fixture
async def crowd(anyio_backend: object) -> AsyncIterator[Crowd]:
    made = Crowd()
    made.port = made.listener.start("127.0.0.1", 0, None)
    yield made
    made.listener.close()
    await made.listener.drop()
    for client in made.clients:
        client.close()
    await asyncio.sleep(0.01)


def has_ended(client: socket.socket) -> bool:
    client.settimeout(5.0)
    try:
        while client.recv(1024):
            pass
        return True
    except ConnectionResetError:
        return True


async def test_the_newest_and_the_oldest_are_greeted_first_and_all_in_the_end(crowd: Crowd) -> None:
    ports, late = crowd.connect(800), list[int]()
    crowd.meanwhile = lambda: late.extend(crowd.connect(1))
    await until(lambda: len(crowd.greeted) == 801)
    assert crowd.greeted[:4] == [ports[-1], ports[0], ports[-2], ports[1]]
    assert crowd.greeted.index(late[0]) < 400, "it came when one of eight hundred had been greeted"
    assert sorted(crowd.greeted) == sorted([*ports, *late])


async def test_who_has_waited_too_long_is_closed(crowd: Crowd) -> None:
    crowd.listener._patience = -1.0
    crowd.connect(2)
    assert await asyncio.to_thread(has_ended, crowd.clients[0])
    assert await asyncio.to_thread(has_ended, crowd.clients[1])
    assert crowd.greeted == []


async def test_of_too_many_the_oldest_are_closed(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_WAITING", 5)
    ports = crowd.connect(12)
    await until(lambda: len(crowd.greeted) == 5)
    assert sorted(crowd.greeted) == sorted(ports[-5:])
    assert all([await asyncio.to_thread(has_ended, client) for client in crowd.clients[:7]])


async def test_who_had_connected_is_greeted_after_the_end(crowd: Crowd) -> None:
    ports = crowd.connect(30)
    crowd.listener.close()
    with pytest.raises(ConnectionRefusedError):
        crowd.connect(1)
    await until(lambda: len(crowd.greeted) == 30)
    assert sorted(crowd.greeted) == sorted(ports)


async def test_who_is_not_through_the_greeting_is_let_go(crowd: Crowd, server_tls: ssl.SSLContext) -> None:
    crowd.listener.ssl_context = server_tls
    crowd.connect(30)
    await until(lambda: len(crowd.listener._greeting) == 30)
    crowd.listener.close()
    await crowd.listener.drop()
    assert await asyncio.to_thread(has_ended, crowd.clients[0])
    assert not crowd.listener._greeting


async def test_who_does_not_speak_tls_is_closed_without_a_word_in_the_log(
    crowd: Crowd, server_tls: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    crowd.listener.ssl_context = server_tls
    crowd.connect(3)
    for client in crowd.clients:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert all([await asyncio.to_thread(has_ended, client) for client in crowd.clients])
    assert crowd.greeted == []
    assert not caplog.records


async def test_it_goes_on_when_there_are_descriptors_again(crowd: Crowd, descriptors: Callable[[int], None]) -> None:
    crowd.connect(2)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors(3)
    await asyncio.sleep(0.05)
    descriptors(soft)
    assert crowd.greeted == []
    await until(lambda: len(crowd.greeted) == 2)


@pytest.fixture
def descriptors(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Says how many this process may have."""
    monkeypatch.setattr(module, "_PAUSE", 0.2)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda most: resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
