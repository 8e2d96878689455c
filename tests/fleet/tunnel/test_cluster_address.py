"""A hosted cluster at a port of the hub: TLS ends at a worker behind a tunnel, with the cluster's own certificate."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator

import pytest

from shoal.apiserver.pki import cluster_contexts
from shoal.apiserver.pki.ca import LEAF_LIFETIME, RENEW_BEFORE
from shoal.apiserver.pki.cluster_contexts import ClusterTLSContexts
from shoal.assemble.server.cluster_ports import ClusterPorts
from shoal.client.rest import Client
from shoal.clock import FakeClock
from shoal.fleet.tunnel.frames import INITIAL_CREDIT
from shoal.fleet.tunnel.hub_end import HubTunnel
from shoal.fleet.tunnel.paths import local_request
from shoal.fleet.tunnel.raw_connection import MAX_PENDING, RawConnection
from shoal.fleet.tunnel.worker_end import WorkerTunnel
from shoal.kinds.fleet.endpoint import PortRange
from shoal.objects.errors import Unauthorized
from shoal.objects.wire import Request, Response
from tests.fleet.tunnel.conftest import CLUSTERS, MANAGED, Fleet, typed
from tests.fleet.tunnel.socket_pair import settled, until
from tests.fleet.tunnel.test_end_to_end import MAPS, config_map, work
from tests.serving_ports import free_port, new_request, request, trust

pytestmark = pytest.mark.anyio

EAST = "default.east"
NAMES = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
    "127.0.0.1",
    "10.0.0.1",
    "hub.example",
]


class Ports:
    """The fleet with a port for the hosted cluster."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.port = fleet, free_port()
        self.cluster_ports = ClusterPorts(fleet.hub, fleet.tunnels, PortRange(1024, 65_535))

    @property
    def authority(self) -> str:
        return self.fleet.worker.core.keys.ca_bundle(EAST)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def give_address(self, cluster: str = EAST, port: int = 0) -> None:
        status = {"status": {"endpoint": {"host": "hub.example", "port": port or self.port}}}
        worker = Client(self.fleet.worker.transport(), "worker-admin")
        await worker.merge_patch(CLUSTERS, cluster, status, subresource="status")
        await self.fleet.worker.core.keys.ensure_root_ca(cluster)

    def certificate_of(self, cluster: str) -> str:
        found = self.fleet.worker.core.clusters.get(cluster)
        assert found is not None
        return found.uid

    def tunnelled_bytes(self) -> int:
        """Bytes that both ends of the tunnel hold for raw connections."""
        held = 0
        ends: list[HubTunnel | WorkerTunnel] = [*self.fleet.tunnels._tunnels.values(), *self.fleet.worker_tunnels]
        for end in ends:
            for raw in end._raw_connections.values():
                assert isinstance(raw, RawConnection)
                held += raw.send_buffer.pending + sum(map(len, raw._early_data))
                held += raw._transport.get_write_buffer_size() if raw._transport is not None else 0
        return held

    async def client_certificate(self, cluster: str, user: str = "jane") -> tuple[bytes, bytes]:
        csr, key = new_request(user, "system:masters")
        keys = self.fleet.worker.core.keys
        certificate = await keys.sign_request(csr, cluster, self.certificate_of(cluster), 3600, ["client auth"])
        return certificate, key


@pytest.fixture
async def ports(fleet: Fleet) -> AsyncIterator[Ports]:
    made = Ports(fleet)
    made.cluster_ports.start()
    await fleet.connect()
    await made.give_address()
    endpoint = {"status": {"endpoint": {"host": "hub.example", "port": made.port}}}
    await fleet.admin.merge_patch(MANAGED, "east", endpoint, "default", "status")
    assert made.cluster_ports.is_listening(made.port)
    try:
        yield made
    finally:
        made.cluster_ports.close()


async def test_the_certificate_is_that_of_the_cluster(ports: Ports) -> None:
    tls = trust(ports.authority)
    for name in NAMES:
        status, version = await request(ports.port, tls, "/version", name=name)
        assert (status, version["major"]) == (200, "1")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        await request(ports.port, tls, "/version", name="other.example")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unable to get local issuer|self-signed"):
        await request(ports.port, ports.fleet.tls, "/version")


