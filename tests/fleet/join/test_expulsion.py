"""Expelled and deleted workers: their certificates open nothing, whatever happens to their Worker afterwards."""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.workers.join import HubMembership, HubTarget, ensure_membership
from shoal.assemble.workers.join_tokens import JoinError, ca_cert_hash, create_token
from shoal.client.kubeconfig import load, new_client
from shoal.clock import SystemClock
from shoal.fleet.worker.identity.csr import request_certificate
from shoal.fleet.worker.identity.keys import new_csr, new_key
from shoal.kinds.fleet import worker_join
from tests.fleet.join.members import (
    FLEET,
    NOTHING,
    WORKERS,
    WORKING,
    CertificateHolder,
    named,
    registered_worker,
)
from tests.serving import Cluster, Server

Object = dict[str, Any]
pytestmark = pytest.mark.anyio

CLOCK = SystemClock()
HOUR = 3600.0
EXPEL = {"metadata": {"annotations": {"shoal.dev/expelled": "stolen"}}}
PARDON = {"metadata": {"annotations": {"shoal.dev/expelled": None}}}


class Hub:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.server = Server(directory)
        self.root = Cluster(self.server, "root")

    def restart(self) -> None:
        self.close()
        self.server = Server(self.directory, self.server.port)
        self.root = Cluster(self.server, "root")

    def close(self) -> None:
        self.root.close()
        self.server.stop()

    async def token(self, **fields: Any) -> str:
        with tempfile.TemporaryDirectory() as directory:
            admin = load(self.root.kubeconfig(Path(directory) / "kubeconfig"))
            try:
                return await create_token(admin, time.time(), HOUR, **fields)
            finally:
                await admin.close()

    async def join(self, home: Path, name: str, store: str = "store") -> HubMembership:
        os.makedirs(home, exist_ok=True)
        target = HubTarget(None, self.url, await self.token(worker=name), ca_cert_hash(self.server.authority.decode()))
        return await ensure_membership(home, name, target, store, CLOCK)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server.port}"

    def holder(self, member: HubMembership, name: str) -> CertificateHolder:
        return CertificateHolder("127.0.0.1", self.server.port, member.endpoint.tls_context, name)

    def remove(self, name: str) -> None:
        """Deletes a Worker that hosts nothing."""
        self.root.delete(f"{WORKERS}/{name}").ok()
        self.root.eventually(lambda: self.root.get(f"{WORKERS}/{name}").status == 404)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    made = Hub(tmp_path_factory.mktemp("hub"))
    yield made
    made.close()


async def test_an_expelled_worker_does_not_come_back(hub: Hub, tmp_path: Path) -> None:
    member = await hub.join(tmp_path / "w", "gone")
    holder = hub.holder(member, "gone")
    assert holder.statuses() == WORKING
    hub.root.patch(f"{WORKERS}/gone", EXPEL).ok()
    assert holder.statuses() == NOTHING
    hub.remove("gone")
    assert holder.statuses() == NOTHING, "and no Worker is created"
    assert hub.root.get(f"{WORKERS}/gone").status == 404
    hub.root.post(WORKERS, registered_worker("gone")).ok()
    assert holder.statuses() == NOTHING, "another Worker of that name"
    hub.remove("gone")
    hub.restart()
    assert hub.holder(member, "gone").statuses() == NOTHING


async def test_the_name_joins_again_with_a_fresh_token(hub: Hub, tmp_path: Path) -> None:
    stolen = await hub.join(tmp_path / "stolen", "again")
    hub.root.patch(f"{WORKERS}/again", EXPEL).ok()
    with pytest.raises(JoinError, match="worker again was expelled"):
        await hub.join(tmp_path / "other", "again")
    hub.remove("again")
    fresh = await hub.join(tmp_path / "fresh", "again", "another store")
    assert hub.holder(fresh, "again").statuses() == WORKING
    assert hub.holder(stolen, "again").statuses() == NOTHING


async def test_an_expelled_worker_that_is_pardoned(hub: Hub, tmp_path: Path) -> None:
    member = await hub.join(tmp_path / "w", "pardoned")
    hub.root.patch(f"{WORKERS}/pardoned", EXPEL).ok()
    assert hub.holder(member, "pardoned").statuses() == NOTHING
    hub.root.patch(f"{WORKERS}/pardoned", PARDON).ok()
    assert hub.holder(member, "pardoned").statuses() == WORKING


async def test_with_the_namespace(hub: Hub, tmp_path: Path) -> None:
    member = await hub.join(tmp_path / "w", "spaceless")
    hub.root.patch(f"{WORKERS}/spaceless", EXPEL).ok()
    uid = hub.root.get("/api/v1/namespaces/shoal-system").ok()["metadata"]["uid"]
    hub.root.delete("/api/v1/namespaces/shoal-system").ok()

    def is_new() -> bool:
        found = hub.root.get("/api/v1/namespaces/shoal-system")
        return found.status == 200 and found["metadata"]["uid"] != uid

    hub.root.eventually(is_new)
    assert hub.holder(member, "spaceless").statuses() == NOTHING


