"""`spec.access`: what the hub accepts, and the roles that follow from it in the hosted cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.client.rest import Client
from shoal.fleet.resources import CLUSTER_ROLE_BINDINGS, MANAGED_CLUSTERS, WORKERS
from shoal.kinds.fleet import access
from shoal.objects.errors import Invalid
from tests.fleet.fleets import condition, eventually, managed, phase, server

pytestmark = pytest.mark.anyio

Object = dict[str, Any]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"users": ["alice"]}], "spec.access[0].role: Required value"),
        ([{"role": "", "users": ["alice"]}], "spec.access[0].role"),
        ([{"role": "a/b", "users": ["alice"]}], "spec.access[0].role"),
        ([{"role": "..", "users": ["alice"]}], "spec.access[0].role"),
        ([{"role": "view"}], "spec.access[0]: Required value: at least one user or group is required"),
        ([{"role": "view", "users": [], "groups": []}], "at least one user or group is required"),
        ([{"role": "view", "users": [""]}], "spec.access[0].users[0]"),
        ([{"role": "view", "users": ["a", "a"]}], 'spec.access[0].users[1]: Duplicate value: "a"'),
        ([{"role": "view", "users": ["a"]}] * 2, "spec.access[1]: Duplicate value"),
        ([{"role": "view", "users": [f"u{n}" for n in range(257)]}], "must have at most 256 items"),
        ([{"role": f"r{n}", "users": ["a"]} for n in range(33)], "must have at most 32 items"),
    ],
)
async def test_entries_that_are_rejected(tmp_path: Path, entries: list[Object], message: str) -> None:
    async with server(tmp_path) as hub:
        with pytest.raises(Invalid) as rejected:
            await hub.create(MANAGED_CLUSTERS, managed("east", access=entries), "default")
        assert message in str(rejected.value)


async def test_entries_that_are_accepted(tmp_path: Path) -> None:
    entries = [
        {"role": "view", "users": ["alice", "system:serviceaccount:ci:deployer"]},
        {"role": "system:aggregate-to-view", "groups": ["developers"], "users": []},
        {"role": "...a", "groups": ["*"]},
    ]
    async with server(tmp_path) as hub:
        made = await hub.create(MANAGED_CLUSTERS, managed("east", access=entries), "default")
        assert made["spec"]["access"] == entries


# --- roles in the hosted cluster ---


@pytest.fixture
async def up(tmp_path: Path) -> AsyncIterator[HubWithWorkers]:
    up = await HubWithWorkers.start(ShoalServerSettings(tmp_path / "data", port=0), InProcessWorkers(2))
    yield up
    await up.stop()


class World:
    def __init__(self, up: HubWithWorkers) -> None:
        self.hub = up.hub.client("test")
        self.workers = {f"worker-{number}": each.shoal.client("test") for number, each in enumerate(up.workers, 1)}

    async def east(self) -> Object:
        return await self.hub.get(MANAGED_CLUSTERS, "east", "default")

    async def until_running(self) -> Client:
        """Returns a client inside the cluster."""

        async def worker() -> str:
            found = await self.east()
            return str(found["status"]["assignedWorker"]) if phase(found) == "Running" else ""

        return self.workers[await eventually(worker)].in_cluster("default.east")

    async def grant(self, *entries: Object) -> None:
        await self.hub.merge_patch(MANAGED_CLUSTERS, "east", {"spec": {"access": list(entries)}}, "default")


async def until_subjects(inside: Client, expected: dict[str, list[str]]) -> None:
    """Until these are the subjects of the bindings, by role."""

    async def same() -> bool:
        bindings, _ = await inside.list_all(CLUSTER_ROLE_BINDINGS)
        found = {
            each["roleRef"]["name"]: sorted(subject["name"] for subject in each.get("subjects") or ())
            for each in bindings
            if each["metadata"]["name"].startswith("shoal:access:")
        }
        return found == expected

    await eventually(same)


async def test_bindings_follow_the_spec(up: HubWithWorkers) -> None:
    world = World(up)
    await world.hub.create(MANAGED_CLUSTERS, managed("east", nodes=0), "default")
    inside = await world.until_running()
    masters = {"cluster-admin": ["hub:system:masters"]}
    await until_subjects(inside, masters)
    await world.grant({"role": "view", "users": ["alice"], "groups": ["developers"]})
    await until_subjects(inside, {**masters, "view": ["hub:alice", "hub:developers"]})
    found = await world.east()
    assert condition(found, "AccessGranted").get("status") in (None, "True")

    # Somebody in the cluster changes or deletes them.
    await inside.delete(CLUSTER_ROLE_BINDINGS, "shoal:access:cluster-admin")
    patch = {"subjects": [{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}]}
    await inside.merge_patch(CLUSTER_ROLE_BINDINGS, "shoal:access:view", patch)
    await until_subjects(inside, {**masters, "view": ["hub:alice", "hub:developers"]})

    await world.grant({"role": "edit", "users": ["alice"]})
    await until_subjects(inside, {**masters, "edit": ["hub:alice"]})
    await world.hub.merge_patch(MANAGED_CLUSTERS, "east", {"spec": {"access": None}}, "default")
    await until_subjects(inside, masters)


async def test_a_binding_of_somebody_else_is_not_taken_over(up: HubWithWorkers) -> None:
    world = World(up)
    await world.hub.create(MANAGED_CLUSTERS, managed("east", nodes=0), "default")
    inside = await world.until_running()
    subject = {"kind": "User", "name": "carol", "apiGroup": "rbac.authorization.k8s.io"}
    theirs = access.access_bindings({"metadata": {}, "spec": {"access": [{"role": "view", "users": ["x"]}]}})[1]
    theirs = {**theirs, "metadata": {"name": "shoal:access:view"}, "subjects": [subject]}
    await inside.create(CLUSTER_ROLE_BINDINGS, theirs)
    await world.grant({"role": "view", "users": ["alice"]}, {"role": "edit", "users": ["bob"]})

    async def told() -> bool:
        return condition(await world.east(), "AccessGranted").get("reason") == "BindingNameTaken"

    await eventually(told)
    assert "shoal:access:view" in condition(await world.east(), "AccessGranted")["message"]
    assert phase(await world.east()) == "Running"
    await until_subjects(inside, {"cluster-admin": ["hub:system:masters"], "edit": ["hub:bob"], "view": ["carol"]})
    await world.grant()
    await until_subjects(inside, {"cluster-admin": ["hub:system:masters"], "view": ["carol"]})


async def test_bindings_follow_the_spec_after_a_move(up: HubWithWorkers) -> None:
    world = World(up)
    entry = {"role": "view", "users": ["alice"]}
    await world.hub.create(MANAGED_CLUSTERS, managed("east", nodes=0, access=[entry]), "default")
    inside = await world.until_running()
    masters = {"cluster-admin": ["hub:system:masters"]}
    await until_subjects(inside, {**masters, "view": ["hub:alice"]})
    first = (await world.east())["status"]["assignedWorker"]
    await world.hub.merge_patch(WORKERS, first, {"spec": {"drain": True}}, "shoal-system")

    async def moved() -> bool:
        found = await world.east()
        return found["status"]["assignedWorker"] != first and phase(found) == "Running"

    await eventually(moved)
    inside = await world.until_running()
    await until_subjects(inside, {**masters, "view": ["hub:alice"]})
    await world.grant({"role": "edit", "users": ["bob"]})
    await until_subjects(inside, {**masters, "edit": ["hub:bob"]})
