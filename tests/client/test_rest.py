"""The client over HTTPS and in process: the same calls, responses and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shoal.client.https import HttpsTransport
from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import SystemClock
from shoal.objects.errors import AlreadyExists, Conflict, Expired, Forbidden, NotFound, StatusError, Unauthorized
from shoal.runtime.informer import Informer
from tests.serving import Cluster, config_map, widget, widget_definition

MAPS = GroupVersionResource("", "v1", "configmaps")
SPACES = GroupVersionResource("", "v1", "namespaces", namespaced=False)
WIDGETS = GroupVersionResource("example.com", "v1", "widgets")
Talk = Callable[[Client], Awaitable[None]]


def talk(cluster: Cluster, how: str, work: Talk, token: str | None = None) -> None:
    """Runs the conversation: in the server's own loop without a socket, or over TLS in a loop of its own."""
    server = cluster.server
    token = server.token if token is None else token

    async def run() -> None:
        if how == "in-process":
            await work(Client(server.shoal.server.transport(), token, cluster=cluster.name))
            return
        transport = HttpsTransport(f"https://127.0.0.1:{server.port}", server.context)
        try:
            await work(Client(transport, token, cluster=cluster.name))
        finally:
            await transport.close()
            await asyncio.sleep(0.05)  # TLS says goodbye after that

    if how == "in-process":
        server.call(run())
    else:
        asyncio.run(run())


both = pytest.mark.parametrize("how", ["in-process", "https"])


@both
def test_a_brief_answer_says_which_object_and_which_revision(cluster: Cluster, how: str) -> None:
    async def work(client: Client) -> None:
        made = await client.create(MAPS, config_map("a", {"k": "1"}), "default", metadata_only=True)
        there = await client.get(MAPS, "a", "default")
        named = {field: there["metadata"][field] for field in ("name", "namespace", "uid", "resourceVersion")}
        assert made == {"metadata": named}
        with pytest.raises(AlreadyExists):
            await client.create(MAPS, config_map("a"), "default", metadata_only=True)
        changed = await client.update(MAPS, {**there, "data": {"k": "2"}}, metadata_only=True)
        assert int(changed["metadata"]["resourceVersion"]) > int(named["resourceVersion"])
        assert (await client.get(MAPS, "a", "default"))["data"] == {"k": "2"}
        await client.delete(MAPS, "a", "default", metadata_only=True)
        with pytest.raises(NotFound):
            await client.delete(MAPS, "a", "default", metadata_only=True)

    talk(cluster, how, work)


@both
def test_the_verbs(cluster: Cluster, how: str) -> None:
    async def work(client: Client) -> None:
        made = await client.create(MAPS, config_map("a", {"k": "1"}), "default")
        assert await client.get(MAPS, "a", "default") == made
        made["data"]["k"] = "2"
        new = await client.update(MAPS, made)
        assert new["data"] == {"k": "2"}
        new = await client.merge_patch(MAPS, "a", {"data": {"l": "3"}}, "default")
        assert new["data"] == {"k": "2", "l": "3"}
        applied = config_map("a", {"m": "4"}, namespace="default")
        new = await client.apply(MAPS, applied, "test")
        assert new["data"] == {"k": "2", "l": "3", "m": "4"}
        gone = await client.delete(MAPS, "a", "default")
        assert gone["status"] == "Success"
        await client.create(MAPS, config_map("b"), "default")
        await client.delete_all(MAPS, "default")
        assert (await client.list_all(MAPS, "default"))[0] == []

    talk(cluster, how, work)


@both
def test_refusals_are_exceptions(cluster: Cluster, how: str) -> None:
    async def work(client: Client) -> None:
        with pytest.raises(NotFound) as absent:
            await client.get(MAPS, "a", "default")
        assert (absent.value.message, absent.value.name) == ('configmaps "a" not found', "a")
        made = await client.create(MAPS, config_map("a"), "default")
        with pytest.raises(AlreadyExists):
            await client.create(MAPS, config_map("a"), "default")
        await client.merge_patch(MAPS, "a", {"data": {"k": "1"}}, "default")
        with pytest.raises(Conflict):
            await client.update(MAPS, made | {"data": {"k": "2"}})
        with pytest.raises(Conflict):
            await client.delete(MAPS, "a", "default", uid="other")
        with pytest.raises(Forbidden):
            await client.delete(SPACES, "default")

    talk(cluster, how, work)


@both
def test_identities_count_without_a_socket_too(cluster: Cluster, how: str) -> None:
    async def wrong(client: Client) -> None:
        with pytest.raises(Unauthorized):
            await client.list_all(MAPS)

    async def nobody(client: Client) -> None:
        with pytest.raises(Forbidden) as refused:
            await client.list_all(MAPS)
        assert 'User "system:anonymous" cannot list resource "configmaps"' in refused.value.message

    talk(cluster, how, wrong, "wrong")
    talk(cluster, how, nobody, "")


