"""Joining a hub: with a token, with an administrator's kubeconfig, again after a crash, and every rejected attempt."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.pki.ca import CertificateAuthority
from shoal.assemble.storage.datadir import DataDirError
from shoal.assemble.workers.join import HubMembership, HubTarget, ensure_membership
from shoal.assemble.workers.join_tokens import JoinError, ca_cert_hash, create_token
from shoal.client.kubeconfig import load, new_client
from shoal.client.rest import Client
from shoal.client.transport import RESTConfig
from shoal.clock import FakeClock, SystemClock, rfc3339
from shoal.fleet.resources import CSRS, LOGICAL_CLUSTERS, MANAGED_CLUSTERS, SECRETS, WORKERS
from shoal.fleet.worker.identity.csr import CertificateDenied, request_certificate
from shoal.fleet.worker.identity.keys import new_key
from shoal.fleet.worker.identity.renewal import CertificateRenewer, renewal_time
from shoal.kinds.certificates.pem import validity_period
from shoal.kinds.fleet import worker_join
from shoal.objects.errors import Forbidden
from tests.serving import Cluster, Server, running_server

Object = dict[str, Any]
pytestmark = pytest.mark.anyio

CLOCK = SystemClock()
HOUR = 3600.0


@pytest.fixture(scope="module")
def hub() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture
def kubeconfig(hub: Server, tmp_path: Path) -> Path:
    """The administrator's."""
    return Cluster(hub, "root").kubeconfig(tmp_path / "admin.kubeconfig")


@pytest.fixture
async def admin(hub: Server, kubeconfig: Path) -> Any:
    client = load(kubeconfig)
    yield client
    await client.close()


def url(hub: Server) -> str:
    return f"https://127.0.0.1:{hub.port}"


def given(hub: Server, token: str) -> HubTarget:
    return HubTarget(None, url(hub), token, ca_cert_hash(hub.authority.decode()))


