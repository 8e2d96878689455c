"""Users of the hub enter hosted clusters with tokens of managedclusters/token, in one process and through a tunnel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shoal.apiserver.authn.authenticator import User
from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.client.rest import Client, GroupVersionResource
from shoal.fleet.resources import CLUSTER_ROLE_BINDINGS, MANAGED_CLUSTERS
from shoal.objects.errors import Forbidden, Invalid, NotFound, StatusError, Unavailable
from tests.fleet.fleets import eventually, managed, phase

pytestmark = pytest.mark.anyio

Object = dict[str, Any]
MANAGED = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/default/managedclusters"
REVIEWS = "/apis/authentication.k8s.io/v1"
CLUSTER_ROLES = GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False)
USERS = {
    "alice": User("alice", ("staff",)),
    "bob": User("bob", ("staff", "developers")),
    "carol": User("carol", ("staff",)),
    "dave": User("dave", ()),
}
RBAC = "rbac.authorization.k8s.io"


class World:
    def __init__(self, up: HubWithWorkers) -> None:
        self.up, self.admin = up, up.hub.client("test")
        for token, user in USERS.items():
            up.hub.server.core.authenticator.add_static_token(token, user)

    def hub(self, token: str) -> Client:
        return Client(self.up.hub.server.transport(), token)

    async def prepare(self) -> None:
        rule = {"apiGroups": ["infrastructure.cluster.x-k8s.io"], "resources": ["managedclusters/token"]}
        role = {"metadata": {"name": "enter"}, "rules": [{**rule, "verbs": ["create"]}]}
        await self.admin.create(CLUSTER_ROLES, {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", **role})
        subjects = [{"kind": "Group", "name": "staff", "apiGroup": RBAC}]
        reference = {"kind": "ClusterRole", "name": "enter", "apiGroup": RBAC}
        binding = {"metadata": {"name": "enter"}, "roleRef": reference, "subjects": subjects}
        await self.admin.create(
            CLUSTER_ROLE_BINDINGS, {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", **binding}
        )

    async def host(self, name: str, *entries: Object) -> None:
        await self.admin.create(MANAGED_CLUSTERS, managed(name, nodes=0, access=list(entries)), "default")

        async def running() -> bool:
            return phase(await self.admin.get(MANAGED_CLUSTERS, name, "default")) == "Running"

        await eventually(running)

    async def request(self, who: str, name: str = "east", query: dict[str, str] | None = None, **spec: Any) -> Object:
        answer: Object = await self.hub(who).request("POST", f"{MANAGED}/{name}/token", query, body={"spec": spec})
        return answer

    async def enter(self, who: str, name: str = "east") -> Inside:
        return Inside(self.hub((await self.request(who, name))["status"]["token"]), name)


class Inside:
    """A user of the hub in a hosted cluster."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._prefix = client, f"/managedclusters/default/{name}"

    async def ask(self, method: str, path: str, body: Object | None = None) -> Object:
        answer: Object = await self._client.request(method, self._prefix + path, body=body)
        return answer

    async def whoami(self) -> tuple[str, list[str]]:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        info = (await self.ask("POST", f"{REVIEWS}/selfsubjectreviews", review))["status"]["userInfo"]
        return info["username"], info["groups"]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    up = await HubWithWorkers.start(ShoalServerSettings(tmp_path / "data", port=0), InProcessWorkers(1))
    try:
        world = World(up)
        await world.prepare()
        yield world
    finally:
        await up.stop()


async def test_users_enter_with_their_roles(world: World) -> None:
    await world.host("east", {"role": "view", "users": ["alice"]}, {"role": "edit", "groups": ["developers"]})
    answer = await world.request("alice")
    assert answer["kind"] == "TokenRequest"
    assert answer["metadata"]["name"] == "east"
    assert answer["spec"]["expirationSeconds"] == 3600
    assert answer["status"]["expirationTimestamp"]

    alice, bob = await world.enter("alice"), await world.enter("bob")
    assert await alice.whoami() == ("hub:alice", ["system:authenticated"])
    # The group staff has no role, so the cluster does not learn of it.
    assert await bob.whoami() == ("hub:bob", ["hub:developers", "system:authenticated"])
    await alice.ask("GET", "/api/v1/namespaces/default/configmaps")
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    with pytest.raises(Forbidden, match='User "hub:alice" cannot create resource "configmaps"'):
        await alice.ask("POST", "/api/v1/namespaces/default/configmaps", config_map)
    await bob.ask("POST", "/api/v1/namespaces/default/configmaps", config_map)
    with pytest.raises(Forbidden):
        await bob.ask("GET", f"/apis/{RBAC}/v1/clusterrolebindings")


async def test_an_administrator_of_the_hub_is_one_of_the_cluster(world: World) -> None:
    await world.host("east")
    admin = world.up.hub.directory.admin_token()
    client = await world.enter(admin)
    assert await client.whoami() == ("hub:shoal-admin", ["hub:system:masters", "system:authenticated"])
    secrets = await client.ask("GET", "/api/v1/secrets")
    assert "items" in secrets


