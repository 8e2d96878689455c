"""The Secrets in which workers beside a hub find their join token, through all that happens to a worker."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.assemble.server.shoal_server import ShoalServer, ShoalServerSettings
from shoal.assemble.workers.join_secret_file import JoinSecretFileError, join_secret_settings, read_join_secrets
from shoal.client.rest import Client
from shoal.fleet.join.controller import ensure_worker_namespace
from shoal.fleet.join.join_secrets import (
    TOKEN_LABEL,
    HubIdentity,
    JoinSecretReconciler,
    JoinSecrets,
    JoinSecretSettings,
)
from shoal.fleet.resources import SECRETS, WORKERS
from shoal.kinds.fleet import infrav1, worker_join
from shoal.objects.errors import NotFound, ShoalError
from tests.controlplane.world import World, world
from tests.faults.processes import Up
from tests.fleet.fleets import eventually, running
from tests.serving_ports import free_port

Object = dict[str, Any]
pytestmark = pytest.mark.anyio

NAMESPACE = "default"
ADDRESS = "https://shoal-hub.shoal-system.svc:6443"
CA = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


class Release:
    """A hub with the reconciler alone, and the cluster in which it runs: a logical cluster of the same server."""

    def __init__(self, made: World, host: Client) -> None:
        self.world, self.hub, self.host, self.clock = made, made.client, host, made.clock
        self.identity = HubIdentity(CA, "shoal-server")
        self.file = JoinSecrets(ADDRESS, {"far": (NAMESPACE, "far-join")})
        self.file_error = ""

    def _read(self) -> JoinSecrets:
        if self.file_error:
            raise ShoalError(self.file_error)
        return self.file

    def _connect(self) -> Client:
        return Client(self.world.server.transport(), "admin", cluster="host")

    @asynccontextmanager
    async def reconciled(self) -> AsyncIterator[None]:
        client = Client(self.world.server.transport(), "admin", cluster="root")
        settings = JoinSecretSettings(self._read, self._connect)
        reconciler = JoinSecretReconciler(client, self.clock, settings, lambda: self.identity)
        async with running([reconciler.controller]):
            yield

    async def secret(self, name: str = "far-join") -> None:
        """As the chart creates it."""
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "Opaque"}
        await self.host.create(SECRETS, body, NAMESPACE)

    async def worker(self, ready: str = "True", **annotations: str) -> Object:
        await ensure_worker_namespace(self.hub)
        marks = {f"shoal.dev/{key}": value for key, value in annotations.items()}
        body = {
            "apiVersion": infrav1.API_VERSION,
            "kind": infrav1.WORKER,
            "metadata": {"name": "far", "annotations": marks},
            "spec": {"infrastructure": "external"},
        }
        made = await self.hub.create(WORKERS, body, infrav1.NAMESPACE)
        return await self.heard(made, ready)

    async def heard(self, worker: Object, ready: str) -> Object:
        at = "2026-01-01T00:00:00Z"
        condition = {"type": "Ready", "status": ready, "reason": "R", "message": "", "lastTransitionTime": at}
        status = {**(worker.get("status") or {}), "conditions": [condition]}
        return await self.hub.update(WORKERS, {**worker, "status": status}, "status")

    async def data(self, name: str = "far-join") -> dict[str, str]:
        found = (await self.host.get(SECRETS, name, NAMESPACE)).get("data") or {}
        return {key: base64.b64decode(value).decode() for key, value in found.items()}

    async def states(self, state: str, name: str = "far-join") -> Object:
        """The user in the kubeconfig, once the Secret has that state."""

        async def look() -> Object | None:
            data = await self.data(name)
            if data.get("state") != state:
                self.clock.step(1.0)
                return None
            user: Object = yaml.safe_load(data["kubeconfig"])["users"][0]
            return user

        found = await self.world.eventually(look)
        assert found is not None
        return dict(found["user"])

    async def tokens(self) -> list[worker_join.BootstrapToken]:
        found, _ = await self.hub.list_all(SECRETS, worker_join.TOKEN_NAMESPACE, labels="shoal.dev/join-secret=far")
        return [token for each in found if (token := worker_join.token_from_secret(each)) is not None]

    async def has_no_tokens(self) -> None:
        async def look() -> bool:
            return await self.tokens() == []

        await self.world.eventually(look)

    async def passes(self, look: Any) -> None:
        """Time goes by until it is so."""

        async def looked() -> bool:
            self.clock.step(10.0)
            return bool(await look())

        await self.world.eventually(looked)


@pytest.fixture
async def release(tmp_path: Path) -> AsyncIterator[Release]:
    async with world(tmp_path, loops=False) as made:
        yield Release(made, await made.cluster("host"))


async def test_a_worker_finds_a_token_until_it_has_joined(release: Release) -> None:
    await release.secret()
    async with release.reconciled():
        user = await release.states("Waiting")
        (token,) = await release.tokens()
        assert user == {"token": f"{token.id}.{token.secret}"}
        assert (token.worker, token.reusable) == ("far", False), "it admits nobody else"
        assert token.expires_at is not None
        assert token.expires_at - release.clock.now() <= 3600
        cluster = yaml.safe_load((await release.data())["kubeconfig"])["clusters"][0]["cluster"]
        assert cluster == {
            "server": ADDRESS,
            "certificate-authority-data": base64.b64encode(CA.encode()).decode(),
            "tls-server-name": "shoal-server",
        }
        worker = await release.worker(store="s")
        assert await release.states("Joined") == {}
        await release.has_no_tokens()
        # It may have lost its certificate meanwhile, and has its store: another token helps.
        worker = await release.heard(worker, "Unknown")
        again = await release.states("Waiting")
        assert again["token"] != user["token"]
        await release.heard(worker, "True")
        assert await release.states("Joined") == {}


async def test_an_expelled_worker_finds_no_token(release: Release) -> None:
    await release.secret()
    async with release.reconciled():
        worker = await release.worker(ready="Unknown", store="s")
        assert await release.states("Waiting")
        patch = {"metadata": {"annotations": {"shoal.dev/expelled": "true"}}}
        await release.hub.merge_patch(WORKERS, worker["metadata"]["name"], patch, infrav1.NAMESPACE)
        assert await release.states("Expelled") == {}
        await release.has_no_tokens()


async def test_a_worker_whose_worker_object_was_deleted_gets_a_token_that_nobody_used(release: Release) -> None:
    await release.secret()
    async with release.reconciled():
        before = await release.states("Waiting")
        (token,) = await release.tokens()
        marks = {worker_join.USED_BY_ANNOTATION: "far", worker_join.REQUEST_UID_ANNOTATION: "uid"}
        name = worker_join.secret_name(token.id)
        await release.hub.merge_patch(SECRETS, name, {"metadata": {"annotations": marks}}, worker_join.TOKEN_NAMESPACE)

        async def other() -> bool:
            return bool(await release.states("Waiting") != before)

        await release.passes(other)


async def test_a_token_is_replaced_when_it_has_expired(release: Release) -> None:
    await release.secret()
    async with release.reconciled():
        before = await release.states("Waiting")

        async def other() -> bool:
            return bool(await release.states("Waiting") != before)

        release.clock.step(3500.0)
        assert not await other()
        await release.passes(other)


async def test_a_secret_that_somebody_empties_is_written_again(release: Release) -> None:
    await release.secret()
    async with release.reconciled():
        await release.states("Waiting")
        await release.host.merge_patch(SECRETS, "far-join", {"data": None}, NAMESPACE)
        assert await release.data() == {}
        assert await release.states("Waiting")


async def test_a_new_authority_of_the_hub_reaches_the_secret(release: Release) -> None:
    await release.secret()
    async with release.reconciled():
        await release.states("Waiting")
        release.identity = HubIdentity(CA.replace("AAAA", "BBBB"))

        async def known() -> bool:
            cluster = yaml.safe_load((await release.data())["kubeconfig"])["clusters"][0]["cluster"]
            return b"BBBB" in base64.b64decode(cluster["certificate-authority-data"])

        await release.passes(known)


async def test_a_missing_secret_is_told_once_and_never_created(
    release: Release, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        return [line.message for line in caplog.records if "cannot join by itself" in line.message]

    with caplog.at_level(logging.INFO, "shoal.fleet"):
        async with release.reconciled():

            async def looked() -> bool:
                return bool(told())

            await release.passes(looked)
            for _ in range(20):
                release.clock.step(10.0)
                await release.tokens()
            assert told() == [f"worker far cannot join by itself: there is no Secret {NAMESPACE}/far-join"]
            with pytest.raises(NotFound):
                await release.host.get(SECRETS, "far-join", NAMESPACE)
            await release.secret()
            token = (await release.states("Waiting"))["token"]
    assert token not in caplog.text


async def test_workers_come_and_go_with_the_file(release: Release, caplog: pytest.LogCaptureFixture) -> None:
    await release.secret()
    await release.secret("near-join")
    async with release.reconciled():
        await release.states("Waiting")
        release.file_error = "the file cannot be read: gone"
        release.clock.step(100.0)
        assert len(await release.tokens()) == 1
        release.file_error = ""
        release.file = JoinSecrets(ADDRESS, {"near": (NAMESPACE, "near-join")})
        assert await release.states("Waiting", "near-join")
        await release.has_no_tokens()
    assert caplog.text.count("the join Secrets stay as they are: the file cannot be read: gone") <= 1


# --- the file ---


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secrets.yaml"
    file.write_text(f'address: {ADDRESS}\nsecrets:\n  "far": a/far-join\n  "7": a/shoal.join\n')
    assert read_join_secrets(file) == JoinSecrets(ADDRESS, {"far": ("a", "far-join"), "7": ("a", "shoal.join")})


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[", "cannot be read: "),
        ("[]", "does not have exactly the keys address and secrets"),
        ("address: https://a\n", "does not have exactly the keys address and secrets"),
        ("address: http://a\nsecrets: {}\n", ": address must be an https URL, not 'http://a'"),
        ("address: https://a\nsecrets: []\n", ": secrets must be a map"),
        ("address: https://a\nsecrets: {far: b}\n", ": secrets.far must be NAMESPACE/NAME, not 'b'"),
        ("address: https://a\nsecrets: {far: b/C}\n", ": secrets.far must be NAMESPACE/NAME, not 'b/C'"),
        ("address: https://a\nsecrets: {Far: b/c}\n", ": secrets.Far: "),
    ],
)
def test_a_file_that_cannot_be_used(text: str, error: str, tmp_path: Path) -> None:
    file = tmp_path / "secrets.yaml"
    file.write_text(text)
    with pytest.raises(JoinSecretFileError) as caught:
        read_join_secrets(file)
    assert str(caught.value).startswith(str(file))
    assert error in str(caught.value)
    assert caught.value.hint == "it has the keys address (a URL) and secrets (WORKER: NAMESPACE/NAME)"


def test_a_hub_outside_a_cluster_refuses_the_file(tmp_path: Path) -> None:
    file = tmp_path / "secrets.yaml"
    file.write_text(f"address: {ADDRESS}\nsecrets: {{}}\n")
    with pytest.raises(ShoalError, match="--join-secrets is for a hub that runs as a pod with a ServiceAccount"):
        join_secret_settings(file)


# --- a hub that keeps them ---


async def test_a_worker_process_joins_with_what_a_hub_wrote(tmp_path: Path) -> None:
    port = free_port()
    file = JoinSecrets(f"https://127.0.0.1:{port}", {"far": (NAMESPACE, "far-join")})
    async with AsyncExitStack() as stack:
        host = await ShoalServer.start(ShoalServerSettings(tmp_path / "host", port=0))
        stack.push_async_callback(host.stop)
        cluster = host.client("test")
        await cluster.create(
            SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "far-join"}}, NAMESPACE
        )
        settings = JoinSecretSettings(lambda: file, lambda: host.client("hub"))
        hub = await ShoalServer.start(ShoalServerSettings(tmp_path / "hub", port=port, join_secrets=settings))
        stack.push_async_callback(hub.stop)

        async def state() -> tuple[str, Object]:
            data = (await cluster.get(SECRETS, "far-join", NAMESPACE)).get("data") or {}
            text = {key: base64.b64decode(value).decode() for key, value in data.items()}
            (tmp_path / "kubeconfig").write_text(text.get("kubeconfig", ""))
            user = yaml.safe_load(text["kubeconfig"])["users"][0]["user"] if text else {}
            return text.get("state", ""), user

        async def waiting() -> bool:
            return (await state())[0] == "Waiting"

        async def joined() -> bool:
            return await state() == ("Joined", {})

        await eventually(waiting)
        flags = ("--name", "far", "--hub-kubeconfig", str(tmp_path / "kubeconfig"))
        ready = "the worker's own API is at "
        process = await asyncio.to_thread(Up, tmp_path / "far", *flags, verb="worker", ready=ready)
        stack.callback(process.close)
        await eventually(joined)

        async def no_tokens() -> bool:
            found, _ = await hub.client("test").list_all(SECRETS, worker_join.TOKEN_NAMESPACE, labels=TOKEN_LABEL)
            return found == []

        await eventually(no_tokens)