def made(directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    return directory


async def refused(directory: Path, name: str, told: HubTarget, store: str = "store") -> JoinError:
    with pytest.raises(JoinError) as caught:
        await ensure_membership(made(directory), name, told, store, CLOCK)
    assert not (directory / "hub.kubeconfig").exists()
    return caught.value


async def works(member: HubMembership) -> None:
    """It is let in, as itself and nobody else."""
    client = new_client(member.endpoint, "test")
    try:
        assert await client.get(LOGICAL_CLUSTERS, "root")
        with pytest.raises(Forbidden, match="a worker may list only with the field selector"):
            await client.list_all(MANAGED_CLUSTERS)
    finally:
        await client.close()


def texts(directory: Path) -> str:
    return "".join(file.read_text(errors="replace") for file in directory.rglob("*") if file.is_file())


async def test_with_a_token(hub: Server, admin: Client, tmp_path: Path) -> None:
    token = await create_token(admin, time.time(), HOUR)
    home = made(tmp_path / "w")
    member = await ensure_membership(home, "plain", given(hub, token), "store", CLOCK)
    await works(member)
    assert [file.name for file in home.iterdir()] == ["hub.kubeconfig"]
    assert (home / "hub.kubeconfig").stat().st_mode & 0o777 == 0o600
    assert token not in texts(home)
    begin, end = validity_period(member.certificate.encode()) or (0.0, 0.0)
    assert end - begin < 31 * 86_400
    secret = await admin.get(SECRETS, worker_join.secret_name(token[:6]), "kube-system")
    assert secret["metadata"]["annotations"]["shoal.dev/used-by"] == "plain"
    asked = [each for each in (await admin.list_all(CSRS))[0] if "worker-plain-" in each["metadata"]["name"]]
    assert [each["status"]["conditions"][0]["reason"] for each in asked] == ["JoinToken"]
    again = await ensure_membership(home, "plain", HubTarget(), "store", CLOCK)
    assert again.certificate == member.certificate, "who has joined needs no token"
    again = await ensure_membership(home, "plain", given(hub, token), "store", CLOCK)
    assert again.certificate == member.certificate
    error = await refused(tmp_path / "second", "second", given(hub, token))
    assert str(error) == f"the hub refused worker second: join token {token[:6]} was already used by worker plain"
    assert (error.exit_code, error.hint) == (4, "create a token at the hub: shoal join-token create")
    assert list((tmp_path / "second").iterdir()) == []


async def test_tokens_that_are_no_good(hub: Server, admin: Client, tmp_path: Path) -> None:
    no_good = "the join token has expired, was deleted or is invalid"
    body = worker_join.new_token_secret(("expire", "0123456789abcdef"), rfc3339(time.time() - 1))
    await admin.create(SECRETS, body, "kube-system")
    token = await create_token(admin, time.time(), HOUR, worker="named")
    other = await create_token(admin, time.time(), HOUR)
    await admin.delete(SECRETS, worker_join.secret_name(other[:6]), "kube-system")
    wrong = token[:-1] + ("a" if token[-1] != "a" else "b")
    for bad in ("expire.0123456789abcdef", wrong, other, "nobody.0123456789abcdef"):
        error = await refused(tmp_path / "w", "named", given(hub, bad))
        assert (str(error), error.exit_code) == (no_good, 4)
    error = await refused(tmp_path / "w", "another", given(hub, token))
    assert f"join token {token[:6]} is for worker named, not for another" in str(error)
    await works(await ensure_membership(tmp_path / "w", "named", given(hub, token), "store", CLOCK))


async def test_of_two_at_once_one_is_let_in(hub: Server, admin: Client, tmp_path: Path) -> None:
    token = await create_token(admin, time.time(), HOUR)
    both = [
        ensure_membership(made(tmp_path / name), name, given(hub, token), name, CLOCK)
        for name in ("quick-1", "quick-2")
    ]
    ends = await asyncio.gather(*both, return_exceptions=True)
    assert sorted(type(end).__name__ for end in ends) == ["HubMembership", "JoinError"]
    reusable = await create_token(admin, time.time(), HOUR, reusable=True)
    for name in ("many-1", "many-2"):
        await works(await ensure_membership(made(tmp_path / name), name, given(hub, reusable), name, CLOCK))


async def test_tokens_that_have_expired_go(hub: Server, admin: Client) -> None:
    kept = await create_token(admin, time.time(), HOUR)
    for number in range(3):
        body = worker_join.new_token_secret((f"ended{number}", "0123456789abcdef"), rfc3339(time.time() - 1))
        await admin.create(SECRETS, body, "kube-system")
    for _ in range(2000):
        found, _ = await admin.list_all(SECRETS, "kube-system", fields=f"type={worker_join.TOKEN_SECRET_TYPE}")
        names = {each["metadata"]["name"] for each in found}
        if not any(name.startswith("bootstrap-token-ended") for name in names):
            break
        await asyncio.sleep(0.01)
    assert worker_join.secret_name(kept[:6]) in names
    assert not any(name.startswith("bootstrap-token-ended") for name in names)


async def test_a_name_that_another_store_has(hub: Server, admin: Client, kubeconfig: Path, tmp_path: Path) -> None:
    worker = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "Worker",
        "metadata": {"name": "taken", "annotations": {"shoal.dev/store": "first"}},
        "spec": {},
    }
    await admin.create(WORKERS, worker, "shoal-system")
    told = "the hub refused worker taken: the name taken is taken by a worker with another store"
    for way in (given(hub, await create_token(admin, time.time(), HOUR, worker="taken")), HubTarget(kubeconfig)):
        error = await refused(tmp_path / "w", "taken", way, "second")
        assert str(error).startswith(told)
        assert error.exit_code == 4
    nameless = given(hub, await create_token(admin, time.time(), HOUR))
    error = await refused(tmp_path / "w", "taken", nameless, "first")
    assert "create a token with --name taken" in str(error)
    await works(await ensure_membership(tmp_path / "w", "taken", HubTarget(kubeconfig), "first", CLOCK))


async def test_killed_while_it_joins(hub: Server, admin: Client, tmp_path: Path) -> None:
    token, home = await create_token(admin, time.time(), HOUR), made(tmp_path / "w")
    key = new_key()
    (home / "hub.key").write_bytes(key)
    trusting = ssl.create_default_context(cadata=hub.authority.decode())
    client = new_client(RESTConfig(url(hub), trusting, token), "test")
    first = await request_certificate(client, CLOCK, key, "killed", "store")
    await client.close()
    member = await ensure_membership(home, "killed", given(hub, token), "store", CLOCK)
    assert member.certificate == first, "the token is used, the certificate is there to be fetched"
    assert not (home / "hub.key").exists()