async def test_a_client_works_there(ports: Ports) -> None:
    await work(ports.fleet.client(ports.url, "east-admin", trust(ports.authority)))
    await until(lambda: ports.cluster_ports.open_connections <= 1)


async def test_many_clients_at_once(ports: Ports) -> None:
    tls = trust(ports.authority)
    found = await asyncio.gather(*(request(ports.port, tls, "/version") for _ in range(150)))
    assert [status for status, _ in found] == [200] * 150
    await until(lambda: ports.cluster_ports.open_connections == 0)
    assert ports.fleet.worker.cluster_addresses.connection_count == 0


async def test_nothing_else_of_the_worker_is_there(ports: Ports) -> None:
    tls = trust(ports.authority)
    for path in ("/clusters/root/api", f"/clusters/{EAST}/api", "/clusters", "/clusters/*/api/v1/pods"):
        for token in ("", "east-admin", "worker-admin"):
            assert (await request(ports.port, tls, path, token))[0] == 404, path
    for path in ("/managedclusters/default/east/api", "/ui/", "/workers/w1/tunnel", "/join/ca.crt", "/backup"):
        assert (await request(ports.port, tls, path, "east-admin"))[0] == 404, path
    status, found = await request(ports.port, tls, "/openapi/v3", "east-admin")
    assert status == 200
    assert found["paths"]["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")


async def test_only_credentials_of_the_cluster_are_accepted(ports: Ports) -> None:
    tls = trust(ports.authority)
    namespaces = "/api/v1/namespaces"
    assert (await request(ports.port, tls, namespaces, "east-admin"))[0] == 200
    assert (await request(ports.port, tls, namespaces, "jane"))[0] == 403
    for token in ("hub-admin", "w1-token", "worker-admin", "unknown"):
        assert (await request(ports.port, tls, namespaces, token))[0] == 401, token


async def test_a_client_certificate_counts_in_its_cluster_only(ports: Ports) -> None:
    fleet, namespaces = ports.fleet, "/api/v1/namespaces"
    worker = Client(fleet.worker.transport(), "worker-admin")
    await worker.create(CLUSTERS, typed("core.shoal.dev/v1alpha1", "LogicalCluster", "default.west", spec={}))
    await fleet.admin.create(
        MANAGED, typed("infrastructure.cluster.x-k8s.io/v1alpha1", "ManagedCluster", "west", spec={}), "default"
    )
    west_port = free_port()
    await ports.give_address("default.west", west_port)
    status = {"status": {"assignedWorker": "w1", "endpoint": {"host": "hub.example", "port": west_port}}}
    await fleet.admin.merge_patch(MANAGED, "west", status, "default", "status")
    certificate, key = await ports.client_certificate(EAST)
    assert (await request(ports.port, trust(ports.authority, certificate, key), namespaces))[0] == 200
    west_authority = fleet.worker.core.keys.ca_bundle("default.west")
    assert (await request(west_port, trust(west_authority), "/version"))[0] == 200
    for port, authority in (
        (west_port, west_authority),
        (fleet.hub.port, fleet.hub.authority.certificate.decode()),
        (fleet.worker.port, fleet.worker.authority.certificate.decode()),
    ):
        with pytest.raises((ssl.SSLError, ConnectionError, IndexError)):
            await request(port, trust(authority, certificate, key), namespaces)
    # Signed by the authority of east, but for west.
    csr, other_key = new_request("jane", "system:masters")
    foreign = await fleet.worker.core.keys.sign_request(
        csr, EAST, ports.certificate_of("default.west"), 3600, ["client auth"]
    )
    assert (await request(ports.port, trust(ports.authority, foreign, other_key), namespaces))[0] == 401


async def test_a_worker_that_is_away_and_comes_back(ports: Ports) -> None:
    fleet, tls = ports.fleet, trust(ports.authority)
    for end in list(fleet.tunnels._tunnels.values()):
        end._connection.abort()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await request(ports.port, tls, "/version")
    await until(lambda: fleet.tunnels.connected_workers() == ["w1"])
    assert (await request(ports.port, tls, "/version"))[0] == 200