async def test_a_deleted_worker_joins_again_with_a_token(hub: Hub, tmp_path: Path) -> None:
    """Its data stays where it is."""
    member = await hub.join(tmp_path / "w", "mistake")
    hub.remove("mistake")
    assert hub.holder(member, "mistake").statuses() == NOTHING
    with pytest.raises(JoinError, match="the certificate of worker mistake is no longer accepted") as caught:
        await ensure_membership(tmp_path / "w", "mistake", HubTarget(), "store", CLOCK)
    assert (caught.value.hint, caught.value.exit_code) == (
        "create a token at the hub: shoal join-token create --name mistake",
        4,
    )
    again = await hub.join(tmp_path / "w", "mistake")
    assert hub.holder(again, "mistake").statuses() == WORKING


async def test_a_renewed_certificate_is_of_the_same_worker(hub: Hub, tmp_path: Path) -> None:
    member = await hub.join(tmp_path / "w", "renewing")
    client, key = new_client(member.endpoint, "test"), new_key()
    try:
        certificate = await request_certificate(client, CLOCK, key, "renewing", "store")
    finally:
        await client.close()
    member.save_certificate(certificate, key)
    assert hub.holder(member, "renewing").statuses() == WORKING
    hub.remove("renewing")
    hub.root.post(WORKERS, registered_worker("renewing")).ok()
    assert hub.holder(member, "renewing").statuses() == NOTHING


async def test_a_request_that_is_signed_late(hub: Hub, tmp_path: Path) -> None:
    """It was approved for a Worker that is gone, and is not signed for the next of that name."""
    uid = "00000000-0000-4000-8000-000000000000"
    body = named(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        "late",
        spec={
            "signerName": worker_join.SIGNER_NAME,
            "usages": list(worker_join.KEY_USAGES),
            "request": base64.b64encode(new_csr(new_key(), "late")).decode(),
        },
    )
    hub.root.post(WORKERS, registered_worker("late")).ok()
    impersonated = {
        "Impersonate_User": "system:worker:late",
        "Impersonate_Group": "system:workers",
        "Impersonate_Uid": uid,
    }
    requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    made = hub.root.post(requests, body, **impersonated).ok()
    assert made["spec"]["uid"] == uid

    def conditions() -> list[Object]:
        found: list[Object] = hub.root.get(f"{requests}/late").ok()["status"].get("conditions") or []
        return found

    denied = hub.root.eventually(conditions)
    assert [(each["type"], each["message"]) for each in denied] == [("Denied", "worker late was deleted")]


async def test_a_watch_ends_with_the_expulsion(hub: Hub, tmp_path: Path) -> None:
    member = await hub.join(tmp_path / "w", "watching")
    client = new_client(member.endpoint, "test")
    path = f"{FLEET}/managedclusters?fieldSelector=status.assignedWorker%3Dwatching&watch=true"
    connection = hub.server.connect()
    connection._context = member.endpoint.tls_context  # type: ignore[attr-defined]
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200
        hub.root.patch(f"{WORKERS}/watching", EXPEL).ok()
        assert answer.read() == b""
    finally:
        connection.close()
        await client.close()


async def test_certificates_from_before_they_were_bound(hub: Hub, tmp_path: Path) -> None:
    """They work until they are renewed, and only for a Worker that has joined with one."""
    server = hub.server.shoal.server
    key = new_key()
    signed = server.core.keys.sign_request(new_csr(key, "old"), "root", "", HOUR, ["client auth"])
    certificate = hub.server.call(signed)
    (tmp_path / "old.pem").write_bytes(certificate + key)
    context = ssl.create_default_context(cadata=hub.server.authority.decode())
    context.load_cert_chain(tmp_path / "old.pem")
    holder = CertificateHolder("127.0.0.1", hub.server.port, context, "old")
    assert holder.statuses() == NOTHING
    hub.root.post(WORKERS, registered_worker("old")).ok()
    assert holder.statuses() == WORKING
    hub.root.patch(f"{WORKERS}/old", EXPEL).ok()
    assert holder.statuses() == NOTHING
    hub.remove("old")
    declared = registered_worker("old")
    del declared["metadata"]["annotations"]
    hub.root.post(WORKERS, declared).ok()
    assert holder.statuses() == NOTHING, "a declared Worker that nobody has joined"
    member = await hub.join(tmp_path / "w", "old")
    assert hub.holder(member, "old").statuses() == WORKING | {"create its Lease": 409}
    hub.root.patch(f"{WORKERS}/old", {"metadata": {"annotations": {"shoal.dev/store": "store"}}}).ok()
    assert holder.statuses() == NOTHING, "the Worker belongs to a later one"


async def test_reports_of_a_worker_without_worker_change_nothing(hub: Hub) -> None:
    """The receiver of the bus writes them as that worker."""
    space = f"{FLEET}/namespaces/default/managedclusters"
    hub.root.post(space, named("infrastructure.cluster.x-k8s.io/v1alpha1", "ManagedCluster", "east", spec={})).ok()
    hub.root.patch(f"{space}/east/status", {"status": {"assignedWorker": "ghost", "epoch": 1}}).ok()
    worker = {"Impersonate_User": "system:worker:ghost", "Impersonate_Group": "system:workers"}
    answer = hub.root.patch(f"{space}/east/status", {"status": {"phase": "Failed"}}, **worker)
    assert (answer.status, "its Worker does not exist" in answer["message"]) == (403, True)
