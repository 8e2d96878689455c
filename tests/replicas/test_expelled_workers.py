"""Two hubs on one etcd: who is expelled at one opens nothing at the other, also after the Worker is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shoal.assemble.server.hub import ShoalServer, ShoalServerSettings, StoreSettings
from shoal.assemble.workers.join import HubTarget, ensure_membership
from shoal.assemble.workers.join_tokens import ca_cert_hash, create_token
from shoal.client.kubeconfig import new_client
from shoal.clock import SystemClock
from shoal.fleet.resources import WORKERS
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import NotFound, Unauthorized
from tests.etcd import Etcd, running_etcd
from tests.replicas.hub_pair import HOSTS, eventually

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with running_etcd() as etcd:
        yield etcd


async def test_at_both_hubs(etcd: Etcd, tmp_path: Path) -> None:
    store = StoreSettings("etcd", (etcd.endpoint,), prefix="/expelled")
    hubs: list[ShoalServer] = []
    clients = []
    try:
        for number, host in enumerate(HOSTS):
            settings = ShoalServerSettings(tmp_path / f"hub-{number}", host, 0, store=store, advertise_address=HOSTS[0])
            hubs.append(await ShoalServer.start(settings))
        first, second = (hub.client("test") for hub in hubs)
        token = await create_token(first, SystemClock().now(), 3600.0, worker="w1")
        target = HubTarget(None, hubs[0].server.url, token, ca_cert_hash(hubs[0].server.authority.certificate.decode()))
        (tmp_path / "w").mkdir()
        member = await ensure_membership(tmp_path / "w", "w1", target, "store", SystemClock())
        for hub, host in zip(hubs, HOSTS, strict=True):
            url = f"https://{host}:{hub.server.port}"
            clients.append(new_client(replace(member.endpoint, server=url), "test"))
            assert await clients[-1].get(WORKERS, "w1", infrav1.NAMESPACE)
        expelled = {"metadata": {"annotations": {"shoal.dev/expelled": "stolen"}}}
        await second.merge_patch(WORKERS, "w1", expelled, infrav1.NAMESPACE)
        for client in clients:
            with pytest.raises(Unauthorized):
                await client.get(WORKERS, "w1", infrav1.NAMESPACE)
        await second.delete(WORKERS, "w1", infrav1.NAMESPACE)

        async def is_gone() -> bool:
            try:
                await first.get(WORKERS, "w1", infrav1.NAMESPACE)
            except NotFound:
                return True
            return False

        await eventually(is_gone)
        worker = {"apiVersion": infrav1.API_VERSION, "kind": "Worker", "metadata": {"name": "w1"}, "spec": {}}
        for client in clients:
            with pytest.raises(Unauthorized):
                await client.create(WORKERS, worker, infrav1.NAMESPACE)
    finally:
        for client in clients:
            await client.close()
        for hub in hubs:
            await hub.stop()