async def test_killed_while_it_joins_and_given_another_token(hub: Server, admin: Client, tmp_path: Path) -> None:
    home, key = made(tmp_path / "w"), new_key()
    (home / "hub.key").write_bytes(key)
    trusting = ssl.create_default_context(cadata=hub.authority.decode())
    client = new_client(RESTConfig(url(hub), trusting, await create_token(admin, time.time(), HOUR)), "test")
    await request_certificate(client, CLOCK, key, "patient", "store")
    await client.close()
    member = await ensure_membership(
        home, "patient", given(hub, await create_token(admin, time.time(), HOUR)), "store", CLOCK
    )
    assert key.decode() not in base64.b64decode(_user(home)["client-key-data"]).decode()
    await works(member)


def _user(home: Path) -> Object:
    found: Object = yaml.safe_load((home / "hub.kubeconfig").read_text())["users"][0]["user"]
    return found


async def test_with_an_administrators_kubeconfig(hub: Server, kubeconfig: Path, tmp_path: Path) -> None:
    home = made(tmp_path / "w")
    member = await ensure_membership(home, "helped", HubTarget(kubeconfig), "store", CLOCK)
    await works(member)
    assert member.endpoint.server == url(hub), "the tunnel is beside the API, not below the path of root"
    assert hub.token not in texts(home)
    again = await ensure_membership(home, "helped", HubTarget(kubeconfig), "store", CLOCK)
    assert again.certificate == member.certificate
    with pytest.raises(DataDirError, match="belongs to worker helped, not other"):
        await ensure_membership(home, "other", HubTarget(kubeconfig), "store", CLOCK)


async def test_with_a_bootstrap_kubeconfig(hub: Server, admin: Client, tmp_path: Path) -> None:
    token = await create_token(admin, time.time(), HOUR)
    file = Cluster(hub, "root").kubeconfig(tmp_path / "bootstrap.kubeconfig", token)
    await works(await ensure_membership(made(tmp_path / "w"), "strapped", HubTarget(file), "store", CLOCK))


async def test_kubeconfigs_of_nobody_in_particular(hub: Server, tmp_path: Path) -> None:
    hub.shoal.server.core.authenticator.add_static_token("jane-token", User("jane", ()))
    for token, said in (("nobody", "the kubeconfig is not accepted"), ("jane-token", 'User "jane" cannot create')):
        file = Cluster(hub, "root").kubeconfig(tmp_path / "kubeconfig", token)
        error = await refused(tmp_path / "w", "w", HubTarget(file))
        assert said in str(error)
        assert error.exit_code == 4


async def test_hubs_that_are_not_there_or_another(hub: Server, admin: Client, tmp_path: Path) -> None:
    token = await create_token(admin, time.time(), HOUR)
    error = await refused(tmp_path / "w", "w", HubTarget(None, url(hub), token, "sha256:" + "0" * 64))
    assert "is not the hub of the token" in str(error)
    assert error.exit_code == 4
    secret = await admin.get(SECRETS, worker_join.secret_name(token[:6]), "kube-system")
    assert "shoal.dev/used-by" not in secret["metadata"].get("annotations", {})
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"https://127.0.0.1:{free.getsockname()[1]}"
        error = await refused(tmp_path / "w", "w", HubTarget(None, nobody, token, "sha256:" + "0" * 64))
    assert "the hub does not answer" in str(error)
    assert error.exit_code == 3
    for way in (HubTarget(), given(hub, "")):
        error = await refused(tmp_path / "w", "w", way)
        assert str(error) == "this worker has not joined a hub yet"


