"""Clusters at ports of a hub: who gets one, what is served there, and what happens when hub, worker or port changes."""

from __future__ import annotations

import asyncio
import base64
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.server import port_listener
from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.assemble.server.port_listener import ConnectionBudget, PortListener
from shoal.client.rest import Client, GroupVersionResource
from shoal.fleet.resources import CSRS, LOGICAL_CLUSTERS, MANAGED_CLUSTERS, WORKERS
from shoal.fleet.tunnel.raw_connection import SocketHandler
from shoal.kinds.fleet.endpoint import PortRange
from shoal.objects.conditions import get_condition
from shoal.objects.errors import StatusError, Unavailable
from tests.serving_ports import free_port, new_request, request, trust

pytestmark = pytest.mark.anyio

Object = dict[str, Any]

PATIENCE = 60.0
SECRETS = GroupVersionResource("", "v1", "secrets")
SERVICES = GroupVersionResource("", "v1", "services")
ENDPOINTS = GroupVersionResource("", "v1", "endpoints")
SLICES = GroupVersionResource("discovery.k8s.io", "v1", "endpointslices")
NAMESPACES = "/api/v1/namespaces"


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class Up:
    def __init__(self, running: HubWithWorkers) -> None:
        self.running, self.client = running, running.hub.client("test")

    async def create_managed(self, name: str, **endpoint: object) -> None:
        api_version = "infrastructure.cluster.x-k8s.io/v1alpha1"
        spec = {"nodes": 0, "register": False, "onWorkerLost": "Move", "endpoint": {"type": "Port", **endpoint}}
        obj = {"apiVersion": api_version, "kind": "ManagedCluster", "metadata": {"name": name}, "spec": spec}
        await self.client.create(MANAGED_CLUSTERS, obj, "default")

    async def create_logical(self, name: str, **endpoint: object) -> None:
        spec = {"profile": "cluster", "endpoint": {"type": "Port", **endpoint}}
        obj = {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": name}}
        await self.client.create(LOGICAL_CLUSTERS, {**obj, "spec": spec})

    async def wait(self, gvr: GroupVersionResource, name: str, condition: Callable[[Object], object]) -> Object:
        async with asyncio.timeout(PATIENCE):
            while True:
                obj = await self.client.get(gvr, name, "default" if gvr.namespaced else "")
                if condition(obj):
                    return obj
                await asyncio.sleep(0.02)

    async def port_of(self, gvr: GroupVersionResource, name: str) -> int:
        obj = await self.wait(gvr, name, lambda each: (each.get("status") or {}).get("endpoint"))
        port = int(obj["status"]["endpoint"]["port"])
        ports = self.running.hub.cluster_ports
        assert ports is not None
        await until(lambda: ports.is_listening(port))
        return port

    async def refusal_of(self, gvr: GroupVersionResource, name: str) -> tuple[str, str]:
        obj = await self.wait(gvr, name, lambda each: get_condition(each, "EndpointReady"))
        condition = get_condition(obj, "EndpointReady")
        assert condition is not None
        assert condition["status"] == "False"
        return condition["reason"], condition["message"]

    async def kubeconfig_token(self, name: str) -> str:
        await self.wait(MANAGED_CLUSTERS, name, lambda each: each["status"].get("phase") == "Running")
        secret = await self.client.get(SECRETS, f"{name}-kubeconfig", "default")
        text = base64.b64decode(secret["data"]["value"]).decode()
        return text.partition("token: ")[2].split()[0].strip("\"'")

    def worker_hosting(self, name: str) -> Any:
        for worker in self.running.workers:
            if worker.shoal.server.core.clusters.get(f"default.{name}") is not None:
                return worker.shoal.server
        raise AssertionError(name)


@asynccontextmanager
async def up(directory: Path, ports: PortRange, workers: int = 0, port: int = 0) -> AsyncIterator[Up]:
    settings = ShoalServerSettings(directory, port=port, cluster_ports=ports)
    running = await HubWithWorkers.start(settings, InProcessWorkers(workers))
    try:
        yield Up(running)
    finally:
        await running.stop()


def some_range(size: int) -> PortRange:
    """A range of ports that are free now."""
    while True:
        first = free_port()
        if first + size > 65_535:
            continue
        taken: list[socket.socket] = []
        try:
            for number in range(size):
                taken.append(socket.create_server(("127.0.0.1", first + number)))
        except OSError:
            continue
        finally:
            for each in taken:
                each.close()
        return PortRange(first, first + size - 1)


async def test_a_managed_cluster_at_its_port(tmp_path: Path) -> None:
    """With a worker in the hub's process: the same as through a tunnel, without one."""
    ports = some_range(3)
    async with up(tmp_path, ports, workers=1) as made:
        await made.create_managed("east")
        port = await made.port_of(MANAGED_CLUSTERS, "east")
        assert port == ports.first
        token = await made.kubeconfig_token("east")
        worker = made.worker_hosting("east")
        await until(lambda: worker.core.clusters.get("default.east").endpoint == ("127.0.0.1", port))
        tls = trust(await worker.core.keys.ensure_root_ca("default.east"))
        for name in ("127.0.0.1", "10.0.0.1", "kubernetes.default.svc", "localhost"):
            status, found = await request(port, tls, NAMESPACES, token, name=name)
            assert (status, found["kind"]) == (200, "NamespaceList")
        hub_token = made.running.hub.directory.admin_token()
        assert (await request(port, tls, NAMESPACES, hub_token))[0] == 401
        assert (await request(port, tls, NAMESPACES))[0] == 403
        assert (await request(port, tls, "/clusters/root/api", token))[0] == 404
        with pytest.raises(ssl.SSLCertVerificationError):
            await request(port, trust(made.running.hub.server.authority.certificate.decode()), "/version")
        await check_kubernetes_service(Client(worker.transport(), token, cluster="default.east"), port)


async def check_kubernetes_service(client: Client, port: int) -> None:
    service = await client.get(SERVICES, "kubernetes", "default")
    assert service["spec"]["ports"] == [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]
    endpoints = await client.get(ENDPOINTS, "kubernetes", "default")
    assert endpoints["subsets"] == [
        {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}
    ]
    slices = await client.get(SLICES, "kubernetes", "default")
    assert slices["endpoints"][0]["addresses"] == ["127.0.0.1"]
    assert slices["ports"][0]["port"] == port


async def test_a_client_certificate_from_a_request_in_the_cluster(tmp_path: Path) -> None:
    """For a LogicalCluster of the hub itself."""
    async with up(tmp_path, some_range(3)) as made:
        await made.create_logical("team")
        await made.create_logical("other")
        port = await made.port_of(LOGICAL_CLUSTERS, "team")
        other_port = await made.port_of(LOGICAL_CLUSTERS, "other")
        certificate, key = await signed_certificate(made.client.in_cluster("team"))
        keys = made.running.hub.server.core.keys
        team, other = await keys.ensure_root_ca("team"), await keys.ensure_root_ca("other")
        status, found = await request(port, trust(team, certificate, key), NAMESPACES)
        assert (status, 'User "jane" cannot list resource "namespaces"' in found["message"]) == (403, True)
        hub = made.running.hub.server
        for there, authority in ((other_port, other), (hub.port, hub.authority.certificate.decode())):
            with pytest.raises((ssl.SSLError, ConnectionError, IndexError)):
                await request(there, trust(authority, certificate, key), NAMESPACES)
        await check_kubernetes_service(made.client.in_cluster("team"), port)


async def signed_certificate(client: Client) -> tuple[bytes, bytes]:
    csr, key = new_request("jane")
    spec = {
        "request": base64.b64encode(csr).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    }
    obj = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "jane"}}
    made = await client.create(CSRS, {**obj, "spec": spec})
    approved = {"type": "Approved", "status": "True", "reason": "Test", "message": "test"}
    await client.update(CSRS, {**made, "status": {"conditions": [approved]}}, "approval")
    async with asyncio.timeout(PATIENCE):
        while True:
            found = (await client.get(CSRS, "jane")).get("status", {}).get("certificate")
            if found:
                return base64.b64decode(found), key
            await asyncio.sleep(0.02)


