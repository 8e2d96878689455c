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


class ClientCrowd:
    """A listener, and clients that connect before the event loop can look."""

    def __init__(self) -> None:
        self.accepted_ports: list[int] = []
        """Ports of the clients, in the order they were greeted."""
        self.listener = Listener(lambda: AcceptedProtocol(self), 10.0)
        self.on_first_accept: Callable[[], object] = lambda: None
        """Called when the first connection is accepted."""
        self.port = 0
        self.clients: list[socket.socket] = []

    def connect(self, count: int) -> list[int]:
        fresh = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(count)]
        self.clients += fresh
        return [each.getsockname()[1] for each in fresh]


class AcceptedProtocol(asyncio.Protocol):
    def __init__(self, crowd: ClientCrowd) -> None:
        self._crowd = crowd

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._crowd.accepted_ports.append(transport.get_extra_info("peername")[1])
        if len(self._crowd.accepted_ports) == 1:
            self._crowd.on_first_accept()

    def data_received(self, data: bytes) -> None:
        pass


@pytest.fixture
async def crowd(anyio_backend: object) -> AsyncIterator[ClientCrowd]:
    made = ClientCrowd()
    made.port = made.listener.start("127.0.0.1", 0, None)
    yield made
    made.listener.close()
    await made.listener.abort_handshakes()
    for client in made.clients:
        client.close()
    await asyncio.sleep(0.01)


def is_closed(client: socket.socket) -> bool:
    client.settimeout(5.0)
    try:
        while client.recv(1024):
            pass
        return True
    except ConnectionResetError:
        return True


async def test_the_newest_and_the_oldest_are_greeted_first_and_all_in_the_end(crowd: ClientCrowd) -> None:
    ports, late = crowd.connect(800), list[int]()
    crowd.on_first_accept = lambda: late.extend(crowd.connect(1))
    await until(lambda: len(crowd.accepted_ports) == 801)
    assert crowd.accepted_ports[:4] == [ports[-1], ports[0], ports[-2], ports[1]]
    assert crowd.accepted_ports.index(late[0]) < 400, "it came when one of eight hundred had been greeted"
    assert sorted(crowd.accepted_ports) == sorted([*ports, *late])


async def test_who_has_waited_too_long_is_closed(crowd: ClientCrowd) -> None:
    crowd.listener._handshake_timeout = -1.0
    crowd.connect(2)
    assert await asyncio.to_thread(is_closed, crowd.clients[0])
    assert await asyncio.to_thread(is_closed, crowd.clients[1])
    assert crowd.accepted_ports == []


async def test_of_too_many_the_oldest_are_closed(crowd: ClientCrowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_WAITING", 5)
    ports = crowd.connect(12)
    await until(lambda: len(crowd.accepted_ports) == 5)
    assert sorted(crowd.accepted_ports) == sorted(ports[-5:])
    assert all([await asyncio.to_thread(is_closed, client) for client in crowd.clients[:7]])


async def test_who_had_connected_is_greeted_after_the_end(crowd: ClientCrowd) -> None:
    ports = crowd.connect(30)
    crowd.listener.close()
    with pytest.raises(ConnectionRefusedError):
        crowd.connect(1)
    await until(lambda: len(crowd.accepted_ports) == 30)
    assert sorted(crowd.accepted_ports) == sorted(ports)


async def test_who_is_not_through_the_greeting_is_let_go(crowd: ClientCrowd, server_tls: ssl.SSLContext) -> None:
    crowd.listener.ssl_context = server_tls
    crowd.connect(30)
    await until(lambda: len(crowd.listener._handshakes) == 30)
    crowd.listener.close()
    await crowd.listener.abort_handshakes()
    assert await asyncio.to_thread(is_closed, crowd.clients[0])
    assert not crowd.listener._handshakes


async def test_who_does_not_speak_tls_is_closed_without_a_word_in_the_log(
    crowd: ClientCrowd, server_tls: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    crowd.listener.ssl_context = server_tls
    crowd.connect(3)
    for client in crowd.clients:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert all([await asyncio.to_thread(is_closed, client) for client in crowd.clients])
    assert crowd.accepted_ports == []
    assert not caplog.records


async def test_it_goes_on_when_there_are_descriptors_again(
    crowd: ClientCrowd, descriptors: Callable[[int], None]
) -> None:
    crowd.connect(2)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors(3)
    await asyncio.sleep(0.05)
    descriptors(soft)
    assert crowd.accepted_ports == []
    await until(lambda: len(crowd.accepted_ports) == 2)


@pytest.fixture
def descriptors(crowd: ClientCrowd, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Says how many this process may have."""
    monkeypatch.setattr(module, "_ACCEPT_RETRY_SECONDS", 0.2)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda most: resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
