"""/readyz: a server is ready only while it could answer with what the store holds, and until it shuts down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.assemble.server.hub import StoreSettings
from tests.etcd import Etcd, running_etcd
from tests.serving import Cluster, Server, config_map

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with running_etcd() as etcd:
        yield etcd


@pytest.fixture(scope="module")
def server(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("data"), store=StoreSettings("etcd", (etcd.endpoint,)))
    yield server
    server.stop()


@pytest.fixture
def root(server: Server) -> Iterator[Cluster]:
    root = Cluster(server, "root")
    yield root
    root.close()


def test_it_is_not_ready_while_etcd_does_not_answer(etcd: Etcd, root: Cluster) -> None:
    assert root.get("/readyz").body == b"ok"
    assert "[+]cache ok" in root.get("/readyz?verbose").body.decode().splitlines()
    etcd.pause()
    try:
        # A process is not stopped in the moment it is told to.
        root.eventually(lambda: root.get("/readyz").status == 500)
        lines = root.get("/readyz").body.decode().splitlines()
        assert "[-]cache failed: the cache did not catch up with the store within 2 s" in lines
        assert lines[-1] == "readyz check failed"
        assert root.get("/readyz/cache").status == 500
        assert root.get("/livez").body == b"ok"
        assert root.get("/healthz").body == b"ok"
        excluded = root.get("/readyz?verbose&exclude=cache&exclude=store&exclude=none")
        assert excluded.status == 200
        assert "[+]cache excluded: ok" in excluded.body.decode()
        assert 'warn: some health checks cannot be excluded: no matches for "none"' in excluded.body.decode()
    finally:
        etcd.resume()
    root.eventually(lambda: root.get("/readyz").status == 200)


def test_it_says_that_it_is_about_to_stop_and_serves_on(etcd: Etcd, tmp_path: Path) -> None:
    server = Server(tmp_path, store=StoreSettings("etcd", (etcd.endpoint,), prefix="/leaving"))
    root = Cluster(server, "root")
    try:
        server.loop.call_soon_threadsafe(server.shoal.server.drain)
        root.eventually(lambda: root.get("/readyz").status == 500)
        assert "[-]shutdown failed: process is shutting down" in root.get("/readyz").body.decode()
        assert root.get("/livez").body == b"ok"
        made = root.post(MAPS, config_map("late"))
        assert (made.status, made.headers["connection"]) == (201, "close")
    finally:
        root.close()
        server.stop()