async def test_the_service_follows_the_address_and_watches_see_it(tmp_path: Path) -> None:
    async with up(tmp_path, some_range(2)) as made:
        await made.create_logical("team", type="None")
        client = made.client.in_cluster("team")
        hub_port = made.running.hub.server.port
        await check_kubernetes_service(client, hub_port)
        _, revision = await client.list_all(ENDPOINTS)
        events = client.watch(ENDPOINTS, "default", {"resourceVersion": revision})
        coming = asyncio.ensure_future(anext(events))
        await made.client.merge_patch(LOGICAL_CLUSTERS, "team", {"spec": {"endpoint": {"type": "Port"}}})
        port = await made.port_of(LOGICAL_CLUSTERS, "team")
        event = await asyncio.wait_for(coming, PATIENCE)
        assert (event["type"], event["object"]["subsets"][0]["ports"][0]["port"]) == ("MODIFIED", port)
        assert int(event["object"]["metadata"]["resourceVersion"]) > int(revision)
        await events.aclose()  # type: ignore[attr-defined]
        await check_kubernetes_service(client, port)
        await made.client.merge_patch(LOGICAL_CLUSTERS, "team", {"spec": {"endpoint": {"type": "None"}}})
        await made.wait(LOGICAL_CLUSTERS, "team", lambda each: "endpoint" not in each["status"])
        await check_kubernetes_service(client, hub_port)
        ports = made.running.hub.cluster_ports
        assert ports is not None
        assert not ports.is_listening(port)


