"""A worker and its hub, both real servers: joining, hosting, reporting, deleting, and what must never happen.

The Cluster API controllers do not run: the tests set what its provider would.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.client.rest import Client, GroupVersionResource
from shoal.fleet.resources import CONFIG_MAPS, LEASES, LOGICAL_CLUSTERS, MANAGED_CLUSTERS, NAMESPACES, SECRETS, WORKERS
from shoal.fleet.worker.informers import CLUSTERS, EMBEDDED_CLUSTERS, EMBEDDED_TEMPLATES, MACHINE_DEPLOYMENTS
from shoal.kinds.fleet import infrav1 as names
from shoal.kinds.versions import SUPPORTED_VERSIONS
from tests.fleet.fleets import SYSTEM, Fleet, condition, eventually, fleet, gone, managed, phase, provision, there

Object = dict[str, Any]
pytestmark = pytest.mark.anyio

HOSTING = (CLUSTERS, EMBEDDED_CLUSTERS, EMBEDDED_TEMPLATES, MACHINE_DEPLOYMENTS)


async def running_cluster(
    made: Fleet, own: Client, name: str = "east", namespace: str = "default", **spec: Any
) -> Object:
    await made.create(name, namespace, **spec)
    await provision(own, name, namespace)
    return await made.until(name, lambda obj: phase(obj) == "Running", namespace)


async def count(client: Client, *kinds: GroupVersionResource) -> int:
    return sum([len((await client.list_all(kind))[0]) for kind in kinds])


async def complete(own: Client) -> bool:
    return await count(own, *HOSTING) == 10


def none_left(client: Client) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return await count(client, MANAGED_CLUSTERS, *HOSTING) == 0

    return look


async def settle() -> None:
    """Long enough for a wrong step to be taken; nothing is waited for."""
    await asyncio.sleep(0.15)


async def test_a_worker_joins(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        own = await made.join("w1", 7, "north")
        found = await made.until_worker("w1", lambda obj: phase(obj) == "Running")
        assert found["spec"] == {
            "version": "v1.36.4",
            "capacity": 7,
            "location": "north",
            "infrastructure": "external",
            "provides": ["embedded"],
            "versions": list(SUPPORTED_VERSIONS),
        }
        root = await own.get(LOGICAL_CLUSTERS, "root")
        assert found["metadata"]["annotations"][names.STORE_ANNOTATION] == root["metadata"]["uid"]
        lease = await made.hub.get(LEASES, "worker-w1", SYSTEM)
        assert lease["spec"]["leaseDurationSeconds"] == 40
        hub = await made.hub.get(LOGICAL_CLUSTERS, "root")
        assert (await own.get(CONFIG_MAPS, "hub", SYSTEM))["data"] == {"id": hub["metadata"]["uid"]}


async def test_its_flags_win_and_peoples_labels_and_taints_stay(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        await made.join("w1", 7)
        await made.until_worker("w1", lambda obj: phase(obj) == "Running")
        taint = {"key": "k", "value": "", "effect": "NoSchedule"}
        theirs = {"metadata": {"labels": {"a": "b"}}, "spec": {"capacity": 1, "taints": [taint]}}
        await made.hub.merge_patch(WORKERS, "w1", theirs, SYSTEM)
        await made.part("w1")
        await made.join("w1", 9)
        found = await made.until_worker("w1", lambda obj: obj["spec"]["capacity"] == 9)
        assert found["metadata"]["labels"] == {"a": "b"}
        assert found["spec"]["taints"] == [taint]


async def test_another_store_does_not_get_the_name(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        first = await made.join("w1")
        await running_cluster(made, first)
        await made.part("w1")
        second = await made.join("w1", store="other")
        await settle()
        assert await count(second, MANAGED_CLUSTERS) == 0, "the clusters of that name are in the first one's store"
        worker = await made.worker("w1")
        root = await first.get(LOGICAL_CLUSTERS, "root")
        assert worker["metadata"]["annotations"][names.STORE_ANNOTATION] == root["metadata"]["uid"]


async def test_a_managed_cluster_runs(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        own = await made.join("w1")
        await made.create("east", nodes=3, version="v1.36.4")
        found = await made.until("east", lambda obj: condition(obj, "Ready"))
        assert phase(found) == "Provisioning"
        assert condition(found, "Ready")["message"] == "the control plane is being provisioned"
        assert await gone(made.hub, SECRETS, "east-kubeconfig")
        await provision(own, "east")
        found = await made.until("east", lambda obj: phase(obj) == "Running")
        assert (found["status"]["assignedWorker"], found["status"]["epoch"]) == ("w1", 1)
        assert found["status"]["observedGeneration"] == 1
        assert condition(found, "NodesReady")["message"] == "0 of 3 nodes are ready"
        secret = await made.hub.get(SECRETS, "east-kubeconfig", "default")
        assert secret["type"] == "cluster.x-k8s.io/secret"
        assert secret["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
        config = yaml.safe_load(base64.b64decode(secret["data"]["value"]))
        assert config["clusters"][0]["cluster"]["server"] == "https://hub:6443/managedclusters/default/east"
        assert config["users"][0]["user"] == {"token": "let-me-in"}
        await eventually(lambda: complete(own))
        for name in ("default", "small", "medium", "large"):
            pool = await own.get(MACHINE_DEPLOYMENTS, f"east-{name}", "default")
            assert pool["spec"]["replicas"] == (3 if name == "default" else 0)
            assert pool["spec"]["template"]["spec"]["version"] == "v1.36.4"
            template = await own.get(EMBEDDED_TEMPLATES, f"east-{name}", "default")
            assert template["spec"]["template"]["spec"]["instanceType"] == name
        status = {"replicas": 3, "readyReplicas": 3}
        await own.merge_patch(MACHINE_DEPLOYMENTS, "east-default", {"status": status}, "default", "status")
        found = await made.until("east", lambda obj: obj["status"]["nodes"] == 3)
        assert condition(found, "NodesReady")["status"] == "True"


async def test_changes_flow_and_the_provisioners_replicas_stay(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        own = await made.join("w1")
        await running_cluster(made, own, nodes=1)
        await own.merge_patch(MACHINE_DEPLOYMENTS, "east-large", {"spec": {"replicas": 6}}, "default")
        patch = {"spec": {"nodes": 4, "version": "v1.36.5"}}
        await made.hub.merge_patch(MANAGED_CLUSTERS, "east", patch, "default")

        async def arrived() -> bool:
            pool = await own.get(MACHINE_DEPLOYMENTS, "east-default", "default")
            spec = pool["spec"]
            return bool(spec["replicas"] == 4 and spec["template"]["spec"].get("version") == "v1.36.5")

        await eventually(arrived)
        await made.until("east", lambda obj: obj["status"]["observedGeneration"] == 2)
        assert (await own.get(MACHINE_DEPLOYMENTS, "east-large", "default"))["spec"]["replicas"] == 6
        assert (await own.get(EMBEDDED_CLUSTERS, "east", "default"))["spec"]["version"] == "v1.36.5"


async def revisions(made: Fleet, own: Client) -> list[int]:
    return [int((await client.list_all(NAMESPACES))[1]) for client in (made.hub, own)]


async def quiet(made: Fleet, own: Client) -> list[int]:
    """The revisions of both stores, as soon as nothing is written any more."""

    async def still() -> list[int] | None:
        before = await revisions(made, own)
        await settle()
        return before if await revisions(made, own) == before else None

    return await eventually(still)


async def test_nothing_is_written_when_nothing_changes(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        own = await made.join("w1")
        await running_cluster(made, own)
        before = await quiet(made, own)
        await made.part("w1")
        await made.join("w1")

        async def renewed() -> bool:
            return (await revisions(made, own))[0] > before[0]

        await eventually(renewed)
        assert await quiet(made, own) == [before[0] + 1, before[1]], "a restart renews the Lease, and that is all"


async def test_deletion_takes_everything_along_and_then_tells_the_hub(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        own = await made.join("w1", 1)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
        await made.hub.create(NAMESPACES, namespace)
        await running_cluster(made, own, "east", "team")
        holding = {"metadata": {"finalizers": ["cluster.cluster.x-k8s.io"]}}
        await own.merge_patch(CLUSTERS, "east", holding, "team")
        await made.hub.delete(MANAGED_CLUSTERS, "east", "team")
        await made.until("east", lambda obj: phase(obj) == "Terminating", "team")

        async def going() -> bool:
            return "deletionTimestamp" in (await own.get(CLUSTERS, "east", "team"))["metadata"]

        await eventually(going)
        await settle()
        assert (await made.get("east", "team"))["metadata"]["finalizers"] == [names.MANAGED_CLUSTER_FINALIZER]
        assert not await gone(made.hub, SECRETS, "east-kubeconfig", "team")
        await own.merge_patch(CLUSTERS, "east", {"metadata": {"finalizers": None}}, "team")
        await eventually(lambda: gone(made.hub, MANAGED_CLUSTERS, "east", "team"))
        assert await gone(made.hub, SECRETS, "east-kubeconfig", "team")
        assert await none_left(own)()
        await made.until_worker("w1", lambda obj: obj["status"]["availableCapacity"] == 1)


async def test_a_deletion_while_the_worker_is_away_happens_when_it_is_back(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        own = await made.join("w1")
        await running_cluster(made, own)
        await made.part("w1")
        await made.hub.delete(MANAGED_CLUSTERS, "east", "default")
        await settle()
        assert not await gone(own, CLUSTERS, "east")
        await made.join("w1")
        await eventually(lambda: gone(made.hub, MANAGED_CLUSTERS, "east"))
        assert await none_left(own)()


async def test_one_deleted_before_the_worker_ever_saw_it_goes_too(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        await made.join("w1")
        await made.until_worker("w1", lambda obj: phase(obj) == "Running")
        await made.part("w1")
        await made.create("east")
        await made.until("east", lambda obj: phase(obj) == "Scheduled")
        await made.hub.delete(MANAGED_CLUSTERS, "east", "default")
        await made.join("w1")
        await eventually(lambda: gone(made.hub, MANAGED_CLUSTERS, "east"))


async def test_an_assignment_that_is_no_longer_seen_is_not_a_deletion(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        own = await made.join("w1")
        found = await running_cluster(made, own)
        forced = names.without_finalizer(found)
        await made.hub.update(MANAGED_CLUSTERS, forced)
        await made.hub.delete(MANAGED_CLUSTERS, "east", "default")
        await eventually(lambda: gone(made.hub, MANAGED_CLUSTERS, "east"))
        await settle()
        assert not await gone(own, CLUSTERS, "east")
        assert not await gone(own, MANAGED_CLUSTERS, "east")
        await made.create("east", nodes=5)  # another one of that name: then the hub has said that the first is gone
        await eventually(lambda: _nodes(own, 5))


async def _nodes(own: Client, wanted: int) -> bool:
    if await gone(own, MACHINE_DEPLOYMENTS, "east-default"):
        return False
    return bool((await own.get(MACHINE_DEPLOYMENTS, "east-default", "default"))["spec"]["replicas"] == wanted)


async def test_another_hub_gets_nothing_deleted_until_it_is_accepted(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        own = await made.join("w1")
        await running_cluster(made, own)
        pin = await own.get(CONFIG_MAPS, "hub", SYSTEM)
        await own.merge_patch(CONFIG_MAPS, "hub", {"data": {"id": "the hub it joined"}}, SYSTEM)
        await made.hub.delete(MANAGED_CLUSTERS, "east", "default")
        await made.until("east", lambda obj: phase(obj) == "Terminating")
        await settle()
        assert not await gone(own, MANAGED_CLUSTERS, "east")
        assert "deletionTimestamp" not in (await own.get(CLUSTERS, "east", "default"))["metadata"]
        await own.merge_patch(CONFIG_MAPS, "hub", {"data": pin["data"]}, SYSTEM)
        await eventually(lambda: gone(made.hub, MANAGED_CLUSTERS, "east"))


async def test_a_cluster_deleted_behind_its_back_is_made_again(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        own = await made.join("w1")
        await running_cluster(made, own)
        first = await own.get(CLUSTERS, "east", "default")
        await own.delete(CLUSTERS, "east", "default")
        await made.until("east", lambda obj: phase(obj) == "Provisioning")

        async def again() -> bool:
            if await gone(own, CLUSTERS, "east"):
                return False
            return bool((await own.get(CLUSTERS, "east", "default"))["metadata"]["uid"] != first["metadata"]["uid"])

        await eventually(again)


async def test_a_kind_the_worker_does_not_provide_is_refused_in_status(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        own = await made.join("w1")
        await made.until_worker("w1", lambda obj: phase(obj) == "Running")
        obj = await made.hub.create(MANAGED_CLUSTERS, managed("real", infrastructure="kind"), "default")
        await made.until("real", lambda obj: phase(obj) == "Pending")
        obj = names.with_finalizer(await made.get("real"))
        obj = await made.hub.update(MANAGED_CLUSTERS, obj)
        by_hand = {"status": {"assignedWorker": "w1", "epoch": 1, "phase": "Provisioning"}}
        await made.hub.merge_patch(MANAGED_CLUSTERS, "real", by_hand, "default", "status")
        found = await made.until("real", lambda obj: phase(obj) == "Failed")
        text = "infrastructure kind is not supported by worker w1, which provides embedded"
        assert found["status"]["errors"][-1]["message"] == text
        assert await count(own, *HOSTING) == 0
        await made.hub.delete(MANAGED_CLUSTERS, "real", "default")
        await eventually(lambda: gone(made.hub, MANAGED_CLUSTERS, "real"))


async def test_somebody_elses_secret_is_not_overwritten(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        own = await made.join("w1")
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "east-kubeconfig"}}
        theirs = await made.hub.create(SECRETS, secret, "default")
        await made.create("east")
        await provision(own, "east")
        found = await made.until("east", lambda obj: phase(obj) == "Failed")
        assert found["status"]["errors"][0]["reason"] == "SecretNameTaken"
        assert await made.hub.get(SECRETS, "east-kubeconfig", "default") == theirs
        await made.hub.delete(SECRETS, "east-kubeconfig", "default")
        await made.until("east", lambda obj: phase(obj) == "Running")


async def test_two_workers_share_and_each_hosts_its_own(tmp_path: Path) -> None:
    async with fleet(tmp_path) as made:
        owns = {"w1": await made.join("w1", 2), "w2": await made.join("w2", 2)}
        for name in owns:
            await made.until_worker(name, lambda obj: phase(obj) == "Running")
        for number in range(4):
            await made.create(f"c{number}")
        found = [await made.until(f"c{n}", lambda obj: condition(obj, "Ready")) for n in range(4)]
        assert sorted(obj["status"]["assignedWorker"] for obj in found) == ["w1", "w1", "w2", "w2"]
        for obj in found:
            mine = obj["status"]["assignedWorker"]
            other = "w2" if mine == "w1" else "w1"
            await eventually(partial(there, owns[mine], CLUSTERS, obj["metadata"]["name"]))
            assert await gone(owns[other], CLUSTERS, obj["metadata"]["name"])