@both
def test_a_list_goes_page_by_page(cluster: Cluster, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.client.rest.PAGE_SIZE", 2)

    async def work(client: Client) -> None:
        for number in range(5):
            await client.create(MAPS, config_map(f"m{number}", labels={"even": str(number % 2)}), "default")
        found, revision = await client.list_all(MAPS)
        assert [obj["metadata"]["name"] for obj in found] == [f"m{number}" for number in range(5)]
        assert int(revision) >= int(found[-1]["metadata"]["resourceVersion"])
        found, _ = await client.list_all(MAPS, "default", labels="even=1")
        assert [obj["metadata"]["name"] for obj in found] == ["m1", "m3"]
        found, _ = await client.list_all(MAPS, "default", fields="metadata.name=m2")
        assert [obj["metadata"]["name"] for obj in found] == ["m2"]

    talk(cluster, how, work)


@both
def test_a_watch(cluster: Cluster, how: str) -> None:
    async def work(client: Client) -> None:
        _, revision = await client.list_all(MAPS, "default")
        events = client.watch(MAPS, "default", {"resourceVersion": revision, "timeoutSeconds": "1"})
        made = await client.create(MAPS, config_map("a"), "default")
        assert await anext(events) == {"type": "ADDED", "object": made}
        with pytest.raises(StopAsyncIteration):
            await anext(events)

    talk(cluster, how, work)


@both
def test_an_error_event_is_raised(cluster: Cluster, how: str) -> None:
    cluster.post("/api/v1/namespaces/default/configmaps", config_map("a")).ok()
    made = cluster.get("/api/v1/namespaces/default/configmaps/a").ok()
    cluster.post("/api/v1/namespaces/default/configmaps", config_map("b")).ok()

    async def trim() -> None:
        cache = cluster.server.shoal.server.core.cache
        cache.history.trim(cache.revision)

    cluster.server.call(trim())

    async def work(client: Client) -> None:
        query = {"resourceVersion": made["metadata"]["resourceVersion"]}
        with pytest.raises(Expired):
            await anext(client.watch(MAPS, "default", query))

    talk(cluster, how, work)


@both
def test_a_refused_watch_is_raised(cluster: Cluster, how: str) -> None:
    async def work(client: Client) -> None:
        with pytest.raises(StatusError) as refused:
            await anext(client.watch(MAPS, "default", {"labelSelector": "a==="}))
        assert refused.value.status_code == 400

    talk(cluster, how, work)


@both
def test_discovery(cluster: Cluster, how: str) -> None:
    cluster.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widget_definition()).ok()

    async def work(client: Client) -> None:
        found = dict(await client.preferred_resources())
        assert {"list", "watch", "deletecollection"} <= found[MAPS]
        assert "create" in found[WIDGETS]
        assert SPACES in found

    talk(cluster, how, work)


@both
def test_another_cluster_of_the_same_server(cluster: Cluster, how: str) -> None:
    async def work(client: Client) -> None:
        await client.create(MAPS, config_map("a", labels={"of": cluster.name}), "default")
        found, _ = await client.in_cluster("*").list_all(MAPS, labels=f"of={cluster.name}")
        assert [obj["metadata"]["annotations"]["shoal.dev/cluster"] for obj in found] == [cluster.name]
        assert (await client.in_cluster("root").get(SPACES, "default"))["metadata"]["name"] == "default"
        with pytest.raises(NotFound):
            await client.in_cluster("nowhere").list_all(MAPS)

    talk(cluster, how, work)


@both
def test_an_informer_follows_a_real_server(cluster: Cluster, how: str) -> None:
    cluster.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widget_definition()).ok()

    async def work(client: Client) -> None:
        told: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

        def changed(key: Key, old: dict[str, Any] | None, obj: dict[str, Any] | None) -> None:
            told.put_nowait((key[2], obj and obj["spec"]["size"]))

        await client.create(WIDGETS, widget("a", 1), "default")
        informer = Informer(client, WIDGETS, SystemClock())
        informer.add_event_handler(changed)
        task = asyncio.create_task(informer.run())
        try:
            async with asyncio.timeout(30):
                assert await told.get() == ("a", 1)
                await client.merge_patch(WIDGETS, "a", {"spec": {"size": 2}}, "default")
                assert await told.get() == ("a", 2)
                await client.delete(WIDGETS, "a", "default")
                assert await told.get() == ("a", None)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    talk(cluster, how, work)


def test_a_server_that_is_not_there(cluster: Cluster) -> None:
    async def run() -> None:
        transport = HttpsTransport("https://127.0.0.1:1", cluster.server.context)
        client = Client(transport)
        with pytest.raises(Unreachable, match=r"^https://127\.0\.0\.1:1 cannot be reached: "):
            await client.list_all(MAPS)
        with pytest.raises(Unreachable):
            await anext(client.watch(MAPS))
        await transport.close()

    asyncio.run(run())


def test_a_server_that_hangs_up_is_named_with_a_reason() -> None:
    async def run() -> None:
        listener = await asyncio.start_server(lambda _, writer: writer.transport.abort(), "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        transport = HttpsTransport(f"https://127.0.0.1:{port}", None)
        try:
            with pytest.raises(Unreachable, match=r"cannot be reached: \w+"):
                await Client(transport).list_all(MAPS)
        finally:
            await transport.close()
            listener.close()

    asyncio.run(run())


def test_names_are_quoted_in_paths() -> None:
    client = Client(HttpsTransport("https://x", None), cluster="c")
    assert client.resource_path(MAPS, "a/b?c", "n") == "/clusters/c/api/v1/namespaces/n/configmaps/a%2Fb%3Fc"
    roles = GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False)
    assert (
        client.resource_path(roles, "system:x")
        == "/clusters/c/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Ax"
    )
    assert Client(HttpsTransport("https://x", None)).resource_path(SPACES, "n", subresource="status") == (
        "/api/v1/namespaces/n/status"
    )