async def test_a_full_range_and_ports_that_are_asked_for(tmp_path: Path) -> None:
    ports = some_range(2)
    async with up(tmp_path, ports) as made:
        await made.create_logical("one", port=ports.last)
        assert await made.port_of(LOGICAL_CLUSTERS, "one") == ports.last
        await made.create_logical("two", port=ports.last)
        reason = "PortTaken", f"port {ports.last} belongs to LogicalCluster one"
        assert await made.refusal_of(LOGICAL_CLUSTERS, "two") == reason
        await made.create_managed("outside", port=6443)
        reason = "PortOutOfRange", f"port 6443 is not in the hub's range {ports}"
        assert await made.refusal_of(MANAGED_CLUSTERS, "outside") == reason
        await made.create_managed("three")
        assert await made.port_of(MANAGED_CLUSTERS, "three") == ports.first
        await made.create_managed("four")
        reason = "PortRangeFull", f"all ports of the hub's range {ports} are in use: widen --cluster-ports"
        assert await made.refusal_of(MANAGED_CLUSTERS, "four") == reason
        await made.client.delete(LOGICAL_CLUSTERS, "one")
        ends = {await made.port_of(LOGICAL_CLUSTERS, "two")} if await has_port(made, "two") else set()
        assert ends <= {ports.last}


async def has_port(made: Up, name: str) -> bool:
    """The port that became free goes to one of those that wait."""
    async with asyncio.timeout(PATIENCE):
        while True:
            two = await made.client.get(LOGICAL_CLUSTERS, name)
            four = await made.client.get(MANAGED_CLUSTERS, "four", "default")
            if (two["status"].get("endpoint") or four["status"].get("endpoint")) is not None:
                return "endpoint" in two["status"]
            await asyncio.sleep(0.02)


async def test_a_restarted_hub_has_the_same_ports_and_certificates(tmp_path: Path) -> None:
    ports = some_range(4)
    async with up(tmp_path, ports) as made:
        await made.create_logical("gone")
        await made.port_of(LOGICAL_CLUSTERS, "gone")
        await made.create_logical("team")
        port = await made.port_of(LOGICAL_CLUSTERS, "team")
        authority = await made.running.hub.server.core.keys.ensure_root_ca("team")
        await made.client.delete(LOGICAL_CLUSTERS, "gone")
        await until(lambda: made.running.hub.server.core.clusters.get("gone") is None)
        assert (await request(port, trust(authority), "/version"))[0] == 200
    async with up(tmp_path, ports) as made:
        assert await made.port_of(LOGICAL_CLUSTERS, "team") == port == ports.first + 1
        assert (await request(port, trust(authority), "/version"))[0] == 200


