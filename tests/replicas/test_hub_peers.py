"""A hosted cluster answers at every hub of a store, whichever of them has the tunnel of its worker."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from shoal.apiserver.pki.ca import CertificateAuthority, server_tls_context
from shoal.assemble.server.hub import (
    HubWithWorkers,
    InProcessWorkers,
    ShoalServer,
    ShoalServerSettings,
    StoreSettings,
)
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import RESTConfig
from shoal.client.upgrade import upgrade
from shoal.fleet.resources import LEASES, MANAGED_CLUSTERS
from shoal.fleet.tunnel.frames import PROTOCOL
from shoal.fleet.tunnel.peers import TUNNEL_PATH
from shoal.fleet.tunnel.worker_end import WorkerTunnel
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import Forbidden, StatusError, Unauthorized, Unavailable
from shoal.objects.wire import ByteStream, Receiver
from tests.assemble.server.test_cluster_ports import some_range
from tests.etcd import Etcd, running_etcd
from tests.replicas.hub_pair import HOSTS, WORKER, HubPair, eventually, hub_pair
from tests.serving import config_map
from tests.serving_ports import request

pytestmark = pytest.mark.anyio

MAPS = GroupVersionResource("", "v1", "configmaps")
NAMESPACES = "/api/v1/namespaces"
_prefixes = itertools.count(1)


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with running_etcd() as etcd:
        yield etcd


@pytest.fixture
async def pair(etcd: Etcd, tmp_path: Path) -> AsyncIterator[HubPair]:
    store = StoreSettings("etcd", (etcd.endpoint,), prefix=f"/peers{next(_prefixes)}")
    async with hub_pair(tmp_path, store, some_range(3)) as pair:
        yield pair


async def at_port(pair: HubPair, hub: int, port: int) -> int:
    status, _ = await request(port, await pair.cluster_tls(), NAMESPACES, pair.token, host=HOSTS[hub])
    return status


def _always(url: str, worker: str) -> str:
    return url


async def work(client: Client, name: str) -> None:
    """Writes, reads, and sees a change in a watch."""
    made = await client.create(MAPS, config_map(name), "default")
    version = made["metadata"]["resourceVersion"]
    async with asyncio.timeout(20):
        events = client.watch(MAPS, "default", {"resourceVersion": version})
        change = asyncio.ensure_future(anext(events))
        await client.merge_patch(MAPS, name, {"data": {"text": "x" * 900_000}}, "default")
        event = await change
        assert event["type"] == "MODIFIED"
        assert event["object"]["metadata"]["name"] == name
        await events.aclose()  # type: ignore[attr-defined]
    assert len((await client.get(MAPS, name, "default"))["data"]["text"]) == 900_000


async def test_both_hubs_answer_wherever_the_tunnel_is(pair: HubPair) -> None:
    await pair.connect(1)
    port = await pair.create_east()
    for turn, holder in enumerate((1, 0, 1)):
        await pair.connect(holder)
        for hub in (0, 1):
            assert pair.hubs[hub].tunnels.is_connected(WORKER) == (hub == holder)
            await work(pair.east(hub), f"turn-{turn}-at-{hub}")
            assert await at_port(pair, hub, port) == 200
    status = (await pair.client.get(MANAGED_CLUSTERS, "east", "default"))["status"]
    assert status["endpoint"]["host"] == HOSTS[0]
    with pytest.raises(Unauthorized):
        await pair.east(0, "wrong").get(MAPS, "turn-0-at-0", "default")


async def test_many_clients_at_the_hub_without_the_tunnel(pair: HubPair) -> None:
    await pair.connect(1)
    port, tls = await pair.create_east(), await pair.cluster_tls()
    client = pair.east(0)
    await client.create(MAPS, config_map("shared", {"text": "x" * 200_000}), "default")
    maps = "/api/v1/namespaces/default/configmaps/shared"
    connections = [request(port, tls, maps, pair.token) for _ in range(60)]
    found = await asyncio.gather(*connections, *(client.get(MAPS, "shared", "default") for _ in range(60)))
    texts = [(each[1] if isinstance(each, tuple) else each)["data"]["text"] for each in found]
    assert texts == ["x" * 200_000] * 120
    holder, dialler = pair.hubs[1].hub_peers, pair.hubs[0].hub_peers
    assert holder is not None
    assert dialler is not None
    assert dialler.outgoing is not None
    assert dialler.outgoing.connected_hubs() == [pair.url(1)]
    assert holder.acceptor.tunnel_count == 1

    async def is_quiet() -> bool:
        return holder.acceptor.open_connections == 0

    await eventually(is_quiet)


async def test_a_hub_that_dies_is_an_error_until_the_worker_has_another(pair: HubPair) -> None:
    await pair.connect(1)
    port = await pair.create_east()
    client = pair.east(0)
    await work(client, "before")
    dead = pair.hubs.pop()
    await dead.stop()
    for _ in range(3):
        with pytest.raises(Unavailable, match='the hub of worker "w1" does not answer') as caught:
            await client.get(MAPS, "before", "default")
        assert caught.value.retry_after == 1
    with pytest.raises((OSError, IndexError)):
        await at_port(pair, 0, port)
    pair.connect_to = None
    await pair.connect(0)
    await work(client, "after")
    assert await at_port(pair, 0, port) == 200


async def test_hubs_that_take_each_other_for_the_holder_make_no_loop(pair: HubPair) -> None:
    await pair.connect(1)
    await pair.create_east()
    pair.connect_to = None
    pair.hubs[1].tunnels.disconnect(WORKER)
    await pair.until_hub("")
    # What each hub believes is what it reads: hub 1 of hub 0, hub 0 of hub 1.
    for hub, other in ((0, 1), (1, 0)):
        peers = pair.hubs[hub].hub_peers
        assert peers is not None
        assert peers.outgoing is not None
        peers.outgoing._hub_of = partial(_always, pair.url(other))
    for hub in (0, 1):
        with pytest.raises(Unavailable, match='worker "w1" is not connected') as caught:
            await pair.east(hub).get(MAPS, "x", "default")
        assert caught.value.retry_after == 1


async def test_only_hubs_open_tunnels_of_hubs(pair: HubPair) -> None:
    await pair.connect(0)
    await pair.create_east()
    peers = pair.hubs[0].hub_peers
    assert peers is not None

    def start(stream: ByteStream) -> Receiver:
        raise AssertionError("it was accepted")

    async def refusal(token: str, path: str = TUNNEL_PATH) -> StatusError:
        config = RESTConfig(pair.url(0), pair.tls, token)
        with pytest.raises(StatusError) as caught:
            await upgrade(config, path, PROTOCOL, start)
        return caught.value

    admin = pair.hubs[0].directory.admin_token()
    for token in ("", admin, pair.token, "token of w1", "x" * 64, "ÿ"):
        assert (await refusal(token)).status_code == 401
    assert (await refusal(peers._token, "/hubs/tunnel/")).status_code == 404
    assert peers.acceptor.tunnel_count == 0
    # And the token of hubs is nobody's at the API, nor in a hosted cluster.
    assert (await refusal(peers._token, f"/workers/{WORKER}/tunnel")).status_code == 401
    with pytest.raises(Unauthorized):
        await pair.east(0, peers._token).get(MAPS, "x", "default")


async def test_a_server_that_is_no_hub_gets_nothing(pair: HubPair, tmp_path: Path) -> None:
    """Even if somebody who may write Leases names it."""
    await pair.connect(0)
    await pair.create_east()
    pair.connect_to = None
    pair.hubs[0].tunnels.disconnect(WORKER)
    await pair.until_hub("")
    stranger = CertificateAuthority(tmp_path / "stranger")
    stranger.ensure_serving_certificate(["127.0.0.1"])
    handshakes: list[bytes] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handshakes.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(receive, "127.0.0.1", 0, ssl=server_tls_context(stranger.directory))
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    patch = {"metadata": {"annotations": {infrav1.TUNNEL_HUB_ANNOTATION: url}}}
    await pair.client.merge_patch(LEASES, infrav1.lease_name(WORKER), patch, infrav1.NAMESPACE)
    with pytest.raises(Unavailable, match='the hub of worker "w1" does not answer'):
        await pair.east(0).get(MAPS, "x", "default")
    server.close()
    assert b"".join(handshakes) == b""


async def test_a_worker_cannot_name_the_hub_of_its_tunnel(pair: HubPair) -> None:
    await pair.connect(0)
    worker = Client(pair.hubs[0].server.transport(), "token of w1", cluster="root")
    for value in ("https://elsewhere:6443", None):
        patch = {"metadata": {"annotations": {infrav1.TUNNEL_HUB_ANNOTATION: value}}}
        with pytest.raises(Forbidden, match=r"a worker may not set the annotation shoal\.dev/tunnel-hub"):
            await worker.merge_patch(LEASES, infrav1.lease_name(WORKER), patch, infrav1.NAMESPACE)


async def test_the_newest_of_two_tunnels_counts(pair: HubPair) -> None:
    """A worker that has connected to another hub may have left a connection that is dead and not noticed yet."""
    await pair.connect(0)
    await pair.create_east()
    left = pair.hubs[0].tunnels._tunnels[WORKER]
    worker = WorkerTunnel(WORKER, lambda request: None, pair.hubs[0].server.core.clock)  # type: ignore[arg-type,return-value]
    await upgrade(RESTConfig(pair.url(1), pair.tls, "token of w1"), f"/workers/{WORKER}/tunnel", PROTOCOL, worker.start)
    pair.connect_to = None

    async def is_left() -> bool:
        return left.is_closed and not pair.hubs[0].tunnels.is_connected(WORKER)

    await eventually(is_left)
    worker.close()
    await pair.until_hub("")


async def test_a_worker_in_the_process_of_a_hub(etcd: Etcd, tmp_path: Path) -> None:
    store, ports = StoreSettings("etcd", (etcd.endpoint,), prefix=f"/peers{next(_prefixes)}"), some_range(3)
    first, second = (
        ShoalServerSettings(tmp_path / host, host, 0, store=store, advertise_address=HOSTS[0], cluster_ports=ports)
        for host in HOSTS
    )
    up = await HubWithWorkers.start(first, InProcessWorkers(1))
    pair = HubPair([up.hub, await ShoalServer.start(second)])
    try:
        port = await pair.create_east()
        pair.worker = up.workers[0]
        tls = await pair.cluster_tls()
        for hub in (0, 1):
            await work(pair.east(hub), f"at-{hub}")
            assert (await request(port, tls, NAMESPACES, pair.token, host=HOSTS[hub]))[0] == 200
    finally:
        pair.worker = None
        pair.hubs.remove(up.hub)
        await pair.close()
        await up.stop()
