"""A hosted cluster through the hub's stable address: over a worker's tunnel, and in one process."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import RESTConfig, Unreachable
from shoal.client.upgrade import upgrade
from shoal.clock import SystemClock
from shoal.objects.errors import Forbidden, NotFound, StatusError, Unauthorized, Unavailable
from shoal.objects.wire import ByteStream, Receiver, Request, Response
from shoal.runtime.informer import Informer
from tests.certificates import issue_client, signer_of
from tests.fleet.tunnel.conftest import BINDINGS, MANAGED, SPACES, Fleet, typed
from tests.fleet.tunnel.socket_pair import until

pytestmark = pytest.mark.anyio

NO_SUCH_PATH = b"404 page not found\n"
MAPS = GroupVersionResource("", "v1", "configmaps")
WORKERS = GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "workers")


def config_map(name: str, text: str = "") -> dict[str, Any]:
    return typed("v1", "ConfigMap", name, data={"text": text})


async def work(east: Client) -> None:
    """What a client does all day."""
    assert "default" in {space["metadata"]["name"] for space in (await east.list_all(SPACES))[0]}
    made = await east.create(MAPS, config_map("one"), "default")
    events = east.watch(MAPS, "default", {"resourceVersion": made["metadata"]["resourceVersion"]})
    coming = asyncio.ensure_future(anext(events))
    await east.merge_patch(MAPS, "one", {"data": {"text": "changed"}}, "default")
    event = await coming
    assert (event["type"], event["object"]["data"]) == ("MODIFIED", {"text": "changed"})
    await events.aclose()  # type: ignore[attr-defined]
    with pytest.raises(NotFound, match='configmaps "two" not found'):
        await east.get(MAPS, "two", "default")
    assert {kind.resource for kind, _ in await east.preferred_resources()} >= {"pods", "deployments", "configmaps"}
    for number in range(12):
        await east.create(MAPS, config_map(f"large-{number}", f"{number}" * 200_000), "default")
    found = await east.request("GET", east.resource_path(MAPS, namespace="default"))
    texts = [obj["data"]["text"] for obj in found["items"] if obj["metadata"]["name"].startswith("large-")]
    assert sorted(map(len, texts)) == [200_000] * 10 + [400_000] * 2


async def test_through_a_tunnel(fleet: Fleet) -> None:
    await fleet.connect()
    await work(fleet.east)


async def test_in_one_process(fleet: Fleet) -> None:
    fleet.tunnels.register("w1", fleet.worker.app.handle)
    await work(fleet.east)


async def test_without_a_socket_at_all(fleet: Fleet) -> None:
    """A client in the hub's process, large answers included."""
    await fleet.connect()
    east = Client(fleet.hub.transport(), "east-admin")
    text, path = "x" * 900_000, "/managedclusters/default/east/api/v1/namespaces/default/configmaps"
    for number in range(2):
        await east.request("POST", path, body=config_map(f"c{number}", text))
    assert [obj["data"]["text"] for obj in (await east.request("GET", path))["items"][:2]] == [text, text]


async def test_documents_name_the_address_they_were_asked_by(fleet: Fleet) -> None:
    """kubectl takes the addresses in the index of OpenAPI from the host's root."""
    await fleet.connect()
    index = await fleet.east.request("GET", "/openapi/v3")
    address = index["paths"]["apis/apps/v1"]["serverRelativeURL"]
    assert address.startswith("/managedclusters/default/east/openapi/v3/apis/apps/v1?hash=")
    path, _, query = address.partition("?hash=")
    document = await fleet.client(fleet.hub.url, "east-admin").request("GET", path, {"hash": query})
    assert "io.k8s.api.apps.v1.Deployment" in document["components"]["schemas"]


async def test_addresses_that_lead_nowhere(fleet: Fleet) -> None:
    """Who has a token that the cluster has accepted learns why."""
    with pytest.raises(Unavailable, match="the hub has just started and waits for its workers"):
        await fleet.east.get(SPACES, "default")
    await fleet.connect()
    assert await fleet.east.get(SPACES, "default")
    await fleet.assign("")
    with pytest.raises(Unavailable, match="ManagedCluster default/east is not assigned to a worker yet"):
        await fleet.east.get(SPACES, "default")
    await fleet.assign("w2")
    with pytest.raises(Unavailable, match='worker "w2" is not connected') as caught:
        await fleet.east.get(SPACES, "default")
    assert (caught.value.status_reason, caught.value.retry_after) == ("ServiceUnavailable", 1)
    await fleet.assign("w1")
    assert await fleet.east.get(SPACES, "default")
    await fleet.admin.merge_patch(MANAGED, "east", {"metadata": {"finalizers": None}}, "default")
    await fleet.admin.delete(MANAGED, "east", "default")
    with pytest.raises(NotFound, match=r'managedclusters.infrastructure.cluster.x-k8s.io "east" not found'):
        await fleet.east.get(SPACES, "default")