async def test_a_cluster_that_moves_keeps_port_and_authority(tmp_path: Path) -> None:
    async with up(tmp_path, some_range(2), workers=2) as made:
        await made.create_managed("east")
        port = await made.port_of(MANAGED_CLUSTERS, "east")
        token = await made.kubeconfig_token("east")
        managed = await made.client.get(MANAGED_CLUSTERS, "east", "default")
        first = managed["status"]["assignedWorker"]
        tls = trust(await made.worker_hosting("east").core.keys.ensure_root_ca("default.east"))
        await until_served(port, tls, token)
        await made.client.merge_patch(WORKERS, first, {"spec": {"drain": True}}, "shoal-system")
        moved = await made.wait(
            MANAGED_CLUSTERS,
            "east",
            lambda each: (
                each["status"].get("assignedWorker") not in ("", None, first) and each["status"]["phase"] == "Running"
            ),
        )
        assert moved["status"]["endpoint"]["port"] == port
        await until_served(port, tls, token)


async def until_served(port: int, tls: ssl.SSLContext, token: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                if (await request(port, tls, NAMESPACES, token))[0] == 200:
                    return
            except (OSError, IndexError):
                pass
            await asyncio.sleep(0.05)


# --- one port ---


class Taken:
    """Takes connections over and keeps them."""

    def __init__(self) -> None:
        self.sockets: list[tuple[socket.socket, Callable[[], None]]] = []
        self.refusal: StatusError | None = None

    async def get_handler(self) -> SocketHandler:
        if self.refusal is not None:
            raise self.refusal
        return lambda sock, client, on_closed: self.sockets.append((sock, on_closed))

    def close_one(self) -> None:
        sock, on_closed = self.sockets.pop()
        sock.close()
        on_closed()


async def closed_at_once(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(PATIENCE):
        assert await reader.read() == b""
    writer.close()


async def test_a_port_that_is_taken_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(port_listener, "FIRST_PAUSE", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        listener = PortListener("127.0.0.1", port, Taken().get_handler, ConnectionBudget(10), 10)
        listener.start()
        await asyncio.sleep(0.05)
        assert not listener.is_listening
    await until(lambda: listener.is_listening)
    listener.close()
    assert [each.message for each in caplog.records] == [
        f"port {port} of a cluster: cannot listen: address already in use"
    ]


async def test_connections_are_limited_for_a_port_and_for_all(caplog: pytest.LogCaptureFixture) -> None:
    budget, taken, port = ConnectionBudget(3), Taken(), free_port()
    listener = PortListener("127.0.0.1", port, taken.get_handler, budget, 2)
    listener.start()
    clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    await until(lambda: len(taken.sockets) == 2)
    await closed_at_once(port)
    await closed_at_once(port)
    taken.close_one()
    clients.append(await asyncio.open_connection("127.0.0.1", port))
    await until(lambda: len(taken.sockets) == 2)
    assert (listener.open_connections, budget.open_connections) == (2, 2)
    taken.close_one()
    budget.open_connections += 2
    await closed_at_once(port)
    listener.close()
    taken.close_one()
    assert (listener.open_connections, budget.open_connections) == (0, 2)
    for _, writer in clients:
        writer.close()
    said = [each.message for each in caplog.records]
    assert said == [f"port {port} of a cluster: too many connections: 2 at this port"]


async def test_a_connection_that_nobody_takes_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    taken, port = Taken(), free_port()
    listener = PortListener("127.0.0.1", port, taken.get_handler, ConnectionBudget(3), 2)
    listener.start()
    taken.refusal = Unavailable('worker "w1" is not connected')
    for _ in range(5):
        await closed_at_once(port)
    assert listener.open_connections == 0
    listener.close()
    said = [each.message for each in caplog.records if each.name == "shoal.fleet"]
    assert said == [f'port {port} of a cluster: worker "w1" is not connected']


async def test_a_connection_that_arrives_while_the_port_closes_is_closed() -> None:
    """The task that hands it over is cancelled before it begins."""
    budget, taken, port = ConnectionBudget(3), Taken(), free_port()
    listener = PortListener("127.0.0.1", port, taken.get_handler, budget, 2)
    listener.start()
    with socket.create_connection(("127.0.0.1", port)) as client:
        listener._accept()
        assert listener.open_connections == 1
        listener.close()
        await until(lambda: listener.open_connections == 0)
        assert (taken.sockets, budget.open_connections) == ([], 0)
        client.setblocking(False)
        assert client.recv(1) == b""
