"""Controllers write only while their server holds the lease: a paused one writes nothing when it resumes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from shoal.apiserver.inprocess import InProcessTransport
from shoal.assemble.server.hub import StoreSettings
from shoal.client.rest import Client
from shoal.objects.errors import Unavailable
from shoal.objects.wire import Answer, Request, Response
from shoal.store.etcd import EtcdStore
from shoal.store.fencing import FencedError, current_lease_check, fenced_by
from tests.etcd import running_etcd
from tests.leases import MAPS, every_write
from tests.serving import Server, config_map


@pytest.fixture
async def store() -> AsyncIterator[EtcdStore]:
    with running_etcd() as etcd:
        store = await EtcdStore.open(etcd.settings())
        yield store
        await store.close()


async def test_nothing_is_written_without_the_lease(store: EtcdStore) -> None:
    made = await store.put("core/x/root/default/a", b"1", 0)
    with fenced_by(lambda: False):
        writes = [
            store.put("core/x/root/default/a", b"2", made),
            store.put("core/x/root/default/b", b"2", 0),
            store.delete("core/x/root/default/a", made),
        ]
    # Where the condition was set counts, not where one waits.
    for write in writes:
        with pytest.raises(FencedError, match="lost its lease"):
            await write
    with fenced_by(lambda: True):
        await store.put("core/x/root/default/c", b"3", 0)
    found, _ = await store.range("core/x/")
    assert [(item.key[-1], item.value) for item in found] == [("a", b"1"), ("c", b"3")]


async def test_it_is_looked_at_again_at_every_try(store: EtcdStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that etcd does not answer takes seconds, and the lease may have another holder after it."""
    held, tried = [True], []
    once = store._connection.call_once

    async def refused(method: object, request: object) -> object:
        tried.append(request)
        held[0] = False
        monkeypatch.setattr(store._connection, "call_once", once)
        raise store._connection.store_error(store._connection.member, Unanswered())

    monkeypatch.setattr(store._connection, "call_once", refused)
    with fenced_by(lambda: held[0]):
        write = store.put("core/x/root/default/a", b"1", 0)
    with pytest.raises(FencedError):
        await write
    assert len(tried) == 1
    assert await store.get("core/x/root/default/a") is None


class Unanswered:
    def code(self) -> object:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "nobody there"


def test_a_loop_that_wakes_too_late_writes_nothing(tmp_path: Path) -> None:
    """Through the whole server: every way to write, and none of them after the lease."""
    with running_etcd() as etcd:
        server = Server(tmp_path, store=StoreSettings("etcd", (etcd.endpoint,)))
        try:
            server.call(_write_with_and_without(server))
        finally:
            server.stop()


async def _write_with_and_without(server: Server) -> None:
    valid = [True]
    transport = server.shoal.server.transport().with_fence(lambda: valid[0])
    loop = Client(transport, server.token, cluster="root")
    plain = Client(server.shoal.server.transport(), server.token, cluster="root")
    made = await loop.create(MAPS, config_map("a", {"n": "1"}), "default")
    valid[0] = False
    for write in every_write(loop, made):
        with pytest.raises(Unavailable, match="lost its lease"):
            await write
    # It may look, and others may write meanwhile.
    assert await loop.get(MAPS, "a", "default") == made
    await plain.create(MAPS, config_map("c"), "default")
    found, _ = await plain.list_all(MAPS, "default")
    assert {item["metadata"]["name"] for item in found} - {"kube-root-ca.crt"} == {"a", "c"}
    valid[0] = True
    await loop.delete(MAPS, "a", "default")


async def test_only_writes_of_a_fenced_transport_have_the_condition() -> None:
    seen: list[tuple[str, bool]] = []

    def handler(request: Request) -> Answer:
        seen.append((request.method, current_lease_check() is not None))
        return Response(200, b"{}")

    plain = InProcessTransport(handler)
    fenced = plain.with_fence(lambda: True)
    for transport in (plain, fenced):
        for method in ("GET", "POST"):
            await transport.request(method, "/", "", {}, b"")
    assert seen == [("GET", False), ("POST", False), ("GET", False), ("POST", True)]
    assert current_lease_check() is None