async def test_watches_end_with_the_tunnel_and_with_the_cluster(ports: Ports) -> None:
    fleet = ports.fleet
    east = fleet.client(ports.url, "east-admin", trust(ports.authority))
    made = await east.create(MAPS, config_map("one"), "default")
    events = east.watch(MAPS, "default", {"resourceVersion": made["metadata"]["resourceVersion"]})
    coming = asyncio.ensure_future(anext(events, None))
    await east.merge_patch(MAPS, "one", {"data": {"text": "changed"}}, "default")
    assert (await coming) is not None
    worker = Client(fleet.worker.transport(), "worker-admin")
    coming = asyncio.ensure_future(anext(events, None))
    await worker.merge_patch(CLUSTERS, EAST, {"metadata": {"finalizers": None}})
    await worker.delete(CLUSTERS, EAST)
    assert (await asyncio.gather(coming, return_exceptions=True))[0] is not made
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await request(ports.port, trust(ports.authority or fleet.worker.authority.certificate.decode()), "/version")


async def test_a_reader_that_does_not_read_costs_little_memory(ports: Ports) -> None:
    """Neither the worker's server nor an end of the tunnel holds more than a window."""
    fleet, updates = ports.fleet, 14
    local = Client(fleet.worker.transport(), "east-admin", cluster=EAST)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", ports.port, ssl=trust(ports.authority), server_hostname="localhost", limit=1024
    )
    made = await local.create(MAPS, config_map("large"), "default")
    query = f"watch=true&resourceVersion={made['metadata']['resourceVersion']}"
    head = f"GET /api/v1/namespaces/default/configmaps?{query} HTTP/1.1\r\nHost: x\r\n"
    writer.write(f"{head}Authorization: Bearer east-admin\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    for number in range(updates):
        await local.merge_patch(MAPS, "large", {"data": {"text": chr(97 + number) * 900_000}}, "default")
    await settled()
    assert ports.tunnelled_bytes() < 2 * INITIAL_CREDIT + 4 * MAX_PENDING
    received = b""
    async with asyncio.timeout(20):
        while received.count(b"MODIFIED") < updates:
            received += await reader.read(1_000_000)
    assert [received.count(bytes([97 + number]) * 100) > 0 for number in range(updates)] == [True] * updates
    for number in range(60):
        await local.merge_patch(MAPS, "large", {"data": {"text": f"{number % 10}" * 900_000}}, "default")
        assert ports.tunnelled_bytes() < 2 * INITIAL_CREDIT + 4 * MAX_PENDING
    # The server keeps the place of the watch in its history, not what was not read.
    unread = [connection.unread_bytes for connection in fleet.worker._http.unread]
    assert sum(unread) < 4 * 900_000
    writer.transport.abort()
    await until(lambda: fleet.worker.cluster_addresses.connection_count == 0)
    await until(lambda: ports.cluster_ports.open_connections == 0)


async def test_a_connection_that_says_nothing_is_closed_with_the_port_gone(ports: Ports) -> None:
    with socket.create_connection(("127.0.0.1", ports.port)) as silent:
        await until(lambda: ports.cluster_ports.open_connections == 1)
        await ports.fleet.admin.merge_patch(MANAGED, "east", {"status": {"endpoint": None}}, "default", "status")
        assert not ports.cluster_ports.is_listening(ports.port)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", ports.port)
        silent.close()
        await until(lambda: ports.cluster_ports.open_connections == 0)


async def test_connections_to_one_cluster_are_limited_at_the_worker(ports: Ports) -> None:
    ports.fleet.worker.cluster_addresses._max_connections = 8
    silent = [await asyncio.open_connection("127.0.0.1", ports.port) for _ in range(2)]
    await until(lambda: ports.fleet.worker.cluster_addresses.connection_count == 2)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await request(ports.port, trust(ports.authority), "/version")
    for _, writer in silent:
        writer.close()
    await until(lambda: ports.fleet.worker.cluster_addresses.connection_count == 0)
    assert (await request(ports.port, trust(ports.authority), "/version"))[0] == 200


async def test_what_is_no_tls_is_cut(ports: Ports) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", ports.port)
    writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
    async with asyncio.timeout(20):
        assert b"HTTP/1.1" not in await read_to_end(reader)
    writer.close()
    await until(lambda: ports.cluster_ports.open_connections == 0)
    assert ports.fleet.worker.cluster_addresses.connection_count == 0


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_an_upgrade_reaches_the_server_of_the_cluster(ports: Ports) -> None:
    """The server refuses to exec on a simulated node by its own words, not those of the tunnel."""
    tls = trust(ports.authority)
    reader, writer = await asyncio.open_connection("127.0.0.1", ports.port, ssl=tls, server_hostname="localhost")
    path = "/api/v1/namespaces/default/pods/p/exec?command=ls&stdout=true"
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer east-admin\r\n"
    writer.write(f"{head}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode())
    async with asyncio.timeout(20):
        answer = await reader.readuntil(b"\r\n\r\n")
    assert int(answer.split()[1]) in (404, 501)
    writer.close()


async def test_the_server_of_an_old_worker_refuses_the_method(ports: Ports) -> None:
    """It takes an OPEN frame of a raw connection for a request."""
    made = ports.fleet.worker.app.handle(local_request(Request("CONNECT", "/managedclusters/default/east")))
    assert isinstance(made, Response)
    assert made.status == 403


async def test_the_context_of_a_cluster_is_kept_and_renewed(ports: Ports) -> None:
    worker = ports.fleet.worker
    clock, pki = FakeClock(worker.core.clock.now()), worker.settings.directory
    contexts = ClusterTLSContexts(worker.core.keys, pki, clock)
    before = {file.name for file in pki.iterdir()}
    first = await contexts.context(EAST, "uid", ("a",))
    assert {file.name for file in pki.iterdir()} == before, "the chain is not left on disk"
    assert await contexts.context(EAST, "uid", ("a",)) is first
    assert len({await each for each in [contexts.context("default.west", "u", ("a",)) for _ in range(3)]}) == 1
    for other in (("uid", ("a", "b")), ("later", ("a",)), ("uid", ("a",))):
        assert await contexts.context(EAST, *other) is not first
    first = await contexts.context(EAST, "uid", ("a",))
    clock.step(LEAF_LIFETIME - RENEW_BEFORE - 60)
    assert await contexts.context(EAST, "uid", ("a",)) is first
    clock.step(120)
    renewed = await contexts.context(EAST, "uid", ("a",))
    assert renewed is not first
    contexts._on_keys_changed(EAST, "service-account")
    assert await contexts.context(EAST, "uid", ("a",)) is renewed
    contexts._on_keys_changed(EAST, "ca")
    assert await contexts.context(EAST, "uid", ("a",)) is not renewed


async def test_contexts_are_bounded(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_contexts, "MAX_CONTEXTS", 2)
    worker = ports.fleet.worker
    contexts = ClusterTLSContexts(worker.core.keys, worker.settings.directory, FakeClock())
    first = await contexts.context(EAST, "uid", ("a",))
    await contexts.context("default.west", "uid", ("a",))
    assert await contexts.context(EAST, "uid", ("a",)) is first
    await contexts.context("default.south", "uid", ("a",))
    assert list(contexts._contexts) == [EAST, "default.south"], "the one that was used longest ago goes"


async def test_the_stable_address_still_takes_tokens_only(ports: Ports) -> None:
    certificate, key = await ports.client_certificate(EAST)
    tls = trust(ports.fleet.hub.authority.certificate.decode(), certificate, key)
    with pytest.raises((ssl.SSLError, ConnectionError, IndexError)):
        await request(ports.fleet.hub.port, tls, "/managedclusters/default/east/api/v1/namespaces")
    await work(ports.fleet.east)
    with pytest.raises(Unauthorized):
        await ports.fleet.client(ports.fleet.address, "hub-admin").get(MAPS, "x", "default")
