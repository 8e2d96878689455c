"""A hosted cluster restored on another worker: byte for byte the same, with its uids, tokens and nodes; or not at
all.
"""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from shoal.client.rest import Client, GroupVersionResource
from shoal.fleet.resources import LOGICAL_CLUSTERS, MANAGED_CLUSTERS, SECRETS
from shoal.fleet.worker.cluster_keys import copy_key, logical_cluster_key
from shoal.fleet.worker.cluster_storage import ClusterContents
from shoal.kinds.fleet import cluster_log, migration
from shoal.objects.errors import Conflict, Expired, Forbidden, NotFound
from tests.fleet.worker.fleets import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NODES,
    PODS,
    Fleet,
    condition,
    config_map,
    deployment,
    eventually,
    fleet,
    given,
    phase,
    refused,
)

Object = dict[str, Any]
pytestmark = pytest.mark.anyio
LOGS = cluster_log.NAMESPACE

EMBEDDED = "infrastructure.cluster.x-k8s.io/embeddedclusters/root/default/east"
STORAGE_CLASSES = GroupVersionResource("storage.k8s.io", "v1", "storageclasses", namespaced=False)
OTHERS = {EMBEDDED, copy_key("default", "east"), logical_cluster_key("default.east")}
"""What says where the cluster is: its endpoint, and the marks of the move."""


def contents(made: Fleet, worker: str, hosted: str = "default.east") -> ClusterContents:
    moves = made.workers[worker].shoal.cluster_moves
    assert moves is not None
    return moves.storage.contents(hosted)


def uid(value: bytes) -> str:
    return str(orjson.loads(value)["metadata"]["uid"])


async def at_stable_address(made: Fleet, token: str, path: str, query: str = "") -> tuple[int, Any]:
    """As a user's kubeconfig has it."""
    transport = made.hub_server.server.transport()
    headers = {"authorization": f"Bearer {token}"}
    path = f"/managedclusters/default/east{path}"
    status, _, body = await transport.request("GET", path, query, headers, b"")
    return status, orjson.loads(body.split(b"\n")[0])


async def token_of(made: Fleet) -> str:
    secret = await made.hub.get(SECRETS, "east-kubeconfig", "default")
    config = yaml.safe_load(base64.b64decode(secret["data"]["value"]))
    return str(config["users"][0]["user"]["token"])


async def running_pods(inside: Client, count: int) -> list[Object]:
    async def running() -> list[Object] | None:
        found, _ = await inside.list_all(PODS, "default")
        up = [pod for pod in found if pod["status"].get("phase") == "Running"]
        return found if len(up) == len(found) == count else None

    return await eventually(running)


async def is_empty(made: Fleet, worker: str) -> bool:
    return not contents(made, worker).entries


