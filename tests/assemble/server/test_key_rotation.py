"""Rotations of a cluster's keys at its own address, under load: no request fails while they begin and are finished."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal.apiserver.pki.cluster_keys import ClusterKeys
from shoal.client.rest import Client, GroupVersionResource
from shoal.fleet.resources import LOGICAL_CLUSTERS
from shoal.objects.errors import Invalid, NotFound
from tests.assemble.server.test_cluster_ports import NAMESPACES, PATIENCE, SECRETS, Up, some_range, up
from tests.serving_ports import new_request, request, trust

pytestmark = pytest.mark.anyio

Object = dict[str, Any]

CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
NAMESPACE = GroupVersionResource("", "v1", "namespaces", namespaced=False)
REFUSED = (ssl.SSLError, ConnectionError, IndexError)


class Credentials:
    """What a client of the cluster has: trust, a token, a client certificate."""

    def __init__(self, port: int, authority: str, token: str, certificate: tuple[bytes, bytes]) -> None:
        self.port, self.authority, self.token = port, authority, token
        self._plain, self._with_certificate = trust(authority), trust(authority, *certificate)
        for each in (self._plain, self._with_certificate):
            each.verify_flags |= ssl.VERIFY_X509_STRICT

    async def by_token(self) -> int:
        return (await request(self.port, self._plain, NAMESPACES, self.token))[0]

    async def by_certificate(self) -> int:
        return (await request(self.port, self._with_certificate, NAMESPACES))[0]


class Load:
    """Clients that make requests all the time."""

    def __init__(self) -> None:
        self.answers: list[object] = []

    async def _run(self, ask: Callable[[], Awaitable[int]], ending: asyncio.Event) -> None:
        rest = 5  # also after the last change
        while rest:
            try:
                self.answers.append(await ask())
            except Exception as error:
                self.answers.append(repr(error))
            await asyncio.sleep(0.005)
            rest -= ending.is_set()

    @asynccontextmanager
    async def of(self, *clients: Credentials) -> AsyncIterator[None]:
        ending = asyncio.Event()
        asks = [ask for each in clients for ask in (each.by_token, each.by_certificate)]
        tasks = [asyncio.create_task(self._run(ask, ending)) for ask in asks]
        try:
            yield
        finally:
            ending.set()
            await asyncio.gather(*tasks)


async def new_credentials(made: Up, keys: ClusterKeys, cluster: Client, name: str, uid: str, port: int) -> Credentials:
    authority = (await cluster.get(CONFIG_MAPS, "kube-root-ca.crt", "default"))["data"]["ca.crt"]
    path = cluster.resource_path(ACCOUNTS, "jane", "default", "token")
    token = (await cluster.request("POST", path, body={"spec": {}}))["status"]["token"]
    csr, key = new_request("jane", "system:masters")
    certificate = await keys.sign_request(csr, name, uid, 3600, ["client auth"])
    return Credentials(port, authority, token, (certificate, key))


async def create_jane(cluster: Client) -> None:
    await cluster.create(ACCOUNTS, {"metadata": {"name": "jane"}}, "default")
    binding = {
        "metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "jane", "namespace": "default"}],
    }
    bindings = GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", namespaced=False)
    await cluster.create(bindings, binding)


async def rotate(made: Up, gvr: GroupVersionResource, name: str, generation: int, trust_former: bool = True) -> Object:
    wanted = {"generation": generation, "trustFormer": trust_former}
    namespace = "default" if gvr.namespaced else ""
    await made.client.merge_patch(gvr, name, {"spec": {"keys": wanted}}, namespace)
    return await made.wait(gvr, name, lambda each: (each.get("status") or {}).get("keys") == wanted)


async def root_ca_of(cluster: Client, namespace: str) -> str:
    return str((await cluster.get(CONFIG_MAPS, "kube-root-ca.crt", namespace))["data"]["ca.crt"])


async def eventually(look: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await look():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_no_request_fails_during_a_rotation(tmp_path: Path) -> None:
    async with up(tmp_path, some_range(2)) as made:
        await made.create_logical("team")
        port = await made.port_of(LOGICAL_CLUSTERS, "team")
        uid = (await made.client.get(LOGICAL_CLUSTERS, "team"))["metadata"]["uid"]
        keys, cluster = made.running.hub.server.core.keys, made.client.in_cluster("team")
        await create_jane(cluster)
        await cluster.create(NAMESPACE, {"metadata": {"name": "work"}})
        await eventually(lambda: has_root_ca(cluster, "work"))
        before = await new_credentials(made, keys, cluster, "team", uid, port)
        load = Load()
        async with load.of(before, before):
            await rotate(made, LOGICAL_CLUSTERS, "team", 2)
            during = await new_credentials(made, keys, cluster, "team", uid, port)
            assert during.authority.count("BEGIN CERTIFICATE") == 2
            assert before.authority in during.authority
            new_only = Credentials(port, keys.ca_bundle("team").replace(before.authority, ""), during.token, (b"", b""))
            async with load.of(before, during):
                for namespace in ("default", "kube-system", "work"):
                    await eventually(lambda each=namespace: is_root_ca(cluster, each, during.authority))  # type: ignore[misc]
                assert await new_only.by_token() == 200
                assert len((await cluster.request("GET", "/clusters/team/openid/v1/jwks"))["keys"]) == 2
        async with load.of(during, during):
            await rotate(made, LOGICAL_CLUSTERS, "team", 2, trust_former=False)
            after = await new_credentials(made, keys, cluster, "team", uid, port)
            async with load.of(after):
                for namespace in ("default", "kube-system", "work"):
                    await eventually(lambda each=namespace: is_root_ca(cluster, each, new_only.authority))  # type: ignore[misc]
        assert set(load.answers) == {200}
        assert len(load.answers) >= 70
        for refused in (before.by_token, before.by_certificate):
            with pytest.raises(REFUSED):
                await refused()
        assert (await request(port, trust(after.authority), NAMESPACES, before.token))[0] == 401
        assert len((await cluster.request("GET", "/clusters/team/openid/v1/jwks"))["keys"]) == 1


async def has_root_ca(cluster: Client, namespace: str) -> bool:
    try:
        return bool(await root_ca_of(cluster, namespace))
    except NotFound:
        return False


async def is_root_ca(cluster: Client, namespace: str, expected: str) -> bool:
    return await root_ca_of(cluster, namespace) == expected


async def test_a_watch_sees_the_root_ca_change(tmp_path: Path) -> None:
    """Also that of a bootstrap namespace, which nobody has written."""
    async with up(tmp_path, some_range(2)) as made:
        await made.create_logical("team", type="None")
        cluster = made.client.in_cluster("team")
        first = await cluster.get(CONFIG_MAPS, "kube-root-ca.crt", "kube-public")
        listed = await cluster.request("GET", "/clusters/team/api/v1/configmaps")
        revision = listed["metadata"]["resourceVersion"]
        await rotate(made, LOGICAL_CLUSTERS, "team", 2)
        seen = []
        query = {"resourceVersion": revision, "timeoutSeconds": "2"}
        async for event in cluster.watch(CONFIG_MAPS, "kube-public", query):
            seen.append(event)
            break
        assert [each["object"]["metadata"]["uid"] for each in seen] == [first["metadata"]["uid"]]
        assert first["data"]["ca.crt"] in seen[0]["object"]["data"]["ca.crt"]
        assert int(seen[0]["object"]["metadata"]["resourceVersion"]) > int(revision)


async def test_token_secrets_get_new_tokens(tmp_path: Path) -> None:
    async with up(tmp_path, some_range(2)) as made:
        await made.create_logical("team", type="None")
        cluster = made.client.in_cluster("team")
        await create_jane(cluster)
        annotations = {"kubernetes.io/service-account.name": "jane"}
        secret = {"metadata": {"name": "jane", "annotations": annotations}}
        await cluster.create(SECRETS, {**secret, "type": "kubernetes.io/service-account-token"}, "default")

        async def has_bundle(count: int) -> bool:
            data = (await cluster.get(SECRETS, "jane", "default")).get("data") or {}
            return "token" in data and base64.b64decode(data["ca.crt"]).count(b"BEGIN") == count

        await eventually(lambda: has_bundle(1))
        before = (await cluster.get(SECRETS, "jane", "default"))["data"]["token"]
        await rotate(made, LOGICAL_CLUSTERS, "team", 2)
        await eventually(lambda: has_bundle(2))
        during = (await cluster.get(SECRETS, "jane", "default"))["data"]["token"]
        assert during != before
        await rotate(made, LOGICAL_CLUSTERS, "team", 2, trust_former=False)
        await eventually(lambda: has_bundle(1))
        assert (await cluster.get(SECRETS, "jane", "default"))["data"]["token"] == during
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
        for token, valid in ((before, False), (during, True)):
            spec = {"token": base64.b64decode(token).decode()}
            path = "/clusters/team/apis/authentication.k8s.io/v1/tokenreviews"
            answer = await cluster.request("POST", path, body={**review, "spec": spec})
            assert answer["status"].get("authenticated", False) is valid


async def test_a_rotation_that_was_interrupted_between_its_writes_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash leaves a new authority and a former token key."""
    async with up(tmp_path, some_range(2)) as made:
        await made.create_logical("team", type="None")
        keys = made.running.hub.server.core.keys
        await keys.ensure_root_ca("team")
        await keys.ensure_signing_key("team")
        write = keys._write

        async def write_one(cluster: str, name: str, content: list[Object]) -> None:
            if name != "ca":
                raise asyncio.CancelledError
            await write(cluster, name, content)

        with monkeypatch.context() as patched:
            patched.setattr(keys, "_write", write_one)
            with pytest.raises(asyncio.CancelledError):
                await keys.rotate("team", 2)
        assert (keys.generation("team"), keys.has_former("team")) == (1, True)
        authority = keys.ca_bundle("team")
        await rotate(made, LOGICAL_CLUSTERS, "team", 2)
        assert (keys.generation("team"), len(keys.signing_keys("team"))) == (2, 2)
        assert keys.ca_bundle("team") == authority
        await rotate(made, LOGICAL_CLUSTERS, "team", 2, trust_former=False)
        assert not keys.has_former("team")


async def test_an_unused_cluster_creates_keys_of_its_generation(tmp_path: Path) -> None:
    async with up(tmp_path, some_range(2)) as made:
        await made.create_logical("team", type="None")
        await rotate(made, LOGICAL_CLUSTERS, "team", 3)
        keys = made.running.hub.server.core.keys
        assert keys.generation("team") == 0
        await keys.ensure_signing_key("team")
        assert (keys.generation("team"), keys.has_former("team")) == (3, False)


async def test_the_generation_cannot_be_lowered(tmp_path: Path) -> None:
    async with up(tmp_path, some_range(2)) as made:
        await made.create_logical("team", type="None")
        await rotate(made, LOGICAL_CLUSTERS, "team", 2)
        with pytest.raises(Invalid, match=r"spec.keys.generation: Forbidden: it cannot be lowered from 2 to 1"):
            await made.client.merge_patch(LOGICAL_CLUSTERS, "team", {"spec": {"keys": None}})