async def test_the_hosted_cluster_knows_its_own_people_only(fleet: Fleet, tmp_path: Path) -> None:
    await fleet.connect()
    for token in ("hub-admin", "w1-token", "nobody"):
        with pytest.raises(Unauthorized):
            await fleet.client(fleet.address, token).get(SPACES, "default")
    with pytest.raises(Forbidden, match='User "system:anonymous" cannot get resource "namespaces"'):
        await fleet.client(fleet.address, "").get(SPACES, "default")
    with pytest.raises(Unauthorized):
        await fleet.client(fleet.hub.url, "east-admin").get(SPACES, "default")
    await fleet.hub.core.keys.ensure_root_ca("root")
    signer = signer_of(fleet.hub.core.keys, "root")
    issued = issue_client(signer, "shoal-admin", ["system:masters"], cluster="root")
    (tmp_path / "client.pem").write_bytes(issued.key + issued.certificate)
    tls = ssl.create_default_context(cadata=fleet.hub.authority.certificate.decode())
    tls.load_cert_chain(tmp_path / "client.pem")
    assert await fleet.client(fleet.hub.url, "", tls).get(SPACES, "default")
    with pytest.raises(Forbidden, match='User "system:anonymous" cannot get resource "namespaces"'):
        await fleet.client(fleet.address, "", tls).get(SPACES, "default")


async def test_the_worker_itself_is_out_of_reach(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.fleet.tunnel.disclosure.STARTUP_SECONDS", 0.0)
    await fleet.connect()
    async with aiohttp.ClientSession() as session:
        for path, code in [
            ("/managedclusters/default/east/../../../api/v1/namespaces", 400),
            ("/managedclusters/default/east/%2e%2e/%2e%2e/api", 400),
            ("/managedclusters/default%2Feast%2F..%2Fapi", 400),
            ("/managedclusters/..%2Fclusters%2Froot/east/api", 404),
            ("/managedclusters/default/root/api/v1/namespaces", 401),
            ("/managedclusters/default/*/api/v1/namespaces", 404),
            ("/managedclusters//clusters/root/api", 401),
            ("/managedclusters/default/east/clusters/root/api/v1/namespaces", 404),
        ]:
            headers = {"authorization": "Bearer worker-admin"}
            url = aiohttp.client.URL(fleet.hub.url + path, encoded=True)  # type: ignore[attr-defined]
            async with session.get(url, headers=headers, ssl=fleet.tls) as answer:
                assert (path, answer.status) == (path, code)
                body = await answer.read()
                assert body == NO_SUCH_PATH or json.loads(body)["kind"] == "Status"


async def test_impersonation_is_the_hosted_clusters_to_allow(fleet: Fleet) -> None:
    await fleet.connect()
    for token, allowed in (("east-admin", True), ("jane", False)):
        east = fleet.client(fleet.address, token)
        east._headers |= {"impersonate-user": "carol"}
        body = typed("authentication.k8s.io/v1", "SelfSubjectReview", "")
        review = east.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=body)
        if allowed:
            assert (await review)["status"]["userInfo"]["username"] == "carol"
        else:
            with pytest.raises(Forbidden, match='User "jane" cannot impersonate resource "users"'):
                await review


@pytest.mark.parametrize("protocol", ["SPDY/3.1", "websocket"])
async def test_exec_is_refused_by_name(fleet: Fleet, protocol: str) -> None:
    await fleet.connect()
    hub = RESTConfig(fleet.hub.url, fleet.tls, "east-admin")
    with pytest.raises(StatusError, match=f"do not support an upgrade to {protocol}") as caught:
        await upgrade(hub, "/managedclusters/default/east/api/v1/x/watch", protocol, never)
    assert caught.value.status_code == 501


def never(stream: ByteStream) -> Receiver:
    raise AssertionError("nobody agreed")


@pytest.mark.parametrize(
    ("token", "worker", "protocol", "code", "said"),
    [
        ("", "w1", "shoal-tunnel", 403, 'User "system:anonymous" cannot create resource "workers/tunnel"'),
        ("nobody", "w1", "shoal-tunnel", 401, "Unauthorized"),
        ("east-admin", "w1", "shoal-tunnel", 401, "Unauthorized"),
        ("bob", "w1", "shoal-tunnel", 403, 'User "bob" cannot create resource "workers/tunnel"'),
        ("w1-token", "w2", "shoal-tunnel", 403, 'in API group "infrastructure.cluster.x-k8s.io" in the namespace'),
        ("w1-token", "w1", "websocket", 426, "a tunnel requires an upgrade to shoal-tunnel, not websocket"),
        ("w1-token", "W1", "shoal-tunnel", 404, "the server could not find the requested resource"),
    ],
)
async def test_who_may_keep_a_tunnel(
    fleet: Fleet, token: str, worker: str, protocol: str, code: int, said: str
) -> None:
    hub = RESTConfig(fleet.hub.url, fleet.tls, token)
    with pytest.raises(StatusError) as caught:
        await upgrade(hub, f"/workers/{worker}/tunnel", protocol, never)
    assert caught.value.status_code == code
    assert said in caught.value.message
    assert fleet.tunnels.connected_workers() == []


