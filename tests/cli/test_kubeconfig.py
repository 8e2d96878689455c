"""`shoal kubeconfig`: the asker enters a managed cluster with a token that ends, or with a command that renews it."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from click.testing import CliRunner, Result

from shoal.apiserver.authn.authenticator import User
from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.assemble.storage.datadir import render_kubeconfig
from shoal.cli.kubeconfig import command
from shoal.cli.options.hub import EXIT_DENIED
from shoal.client.kubeconfig import new_client, rest_config_of
from shoal.client.rest import GroupVersionResource
from shoal.fleet.resources import CLUSTER_ROLE_BINDINGS, MANAGED_CLUSTERS
from shoal.objects.errors import Unauthorized
from tests.fleet.fleets import eventually, managed, phase

pytestmark = pytest.mark.anyio

Object = dict[str, Any]
NAMESPACES = GroupVersionResource("", "v1", "namespaces", namespaced=False)
ADVERTISED = "hub.does-not-exist.invalid"


class World:
    def __init__(self, up: HubWithWorkers, directory: Path) -> None:
        self.up, self.directory, self.hub = up, directory, up.hub.client("test")
        self.address = f"https://127.0.0.1:{up.hub.server.port}"

    def kubeconfig_of(self, user: User) -> str:
        """The kubeconfig of a user at the hub, at the address of a port-forward."""
        self.up.hub.server.core.authenticator.add_static_token(f"token-of-{user.name}", user)
        file = self.directory.parent / f"{user.name}.kubeconfig"
        ca = self.up.hub.server.authority.certificate
        file.write_text(render_kubeconfig(self.address.replace("127.0.0.1", "localhost"), ca, f"token-of-{user.name}"))
        return str(file)

    async def shoal(self, *arguments: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, command, list(arguments))

    async def beside(self, *arguments: str) -> Result:
        return await self.shoal(*arguments, "--data-dir", str(self.directory))


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.delenv("SHOAL_KUBECONFIG", raising=False)
    settings = ShoalServerSettings(tmp_path / "data", port=0, advertise_address=ADVERTISED)
    up = await HubWithWorkers.start(settings, InProcessWorkers(1))
    try:
        yield World(up, tmp_path / "data")
    finally:
        await up.stop()


def change_cluster(kubeconfig: Path, fields: Object) -> None:
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"] |= fields
    kubeconfig.write_text(yaml.safe_dump(config))


async def host(world: World, *entries: Object) -> None:
    await world.hub.create(MANAGED_CLUSTERS, managed("east", nodes=0, access=list(entries)), "default")

    async def running() -> bool:
        return phase(await world.hub.get(MANAGED_CLUSTERS, "east", "default")) == "Running"

    await eventually(running)


async def reads(config: Object) -> list[str]:
    client = new_client(rest_config_of(config, source="printed"), "test")
    try:
        return [obj["metadata"]["name"] for obj in (await client.list_all(NAMESPACES))[0]]
    finally:
        await client.close()


def claims_of(token: str) -> Object:
    part = token.split(".")[1]
    found: Object = orjson.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


async def test_kubectl_renews_the_token(world: World) -> None:
    await host(world)
    printed = await world.beside("east")
    assert printed.exit_code == 0, printed.output
    config = yaml.safe_load(printed.stdout)
    # The plugin runs where the data directory is, so loopback is good for both.
    assert config["clusters"][0]["cluster"]["server"] == f"{world.address}/managedclusters/default/east"
    (user,) = (each["user"] for each in config["users"])
    plugin = user["exec"]
    assert set(user) == {"exec"}
    assert (plugin["apiVersion"], plugin["interactiveMode"]) == ("client.authentication.k8s.io/v1", "Never")
    assert plugin["args"] == [
        *("kubeconfig", "east", "-n", "default", "-o", "exec-credential", "--data-dir", str(world.directory))
    ]
    credential = orjson.loads((await world.shoal(*plugin["args"][1:])).stdout)
    assert (credential["kind"], credential["apiVersion"]) == ("ExecCredential", plugin["apiVersion"])
    now, end = time.time(), credential["status"]["expirationTimestamp"]
    assert time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)) < end
    assert end <= time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + 3601))
    token = credential["status"]["token"]
    assert claims_of(token)["sub"] == "hub:shoal-admin"
    config["users"][0]["user"] = {"token": token}
    assert "kube-system" in await reads(config)
    config["users"][0]["user"] = {"token": token + "x"}
    with pytest.raises(Unauthorized):
        await reads(config)


async def test_one_token_for_a_while(world: World) -> None:
    await host(world)
    printed = await world.beside("default/east", "--ttl", "30m")
    assert printed.exit_code == 0, printed.output
    config = yaml.safe_load(printed.stdout)
    token = config["users"][0]["user"]["token"]
    assert claims_of(token)["exp"] - claims_of(token)["iat"] == 1800
    # It may be carried elsewhere, where loopback is another machine.
    server = f"https://{ADVERTISED}:{world.up.hub.server.port}/managedclusters/default/east"
    assert config["clusters"][0]["cluster"]["server"] == server
    config["clusters"][0]["cluster"]["server"] = server.replace(ADVERTISED, "127.0.0.1")
    assert "kube-system" in await reads(config)


async def test_the_address_is_that_of_the_kubeconfig_given(world: World) -> None:
    await host(world, {"role": "view", "users": ["alice"]})
    file = world.kubeconfig_of(User("alice", ()))
    role = {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}
    subject = {"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "alice"}, "roleRef": role, "subjects": [subject]}
    refused = await world.shoal("east", "--kubeconfig", file)
    assert getattr(refused.exception, "exit_code", 0) == EXIT_DENIED
    assert 'User "alice" cannot create resource "managedclusters/token"' in str(refused.exception)
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    await world.hub.create(CLUSTER_ROLE_BINDINGS, {**kind, **binding})
    for arguments in (["--ttl", "1h"], []):
        printed = await world.shoal("east", *arguments, "--kubeconfig", file)
        assert printed.exit_code == 0, printed.output
        config = yaml.safe_load(printed.stdout)
        address = world.address.replace("127.0.0.1", "localhost")
        assert config["clusters"][0]["cluster"]["server"] == f"{address}/managedclusters/default/east"
        plugin = config["users"][0]["user"].get("exec")
        if plugin is None:
            assert claims_of(config["users"][0]["user"]["token"])["sub"] == "hub:alice"
            assert "kube-system" in await reads(config)
        else:
            assert plugin["args"][-2:] == ["--kubeconfig", file]
        assert "tls-server-name" not in config["clusters"][0]["cluster"]
    # Behind a tunnel with another name, the name in the certificate is that of the kubeconfig given.
    change_cluster(Path(file), {"server": world.address, "tls-server-name": ADVERTISED})
    printed = await world.shoal("east", "--kubeconfig", file)
    cluster = yaml.safe_load(printed.stdout)["clusters"][0]["cluster"]
    assert (cluster["server"], cluster["tls-server-name"]) == (
        f"{world.address}/managedclusters/default/east",
        ADVERTISED,
    )


async def test_it_is_added_to_your_own(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await host(world)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "own"))
    added = await world.beside("east", "--merge")
    assert added.exit_code == 0, added.output
    config = yaml.safe_load((tmp_path / "own").read_text())
    assert config["contexts"] == [{"name": "shoal-east", "context": {"cluster": "shoal-east", "user": "shoal-east"}}]
    assert "exec" in config["users"][0]["user"]


async def test_kubeconfigs_that_are_not_given(world: World) -> None:
    for ttl in ("9m", "13h", "for ever"):
        short = await world.beside("east", "--ttl", ttl)
        assert short.exit_code == 2
        assert "give a duration from 10 minutes to 12 hours" in short.output
    none = await world.beside("east")
    assert str(none.exception) == "there is no managed cluster default/east"
    for arguments in (["--ttl", "1h"], ["-o", "exec-credential"]):
        whose = await world.beside(*arguments)
        assert whose.exit_code == 2
        assert "require the NAME of a managed cluster" in whose.output
    removed = await world.beside("east", "--long-lived")
    assert removed.exit_code == 2
    assert "no kubeconfig has a token without end" in removed.output
    assert "--ttl 12h" in removed.output

    await host(world, {"role": "view", "users": ["somebody"]})
    stranger = await world.shoal("east", "--kubeconfig", world.kubeconfig_of(User("bob", ("system:masters-not",))))
    assert getattr(stranger.exception, "exit_code", 0) == EXIT_DENIED