async def test_tokens_that_are_not_given(world: World) -> None:
    await world.host("east", {"role": "view", "users": ["alice", "dave"]})
    with pytest.raises(Forbidden) as refused:
        await world.request("carol")
    assert str(refused.value) == (
        'managedclusters.infrastructure.cluster.x-k8s.io "east" is forbidden: '
        'spec.access mentions neither user "carol" nor a group of that user'
    )
    with pytest.raises(Forbidden, match='User "dave" cannot create resource "managedclusters/token"'):
        await world.request("dave")
    with pytest.raises(NotFound):
        await world.request("alice", "west")
    for seconds in (599, 43_201):
        with pytest.raises(Invalid, match=r"spec\.expirationSeconds"):
            await world.request("alice", expirationSeconds=seconds)
    with pytest.raises(Invalid, match=r"spec\.audiences: Forbidden"):
        await world.request("alice", audiences=["vault"])
    with pytest.raises(Invalid, match=r"spec\.boundObjectRef: Forbidden"):
        await world.request("alice", boundObjectRef={"kind": "Pod", "name": "x"})
    with pytest.raises(StatusError, match="is not supported"):
        await world.hub(world.up.hub.directory.admin_token()).request("GET", f"{MANAGED}/east/token")
    dry = await world.request("alice", query={"dryRun": "All"})
    assert dry["status"] == {"token": "", "expirationTimestamp": None}
    longest = await world.request("alice", expirationSeconds=43_200)
    assert longest["spec"]["expirationSeconds"] == 43_200


async def test_before_it_runs(world: World) -> None:
    unassigned = managed("east", nodes=0, location="nowhere", access=[{"role": "view", "users": ["alice"]}])
    await world.admin.create(MANAGED_CLUSTERS, unassigned, "default")
    with pytest.raises(Unavailable, match="ManagedCluster default/east is not assigned to a worker yet"):
        await world.request("alice")
    await world.request("alice", query={"dryRun": "All"})


async def test_roles_end_with_their_entry(world: World) -> None:
    await world.host("east", {"role": "view", "users": ["alice", "bob"]})
    alice, bob = await world.enter("alice"), await world.enter("bob")
    await alice.ask("GET", "/api/v1/namespaces/default/configmaps")
    patch = {"spec": {"access": [{"role": "view", "users": ["bob"]}]}}
    await world.admin.merge_patch(MANAGED_CLUSTERS, "east", patch, "default")
    with pytest.raises(Forbidden, match=r"spec\.access mentions neither"):
        await world.request("alice")

    async def refused() -> bool:
        try:
            await alice.ask("GET", "/api/v1/namespaces/default/configmaps")
        except Forbidden:
            return True
        return False

    await eventually(refused)
    await bob.ask("GET", "/api/v1/namespaces/default/configmaps")


async def test_a_token_review_knows_them(world: World) -> None:
    await world.host("east", {"role": "view", "users": ["alice"]})
    await world.host("west", {"role": "view", "users": ["bob"]})
    token = (await world.request("alice"))["status"]["token"]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    admin = world.up.hub.directory.admin_token()
    found = await (await world.enter(admin)).ask("POST", f"{REVIEWS}/tokenreviews", review)
    assert found["status"]["authenticated"] is True
    assert found["status"]["user"]["username"] == "hub:alice"
    elsewhere = await (await world.enter(admin, "west")).ask("POST", f"{REVIEWS}/tokenreviews", review)
    assert elsewhere["status"].get("authenticated") is not True
    at_the_hub = await world.admin.request("POST", f"{REVIEWS}/tokenreviews", body=review)
    assert at_the_hub["status"].get("authenticated") is not True


async def test_a_cluster_created_again_accepts_no_earlier_token(world: World) -> None:
    await world.host("east", {"role": "view", "users": ["alice"]})
    alice = await world.enter("alice")
    await alice.whoami()
    await world.admin.delete(MANAGED_CLUSTERS, "east", "default")

    async def gone() -> bool:
        try:
            await world.admin.get(MANAGED_CLUSTERS, "east", "default")
        except NotFound:
            return True
        return False

    await eventually(gone)
    await world.host("east", {"role": "view", "users": ["alice"]})
    with pytest.raises(StatusError, match="Unauthorized"):
        await alice.whoami()
    await (await world.enter("alice")).whoami()


async def test_discovery_lists_the_subresource(world: World) -> None:
    found = await world.admin.request("GET", "/apis/infrastructure.cluster.x-k8s.io/v1alpha1")
    (token,) = (each for each in found["resources"] if each["name"] == "managedclusters/token")
    assert (token["kind"], token["group"], token["verbs"]) == ("TokenRequest", "authentication.k8s.io", ["create"])
    own = world.up.workers[0].shoal.client("test")
    with pytest.raises(NotFound):
        await own.request("POST", f"{MANAGED}/east/token", body={"spec": {}})