async def test_a_hub_that_is_not_there_or_not_trusted(fleet: Fleet) -> None:
    with pytest.raises(Unreachable, match="cannot be reached"):
        await upgrade(RESTConfig("https://127.0.0.1:1", fleet.tls, ""), "/", "x", never)
    with pytest.raises(Unreachable, match="certificate verify failed"):
        await upgrade(RESTConfig(fleet.hub.url, ssl.create_default_context(), ""), "/", "x", never)


async def test_a_cut_tunnel_comes_back_and_watches_go_on(fleet: Fleet) -> None:
    await fleet.connect()
    seen: list[str] = []
    east = fleet.east
    informer = Informer(east, MAPS, SystemClock())
    informer.add_event_handler(lambda key, old, new: seen.append(key[2]))
    watching = asyncio.create_task(informer.run())
    await east.create(MAPS, config_map("before"), "default")
    await until(lambda: "before" in seen)
    for end in list(fleet.tunnels._tunnels.values()):
        end._connection.abort()
    with pytest.raises(Unavailable, match='worker "w1" is not connected'):
        await east.get(SPACES, "default")
    await until(lambda: fleet.tunnels.connected_workers() == ["w1"])
    await east.create(MAPS, config_map("after"), "default")
    await until(lambda: "after" in seen)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


@pytest.mark.parametrize("how", ["expelled", "deleted"])
async def test_who_is_thrown_out_is_cut_off_at_once(fleet: Fleet, how: str) -> None:
    """With what is under way through its tunnel."""
    worker = typed("infrastructure.cluster.x-k8s.io/v1alpha1", "Worker", "w1", spec={})
    await fleet.admin.create(WORKERS, worker, "shoal-system")
    await fleet.connect()
    made = await fleet.east.create(MAPS, config_map("seen"), "default")
    events = fleet.east.watch(MAPS, "default", {"resourceVersion": made["metadata"]["resourceVersion"]})
    coming = asyncio.ensure_future(anext(events, None))
    await fleet.east.merge_patch(MAPS, "seen", {"data": {"text": "changed"}}, "default")
    assert (await coming) is not None
    await fleet.admin.merge_patch(WORKERS, "w1", {"spec": {"capacity": 3}}, "shoal-system")
    assert fleet.tunnels.connected_workers() == ["w1"], "any other change is none of its business"
    ended = asyncio.ensure_future(anext(events, None))
    await fleet.admin.delete(BINDINGS, "w1", "shoal-system")  # it would come again at once, and be asked
    if how == "expelled":
        away = {"metadata": {"annotations": {"shoal.dev/expelled": "stolen"}}}
        await fleet.admin.merge_patch(WORKERS, "w1", away, "shoal-system")
    else:
        await fleet.admin.delete(WORKERS, "w1", "shoal-system")
    assert (await ended) is None
    await until(lambda: fleet.tunnels.connected_workers() == [])
    with pytest.raises(Unavailable, match='worker "w1" is not connected'):
        await fleet.east.list_all(SPACES)


async def test_metrics_do_not_grow_with_paths(fleet: Fleet) -> None:
    await fleet.connect()
    for number in range(3):
        with pytest.raises(StatusError):
            await fleet.client(f"{fleet.hub.url}/managedclusters/ns-{number}/c", "").get(SPACES, "default")
    await fleet.east.get(SPACES, "default")
    lines = fleet.hub.core.metrics.render().decode().splitlines()
    labels = 'verb="GET",group="",version="",resource="managedclusters",subresource="",scope="",component="apiserver"'
    counted = [line for line in lines if line.startswith("apiserver_request_total") and labels[11:] in line]
    assert counted == [
        f'apiserver_request_total{{{labels},code="200"}} 1',
        f'apiserver_request_total{{{labels},code="403"}} 3',
    ]


async def test_requests_of_the_hub_itself(fleet: Fleet) -> None:
    """Only the hub's end of the tunnel reaches them; what clients send never has such a path."""
    seen: list[str] = []

    def answer(request: Request) -> Response:
        seen.append(request.path)
        return Response(201, b"{}")

    await fleet.connect(hub_requests=answer)
    sent = fleet.tunnels.handler_for("w1")(Request("POST", "/hub-requests/usertokens", body=b"{}"))
    response = await sent if isinstance(sent, Awaitable) else sent
    assert (response.status, seen) == (201, ["/hub-requests/usertokens"])
    for path in ("/hub-requests/usertokens", "//hub-requests/usertokens", "/../../hub-requests/usertokens"):
        with pytest.raises(StatusError):
            await fleet.east.request("POST", path, body={})
        with pytest.raises(StatusError):
            await fleet.admin.request("POST", path, body={})
    assert seen == ["/hub-requests/usertokens"]