async def test_a_lost_worker_s_cluster_goes_on_elsewhere(tmp_path: Path) -> None:
    async with fleet(tmp_path, "w1", "w2") as made:
        await made.create("w1", nodes=2, onWorkerLost="Move")
        inside, token = made.inside("w1"), await token_of(made)
        await inside.create(DEPLOYMENTS, deployment("web", 3), "default")
        pods = await running_pods(inside, 3)
        await inside.create(
            CONFIG_MAPS, {**config_map("kept", a="ü"), "metadata": {"name": "kept", "finalizers": ["x/y"]}}, "default"
        )
        await inside.delete(CONFIG_MAPS, "kept", "default")
        (storage_class,), _ = await inside.list_all(STORAGE_CLASSES)
        await inside.delete(STORAGE_CLASSES, storage_class["metadata"]["name"])
        nodes, listed_at = await inside.list_all(NODES)
        await made.backed_up("w1")
        before = contents(made, "w1")
        await made.stop("w1")
        await made.move("w2")
        managed = await made.until(lambda obj: phase(obj) == "Running")
        assert condition(managed, "Restored")["status"] == "True"

        after, inside = contents(made, "w2"), made.inside("w2")
        assert before.entries.keys() == after.entries.keys()
        differ = {key for key, value in before.entries.items() if after.entries[key] != value}
        assert differ <= OTHERS
        assert b"-" in before.entries.values()
        assert all(uid(before.entries[key]) == uid(after.entries[key]) for key in differ)
        restored = await inside.get(CONFIG_MAPS, "kept", "default")
        assert restored["metadata"]["finalizers"] == ["x/y"]
        assert "deletionTimestamp" in restored["metadata"]
        assert int(restored["metadata"]["resourceVersion"]) > before.revision
        assert [node["metadata"]["name"] for node in (await inside.list_all(NODES))[0]] == [
            node["metadata"]["name"] for node in nodes
        ]
        assert (await inside.list_all(STORAGE_CLASSES))[0] == [], "made by nobody, deleted all the same"
        uids = {pod["metadata"]["uid"] for pod in pods}
        assert {pod["metadata"]["uid"] for pod in (await inside.list_all(PODS, "default"))[0]} == uids

        status, found = await at_stable_address(made, token, "/api/v1/nodes")
        assert (status, len(found["items"])) == (200, 2)
        status, event = await at_stable_address(made, token, "/api/v1/nodes", f"watch=1&resourceVersion={listed_at}")
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        status, _ = await at_stable_address(made, token, "/api/v1/nodes", f"limit=1&resourceVersion={listed_at}")
        assert status == 410
        keys = await inside.get_path("/openid/v1/jwks")
        assert len(keys["keys"]) == 1, "its key has moved with it"
        status, _ = await at_stable_address(made, await token_of(made), "/api/v1/nodes")
        assert status == 200

        await inside.merge_patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5}}, "default")
        assert uids < {pod["metadata"]["uid"] for pod in await running_pods(inside, 5)}

        async def only_the_new_log() -> bool:
            found = await made.segments()
            second = (await made.log_key(2)).secret_name(0)[:-1]
            return bool(found) and all(name.startswith(second) for name in found)

        await eventually(only_the_new_log)

        # The one that was lost comes back, and gives way.
        held = (await made.get())["status"]["held"]
        await made.start("w1")
        await eventually(lambda: is_empty(made, "w1"))
        assert isinstance(await refused(made.root("w1").get(LOGICAL_CLUSTERS, "default.east")), NotFound)
        managed = await made.get()
        assert (phase(managed), managed["status"]["held"]) == ("Running", held)
        assert len(await running_pods(inside, 5)) == 5

        # And it may have it again, with the uids it knew before, though its loops have seen them go.
        await made.backed_up("w2")
        await made.move("w1")
        await made.until(lambda obj: phase(obj) == "Running" and obj["status"]["assignedWorker"] == "w1")
        await eventually(lambda: is_empty(made, "w2"))
        inside = made.inside("w1")
        assert uids < {pod["metadata"]["uid"] for pod in await running_pods(inside, 5)}
        assert (await at_stable_address(made, token, "/api/v1/nodes"))[0] == 200
        await inside.merge_patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}}, "default")
        await running_pods(inside, 1)

        await made.hub.delete(MANAGED_CLUSTERS, "east", "default")

        async def nothing_left() -> bool:
            gone = isinstance(await _failure(made.get()), NotFound)
            return gone and not await made.segments() and await is_empty(made, "w1")

        await eventually(nothing_left)


async def _failure(work: Any) -> Exception | None:
    try:
        await work
    except Exception as error:
        return error
    return None


