"""Requests to a kind cluster through the hub: as users of the hub, and with tokens of the cluster."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml

from shoal.client.rest import GroupVersionResource
from shoal.fleet.resources import CLUSTER_ROLE_BINDINGS, CONFIG_MAPS, SECRETS
from shoal.objects.errors import BadRequest, Forbidden, NotFound, StatusError, Unauthorized
from tests.fleet.fleets import condition, eventually
from tests.fleet.kind.place import KindPlace
from tests.fleet.test_hub_users import CLUSTER_ROLES, RBAC, Inside

pytestmark = pytest.mark.anyio

Object = dict[str, Any]
SERVICE_ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, text: str = "") -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}}


async def host(place: KindPlace, name: str = "east", *entries: Object) -> None:
    await place.create(name, access=list(entries))
    await place.running(name)


async def test_users_of_the_hub_have_the_roles_of_the_spec(place: KindPlace) -> None:
    await host(place, "east", {"role": "view", "users": ["alice"]}, {"role": "edit", "groups": ["developers"]})
    alice, bob = await place.enter("alice"), await place.enter("bob")
    assert await alice.whoami() == ("hub:alice", ["system:authenticated"])
    assert await bob.whoami() == ("hub:bob", ["hub:developers", "system:authenticated"])
    await bob.ask("POST", MAPS, config_map("one", "x" * 500_000))
    assert len((await alice.ask("GET", f"{MAPS}/one"))["data"]["text"]) == 500_000
    with pytest.raises(Forbidden, match='User "hub:alice" cannot create resource "configmaps"'):
        await alice.ask("POST", MAPS, config_map("two"))
    with pytest.raises(Forbidden, match="carol"):
        await place.token("carol")
    assert (await place.says("east", "AccessGranted", "BindingsInPlace"))["status"] == "True"
    # A role that is taken away is gone with the next reconcile.
    await place.merge("east", access=[{"role": "view", "users": ["bob"]}])

    async def is_out() -> bool:
        try:
            await alice.ask("GET", MAPS)
        except Forbidden:
            return True
        return False

    await eventually(is_out)


async def test_long_answers_and_watches_come_through(place: KindPlace) -> None:
    await host(place)
    admin = await place.enter(place.up.hub.directory.admin_token())
    for number in range(8):
        await admin.ask("POST", MAPS, config_map(f"large-{number}", f"{number}" * 300_000))
    listed = await admin.ask("GET", MAPS)
    texts = [obj["data"]["text"] for obj in listed["items"] if obj["metadata"]["name"].startswith("large-")]
    assert [len(text) for text in texts] == [300_000] * 8
    revision = listed["metadata"]["resourceVersion"]
    events = admin._client.watch_path(f"/managedclusters/default/east{MAPS}", {"resourceVersion": revision})
    coming = asyncio.ensure_future(anext(events))
    await place.inside.create(CONFIG_MAPS, config_map("later"), "default")
    event = await coming
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "later")
    await events.aclose()  # type: ignore[attr-defined]


async def test_tokens_of_the_cluster_are_its_own(place: KindPlace) -> None:
    await host(place)
    published = yaml.safe_load(await place.kubeconfig("east"))["users"][0]["user"]["token"]
    hub = Inside(place.hub(published), "east")
    assert (await hub.whoami())[0] == "system:serviceaccount:kube-system:shoal-admin"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    await place.inside.create(SERVICE_ACCOUNTS, account, "default")
    path = place.inside.resource_path(SERVICE_ACCOUNTS, "robot", "default", "token")
    answer = await place.inside.request("POST", path, body={"spec": {"expirationSeconds": 600}})
    robot = Inside(place.hub(answer["status"]["token"]), "east")
    assert (await robot.whoami())[0] == "system:serviceaccount:default:robot"
    with pytest.raises(Forbidden, match='"system:serviceaccount:default:robot" cannot list resource "configmaps"'):
        await robot.ask("GET", MAPS)


async def test_the_token_of_the_hub_is_renewed_when_its_account_is_gone(place: KindPlace) -> None:
    await host(place)
    before = await place.kubeconfig("east")
    await place.inside.delete(SERVICE_ACCOUNTS, "shoal-admin", "kube-system")
    await place.merge("east", access=[{"role": "view", "users": ["alice"]}])

    async def is_renewed() -> bool:
        return await place.kubeconfig("east") != before

    await eventually(is_renewed)


async def test_a_binding_of_somebody_else_is_told(place: KindPlace) -> None:
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
    binding = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "shoal:access:view"}}
    await place.inside.create(CLUSTER_ROLE_BINDINGS, {**binding, "roleRef": reference, "subjects": []})
    await host(place, "east", {"role": "view", "users": ["alice"]})
    taken = await place.says("east", "AccessGranted", "BindingNameTaken")
    assert taken["message"] == "ClusterRoleBindings shoal:access:view exist and are not Shoal's"


class Attempts:
    """Raw requests through the hub, with any headers."""

    def __init__(self, place: KindPlace) -> None:
        self._transport = place.up.hub.server.transport()

    async def status(self, path: str, headers: dict[str, str], method: str = "GET", body: bytes = b"") -> int:
        return (await self._transport.request(method, path, "", headers, body))[0]

    async def text(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        status, _, body = await self._transport.request("GET", path, "", headers, b"")
        return status, body


EAST = "/managedclusters/default/east"


def bearer(token: str, **headers: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}", **{name.replace("_", "-"): value for name, value in headers.items()}}


async def test_nobody_becomes_somebody_else(place: KindPlace) -> None:
    """The worker speaks as an administrator who impersonates: no header of the client may add to that."""
    await host(place, "east", {"role": "view", "users": ["alice"]})
    token, attempts = await place.token("alice"), Attempts(place)
    secrets = f"{EAST}/api/v1/namespaces/kube-system/secrets"
    assert await attempts.status(secrets, bearer(token)) == 403
    for headers in (
        {"impersonate-user": "kubernetes-admin"},
        {"impersonate-user": "hub:alice", "impersonate-group": "system:masters"},
        {"impersonate-user": "system:serviceaccount:kube-system:shoal-admin"},
        {"impersonate-user": "hub:alice", "impersonate-extra-scopes": "all"},
        {"impersonate-user": "hub:alice", "impersonate-uid": "1"},
        {"x-remote-user": "kubernetes-admin", "x-remote-group": "system:masters"},
        {"sec-websocket-protocol": "base64url.bearer.authorization.k8s.io.YWRtaW4"},
    ):
        assert await attempts.status(secrets, {**bearer(token), **headers}) == 403, headers
    assert await attempts.status(secrets, {**bearer(token), "impersonate-group": "system:masters"}) == 400
    client = place.hub(token)
    client._headers = {**client._headers, "impersonate-group": "system:masters"}
    with pytest.raises(BadRequest, match="without impersonating a user name"):
        await Inside(client, "east").ask("GET", MAPS)


async def test_who_may_impersonate_does(place: KindPlace) -> None:
    role = {
        "metadata": {"name": "nurse"},
        "rules": [{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}],
    }
    await place.inside.create(CLUSTER_ROLES, {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", **role})
    await host(place, "east", {"role": "nurse", "users": ["alice"]})
    client = place.hub(await place.token("alice"))
    client._headers = {**client._headers, "impersonate-user": "jane"}
    assert await Inside(client, "east").whoami() == ("jane", ["system:authenticated"])
    client._headers = {**client._headers, "impersonate-group": "system:masters"}
    with pytest.raises(Forbidden, match='User "hub:alice" cannot impersonate resource "groups" in API group ""'):
        await Inside(client, "east").whoami()


async def test_strangers_learn_nothing(place: KindPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.fleet.tunnel.disclosure.STARTUP_SECONDS", -1)
    await host(place)
    await host(place, "west", {"role": "view", "users": ["alice"]})
    attempts, hub_admin = Attempts(place), place.up.hub.directory.admin_token()
    nowhere = "/managedclusters/default/nowhere"
    own_admin = place.up.workers[0].shoal.directory.admin_token()
    west = await place.token("alice", "west")
    for path in ("/version", "/healthz", "/api/v1/namespaces", "/"):
        for headers in ({}, bearer("junk"), bearer(west), {"authorization": "Basic YTpi"}):
            there, elsewhere = await attempts.text(EAST + path, headers), await attempts.text(nowhere + path, headers)
            assert there == elsewhere, (path, headers)
            assert there[0] in (401, 403)
    # The worker's own token is answered by its own server, and not passed on.
    assert await attempts.status(f"{EAST}/version", bearer(own_admin)) == 404
    with pytest.raises(Unauthorized, match="a token of the hub is not valid in a hosted cluster"):
        await Inside(place.hub(hub_admin), "east").ask("GET", "/version")


async def test_a_token_ends_with_its_cluster(place: KindPlace) -> None:
    await host(place, "east", {"role": "view", "users": ["alice"]})
    alice = await place.enter("alice")
    await alice.whoami()
    await place.admin.delete(
        GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "managedclusters"), "east", "default"
    )

    async def is_gone() -> bool:
        try:
            await place.get("east")
        except NotFound:
            return True
        return False

    await eventually(is_gone)
    await host(place, "east", {"role": "view", "users": ["alice"]})
    with pytest.raises(Unauthorized):
        await alice.whoami()
    await (await place.enter("alice")).whoami()


async def test_no_path_leads_out_of_the_cluster(place: KindPlace) -> None:
    await host(place, "east", {"role": "cluster-admin", "users": ["alice"]})
    token, attempts = await place.token("alice"), Attempts(place)
    for path in ("/../../clusters/root/api", "/api/../../x", "/./version", "/%2e%2e/x"):
        assert await attempts.status(EAST + path, bearer(token)) == 400, path
    # What looks like another address is a path of the API server of the cluster.
    for path in ("//127.0.0.1:1/api", "/@127.0.0.1/api", "/http://127.0.0.1:1/", "/a b?c#d"):
        assert await attempts.status(EAST + path, bearer(token)) == 404, path


async def test_the_published_secrets_of_the_worker_stay_there(place: KindPlace) -> None:
    await host(place)
    names = {secret["metadata"]["name"] for secret in (await place.admin.list_all(SECRETS))[0]}
    assert "east-kind-access" not in names
    assert not any(name.endswith("-config") for name in names)
    assert {name for name in names if name.startswith("east")} == {"east-kubeconfig"}


async def test_an_api_server_that_does_not_answer(place: KindPlace) -> None:
    await host(place, "east", {"role": "view", "users": ["alice"]})
    alice, attempts = await place.enter("alice"), Attempts(place)
    published = yaml.safe_load(await place.kubeconfig("east"))["users"][0]["user"]["token"]
    assert await attempts.status(f"{EAST}/version", bearer(published)) == 200
    await place.api.server.stop()
    with pytest.raises(StatusError, match="ManagedCluster default/east does not answer at its worker") as caught:
        await alice.whoami()
    assert caught.value.status_code == 503
    assert await attempts.status(f"{EAST}/version", bearer(published)) == 503
    # Others do not learn that it exists.
    assert await attempts.status(f"{EAST}/version", bearer("junk")) == 401
    assert condition(await place.get("east"), "Scheduled")["status"] == "True"