async def test_an_identity_of_another_hub_is_worth_nothing_here(hub: Server, kubeconfig: Path, tmp_path: Path) -> None:
    home = made(tmp_path / "w")
    first = await ensure_membership(home, "moved", HubTarget(kubeconfig), "store", CLOCK)
    config = yaml.safe_load((home / "hub.kubeconfig").read_text())
    other = CertificateAuthority(tmp_path / "pki").certificate
    config["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(other).decode()
    (home / "hub.kubeconfig").write_text(yaml.safe_dump(config))
    second = await ensure_membership(home, "moved", HubTarget(kubeconfig), "store", CLOCK)
    assert second.certificate != first.certificate
    await works(second)


async def test_a_certificate_that_has_ended(hub: Server, admin: Client, kubeconfig: Path, tmp_path: Path) -> None:
    home = made(tmp_path / "w")
    first = await ensure_membership(home, "away", HubTarget(kubeconfig), "store", CLOCK)

    class Later(SystemClock):
        def now(self) -> float:
            return time.time() + 31 * 86_400

    with pytest.raises(JoinError) as caught:
        await ensure_membership(home, "away", HubTarget(), "store", Later())
    assert str(caught.value) == "the certificate of worker away has expired"
    assert caught.value.hint == "create a token at the hub: shoal join-token create --name away"
    assert caught.value.exit_code == 4
    token = await create_token(admin, time.time(), HOUR, worker="away")
    second = await ensure_membership(home, "away", given(hub, token), "store", Later())
    assert second.certificate != first.certificate


async def test_a_certificate_is_renewed_long_before_it_ends(hub: Server, kubeconfig: Path, tmp_path: Path) -> None:
    home = made(tmp_path / "w")
    member = await ensure_membership(home, "renewed", HubTarget(kubeconfig), "store", CLOCK)
    first, key = member.certificate, _user(home)["client-key-data"]
    begin, end = validity_period(first.encode()) or (0.0, 0.0)
    assert (
        begin + (end - begin) * 0.6
        == renewal_time(first, 0.0)
        < renewal_time(first, 1.0)
        == begin + (end - begin) * 0.8
    )
    clock = FakeClock(renewal_time(first, 1.0) - 2 * HOUR)
    client = new_client(member.endpoint, "test")
    renewal = CertificateRenewer(client, clock, "renewed", "store", first, member.save_certificate, lambda: 1.0)
    running = asyncio.create_task(renewal.run())
    for _ in range(2):
        await asyncio.sleep(0.05)
        assert member.certificate == first
        clock.step(HOUR)
    for _ in range(4000):
        if member.certificate != first:
            break
        await asyncio.sleep(0.005)
        clock.step(1.0)
    running.cancel()
    await client.close()
    assert member.certificate != first
    assert _user(home)["client-key-data"] != key, "with a new key"
    await works(member)
    again = await ensure_membership(home, "renewed", HubTarget(), "store", CLOCK)
    assert again.certificate == member.certificate


async def test_a_certificate_is_renewed_when_the_hub_rotates_the_keys_of_root(
    hub: Server, admin: Client, kubeconfig: Path, tmp_path: Path
) -> None:
    """So that it stays valid when the hub drops the former keys."""
    home = made(tmp_path / "w")
    member = await ensure_membership(home, "rotated", HubTarget(kubeconfig), "store", CLOCK)
    first, clock = member.certificate, FakeClock(CLOCK.now())
    client = new_client(member.endpoint, "test")
    renewal = CertificateRenewer(client, clock, "rotated", "store", first, member.save_certificate, lambda: 1.0)

    async def rotate(generation: int, trust_former: bool) -> None:
        wanted = {"generation": generation, "trustFormer": trust_former}
        await admin.merge_patch(LOGICAL_CLUSTERS, "root", {"spec": {"keys": wanted}})
        while (await admin.get(LOGICAL_CLUSTERS, "root"))["status"].get("keys") != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    running = asyncio.create_task(renewal.run())
    async with asyncio.timeout(60):
        await asyncio.sleep(0.05)
        clock.step(301)
        await asyncio.sleep(0.5)
        assert member.certificate == first
        await rotate(2, True)
        await works(member)
        while member.certificate == first:
            clock.step(30)
            await asyncio.sleep(0.02)
        await rotate(2, False)
    running.cancel()
    await client.close()
    await works(member)
    again = await ensure_membership(home, "rotated", HubTarget(), "store", CLOCK)
    assert again.certificate == member.certificate


async def test_a_worker_gets_no_certificate_of_another(hub: Server, kubeconfig: Path, tmp_path: Path) -> None:
    member = await ensure_membership(made(tmp_path / "w"), "honest", HubTarget(kubeconfig), "store", CLOCK)
    client = new_client(member.endpoint, "test")
    try:
        with pytest.raises(CertificateDenied, match="worker honest may not request a certificate for worker other"):
            await request_certificate(client, CLOCK, new_key(), "other", "store")
    finally:
        await client.close()