async def test_a_log_with_a_hole_is_not_restored_and_nothing_is_made_up(tmp_path: Path) -> None:
    async with fleet(tmp_path, "w1", "w2") as made:
        await made.create("w1", nodes=0, onWorkerLost="Move")
        managed = await made.backed_up("w1")
        await made.stop("w1")
        first = (await made.log_key()).secret_name(managed["status"]["backup"]["first"])
        kept = await made.hub.get(SECRETS, first, LOGS)
        await made.hub.delete(SECRETS, first, LOGS)
        await made.move("w2")
        managed = await made.until(lambda obj: phase(obj) == "Failed")
        assert condition(managed, "Restored")["reason"] == condition(managed, "Ready")["reason"] == "LogMissing"
        assert "not found" in condition(managed, "Restored")["message"]
        assert managed["status"]["errors"][-1]["reason"] == "LogMissing"
        assert await is_empty(made, "w2")
        await asyncio.sleep(0.3)
        assert (await made.get())["metadata"]["resourceVersion"] == managed["metadata"]["resourceVersion"], "said once"

        torn = base64.b64encode(base64.b64decode(kept["data"]["log"])[:-1] + b"!").decode()
        for name in ("resourceVersion", "uid", "creationTimestamp"):
            del kept["metadata"][name]
        await made.hub.create(SECRETS, {**kept, "data": {"log": torn}}, LOGS)
        await made.stop("w2")
        await made.start("w2")
        managed = await made.until(lambda obj: condition(obj, "Restored").get("reason") == "LogTorn")
        assert phase(managed) == "Failed"
        assert await is_empty(made, "w2")

        await made.hub.delete(SECRETS, first, LOGS)
        await made.hub.create(SECRETS, kept, LOGS)
        await made.stop("w2")
        await made.start("w2")
        managed = await made.until(lambda obj: phase(obj) == "Running")
        assert "errors" not in managed["status"]


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_killed_in_the_midst_of_it(tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with fleet(tmp_path, "w1", "w2") as made:
        await made.create("w1", nodes=1, onWorkerLost="Move")
        await made.inside("w1").create(DEPLOYMENTS, deployment("web", 2), "default")
        pods = await running_pods(made.inside("w1"), 2)
        await made.backed_up("w1")
        await made.stop("w1")
        moves = made.workers["w2"].shoal.cluster_moves
        assert moves is not None
        there, replace = asyncio.Event(), moves.storage.replace

        async def stuck(*given: Any) -> int:
            if moment == "after":
                await replace(*given)
            there.set()
            await asyncio.Event().wait()
            return 0

        monkeypatch.setattr(moves.storage, "replace", stuck)
        await made.move("w2")
        await there.wait()
        assert await is_empty(made, "w2") == (moment == "before")
        if moment == "after":
            error = await refused(made.inside("w2").create(CONFIG_MAPS, config_map("x"), "default"))
            assert error.message == "cluster default.east is read-only: it is being restored from its log"
        await made.stop("w2")
        await made.start("w2")
        await made.until(lambda obj: phase(obj) == "Running")
        uids = {pod["metadata"]["uid"] for pod in pods}
        assert {pod["metadata"]["uid"] for pod in await running_pods(made.inside("w2"), 2)} == uids


async def test_who_has_something_of_that_name_does_not_lose_it(tmp_path: Path) -> None:
    async with fleet(tmp_path, "w1", "w2") as made:
        await made.create("w1", nodes=0, onWorkerLost="Move")
        await made.backed_up("w1")
        await made.stop("w1")
        body = {
            "apiVersion": "core.shoal.dev/v1alpha1",
            "kind": "LogicalCluster",
            "metadata": {"name": "default.east"},
            "spec": {"profile": "cluster"},
        }
        theirs = await made.root("w2").create(LOGICAL_CLUSTERS, body)
        await made.move("w2")
        managed = await made.until(lambda obj: phase(obj) == "Failed")
        assert condition(managed, "Restored")["reason"] == "NameTaken"
        found = await made.root("w2").get(LOGICAL_CLUSTERS, "default.east")
        assert found["metadata"]["uid"] == theirs["metadata"]["uid"]


async def test_the_log_follows_and_is_only_its_holder_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with fleet(tmp_path, "w1", "w2") as made:
        monkeypatch.setattr("shoal.fleet.worker.replication.log.MOST", 5)
        await made.create("w1", nodes=0, onWorkerLost="Move")
        inside = made.inside("w1")
        numbers = set()
        for number in range(12):
            await inside.create(CONFIG_MAPS, config_map(f"c{number}", a="b"), "default")
            managed = await made.backed_up("w1")
            numbers.add(managed["status"]["backup"]["first"])
        assert len(numbers) > 1, "a new base was shipped"

        async def trimmed() -> bool:
            said = migration.backup_status(await made.get())
            return await made.segments() == sorted(map(log.secret_name, range(said["first"], said["last"] + 1)))

        log = await made.log_key()
        await eventually(trimmed)
        secret = await made.hub.get(SECRETS, (await made.segments())[-1], LOGS)
        assert (secret["type"], secret["metadata"]["labels"]) == (
            cluster_log.SECRET_TYPE,
            {cluster_log.SECRET_TYPE: log.uid},
        )

        for name in ("resourceVersion", "uid", "creationTimestamp"):
            del secret["metadata"][name]
        holder, other = made.workers["w1"]._hub, made.workers["w2"]._hub
        another = _named(secret, log.secret_name(999))
        earlier = log._replace(uid=log.uid[:-1] + ("0" if log.uid[-1] != "0" else "1"))
        labelled = {cluster_log.SECRET_TYPE: earlier.uid}
        for client, attempt, why in (
            (other, another, "it is not the log of a ManagedCluster assigned to this worker"),
            (holder, {**another, "type": "Opaque"}, "a log Secret must have type"),
            (holder, _named(another, log._replace(epoch=2).secret_name(1)), "the log of epoch 2 is closed"),
            (
                holder,
                _named(another, log._replace(cluster="west").secret_name(1)),
                "it is not the log of a ManagedCluster assigned to this worker",
            ),
            (
                holder,
                _named(another, log._replace(namespace="team").secret_name(1)),
                "it is not the log of a ManagedCluster assigned to this worker",
            ),
            (
                holder,
                _named(another, earlier.secret_name(1), labels=labelled),
                "it is not the log of the current ManagedCluster",
            ),
            (holder, _named(another, earlier.secret_name(1)), "must have the label shoal.dev/cluster-log"),
        ):
            error = await refused(client.create(SECRETS, attempt, LOGS))
            assert isinstance(error, Forbidden)
            assert why in error.message
        lying = (await made.segments())[-1]
        assert isinstance(await refused(other.get(SECRETS, lying, LOGS)), Forbidden)
        assert isinstance(await refused(other.delete(SECRETS, lying, LOGS)), Forbidden)
        assert isinstance(await refused(holder.merge_patch(SECRETS, lying, {"data": {"log": ""}}, LOGS)), Forbidden)
        assert isinstance(await refused(holder.list_all(SECRETS, LOGS)), Forbidden)
        assert isinstance(await refused(holder.get(SECRETS, earlier.secret_name(1), LOGS)), Forbidden)
        assert isinstance(await refused(other.get(MANAGED_CLUSTERS, "east", "default")), Forbidden)

        # Of an older epoch, it is refused too, and may only look at who has it.
        made.lines["w1"].cut()
        await made.change(lambda managed: given(managed, "w9"))
        made.lines["w1"].mend()
        for attempt in (another, _named(another, log._replace(epoch=2).secret_name(1))):
            error = await refused(holder.create(SECRETS, attempt, LOGS))
            assert "it is not the log of a ManagedCluster assigned to this worker" in error.message
        seen = await holder.get(MANAGED_CLUSTERS, "east", "default")
        assert seen["status"]["formerWorkers"] == ["w1"]

        async def forbidden() -> bool:
            newest = await holder.get(MANAGED_CLUSTERS, "east", "default")
            error = await refused(holder.update(MANAGED_CLUSTERS, newest, "status"))
            assert isinstance(error, Forbidden | Conflict), "the hub may have written meanwhile"
            return isinstance(error, Forbidden)

        await eventually(forbidden)


def _named(secret: Object, name: str, **metadata: Any) -> Object:
    return {**secret, "metadata": {**secret["metadata"], "name": name, **metadata}}


@pytest.mark.soak
async def test_an_earlier_resource_version_of_the_wildcard_is_nobody_s_business(tmp_path: Path) -> None:
    """Revisions jump, and loops that follow all clusters go on."""
    async with fleet(tmp_path, "w1", "w2") as made:
        await made.create("w1", nodes=0, onWorkerLost="Move")
        await made.create("w2", "west", nodes=1)
        root = made.root("w2").in_cluster("*")
        _, revision = await root.list_all(CONFIG_MAPS)
        await made.backed_up("w1")
        await made.stop("w1")
        await made.move("w2")
        await made.until(lambda obj: phase(obj) == "Running")
        _, later = await root.list_all(CONFIG_MAPS)
        assert int(later) > int(revision) + 10_000_000
        beside = made.inside("w2", "default.west")
        async for event in beside.watch(CONFIG_MAPS, query={"resourceVersion": revision, "timeoutSeconds": "1"}):
            assert event["type"] in ("ADDED", "MODIFIED")
        with pytest.raises(Expired):
            async for _ in made.inside("w2").watch(CONFIG_MAPS, query={"resourceVersion": revision}):
                pass
        await beside.create(DEPLOYMENTS, deployment("web", 1), "default")
        await running_pods(beside, 1)
