"""ReplicaSets in a running server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import rfc3339
from shoal.controlplane.controllers import new_workload_controllers
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.podcontrol.batches import MAX_CONCURRENT, run_all, slow_start
from shoal.controlplane.replicasets import controller, decide
from shoal.objects.errors import Forbidden
from tests.controlplane.workloads import (
    PODS,
    REPLICA_SETS,
    Object,
    condition,
    make_ready,
    pods,
    replica_set,
    status_of,
    template,
)
from tests.controlplane.world import world
from tests.serving import Cluster, Server, fresh_cluster

WEB = f"{REPLICA_SETS}/web"
SETS, POD_KIND = GroupVersionResource("apps", "v1", "replicasets"), GroupVersionResource("", "v1", "pods")


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    yield cluster
    cluster.close()


def has(cluster: Cluster, count: int) -> list[Object]:
    """Waits until the ReplicaSet has seen that many pods."""
    cluster.eventually(lambda: status_of(cluster, WEB).get("replicas") == count and len(pods(cluster)) == count)
    return pods(cluster)


def test_pods_are_made_and_counted(cluster: Cluster) -> None:
    made = cluster.post(REPLICA_SETS, replica_set(3)).ok()
    found = has(cluster, 3)
    for pod in found:
        assert pod["metadata"]["name"].startswith("web-")
        assert pod["metadata"]["labels"] == {"app": "web"}
        assert pod["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "web",
                "uid": made["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    for pod in found[:2]:
        make_ready(cluster, pod["metadata"]["name"])
    cluster.eventually(lambda: status_of(cluster, WEB).get("readyReplicas") == 2)
    assert status_of(cluster, WEB) == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "terminatingReplicas": 0,
        "observedGeneration": 1,
    }


def test_a_lost_pod_is_replaced_and_surplus_goes_least_needed_first(cluster: Cluster) -> None:
    cluster.post(REPLICA_SETS, replica_set(3)).ok()
    found = has(cluster, 3)
    lost = found[0]["metadata"]["name"]
    cluster.delete(f"{PODS}/{lost}").ok()
    cluster.eventually(lambda: lost not in {p["metadata"]["name"] for p in pods(cluster)} and len(pods(cluster)) == 3)
    kept = pods(cluster)[1]["metadata"]["name"]
    make_ready(cluster, kept)
    cluster.eventually(lambda: status_of(cluster, WEB).get("readyReplicas") == 1)
    cluster.patch(f"{WEB}/scale", {"spec": {"replicas": 1}}).ok()
    assert [p["metadata"]["name"] for p in has(cluster, 1)] == [kept]
    cluster.patch(WEB, {"spec": {"replicas": 0}}).ok()
    has(cluster, 0)
    cluster.eventually(lambda: status_of(cluster, WEB)["observedGeneration"] == 3)


def test_a_pod_on_its_way_out_is_replaced_and_not_counted(cluster: Cluster) -> None:
    cluster.post(REPLICA_SETS, replica_set(2, template=template(finalizers=["example.com/wait"]))).ok()
    going = has(cluster, 2)[0]["metadata"]["name"]
    cluster.delete(f"{PODS}/{going}").ok()
    cluster.eventually(lambda: len(pods(cluster)) == 3)
    cluster.eventually(lambda: status_of(cluster, WEB).get("terminatingReplicas") == 1)
    cluster.eventually(lambda: status_of(cluster, WEB)["replicas"] == 2)
    cluster.patch(f"{PODS}/{going}", {"metadata": {"finalizers": None}}).ok()
    cluster.eventually(lambda: status_of(cluster, WEB).get("terminatingReplicas") == 0)
    assert len(pods(cluster)) == 2


def test_a_pod_that_ended_is_replaced_and_stays(cluster: Cluster) -> None:
    cluster.post(REPLICA_SETS, replica_set(1)).ok()
    ended = has(cluster, 1)[0]["metadata"]["name"]
    cluster.patch(f"{PODS}/{ended}/status", {"status": {"phase": "Failed"}}).ok()
    cluster.eventually(lambda: len(pods(cluster)) == 2)
    cluster.eventually(lambda: status_of(cluster, WEB)["replicas"] == 1)


def test_orphans_are_taken_over_and_strangers_let_go(cluster: Cluster) -> None:
    orphan = {"apiVersion": "v1", "kind": "Pod", **template()}
    orphan["metadata"] = {"name": "orphan", "labels": {"app": "web"}}
    cluster.post(PODS, orphan).ok()
    made = cluster.post(REPLICA_SETS, replica_set(2)).ok()
    assert "orphan" in {pod["metadata"]["name"] for pod in has(cluster, 2)}
    owner = cluster.get(f"{PODS}/orphan").ok()["metadata"]["ownerReferences"][0]
    assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)

    cluster.patch(f"{PODS}/orphan", {"metadata": {"labels": {"app": "mine"}}}).ok()
    cluster.eventually(lambda: "ownerReferences" not in cluster.get(f"{PODS}/orphan").ok()["metadata"])
    cluster.eventually(lambda: len(pods(cluster)) == 3)
    cluster.eventually(lambda: status_of(cluster, WEB)["replicas"] == 2)

    cluster.patch(f"{PODS}/orphan", {"metadata": {"labels": {"app": "web"}}}).ok()
    has(cluster, 2)


def test_another_controllers_pods_are_left_alone(cluster: Cluster) -> None:
    cluster.post(REPLICA_SETS, replica_set(1, name="other")).ok()
    cluster.eventually(lambda: len(pods(cluster)) == 1)
    cluster.post(REPLICA_SETS, replica_set(1)).ok()
    cluster.eventually(lambda: status_of(cluster, WEB).get("replicas") == 1)
    assert {pod["metadata"]["ownerReferences"][0]["name"] for pod in pods(cluster)} == {"other", "web"}


def test_what_a_quota_refuses_is_a_condition_until_there_is_room(cluster: Cluster) -> None:
    quotas = "/api/v1/namespaces/default/resourcequotas"
    hard = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    cluster.post(quotas, hard).ok()
    cluster.post(REPLICA_SETS, replica_set(4)).ok()
    cluster.eventually(lambda: condition(cluster.get(WEB).ok(), "ReplicaFailure").get("reason") == "FailedCreate")
    assert "exceeded quota" in condition(cluster.get(WEB).ok(), "ReplicaFailure")["message"]
    cluster.eventually(lambda: len(pods(cluster)) == 2)
    cluster.patch(f"{quotas}/q", {"spec": {"hard": {"pods": "9"}}}).ok()
    has(cluster, 4)
    cluster.eventually(lambda: not condition(cluster.get(WEB).ok(), "ReplicaFailure"))


def test_deleting_it_deletes_its_pods(cluster: Cluster) -> None:
    cluster.post(REPLICA_SETS, replica_set(3)).ok()
    has(cluster, 3)
    cluster.delete(WEB).ok()
    cluster.eventually(lambda: not pods(cluster))
    cluster.post(REPLICA_SETS, replica_set(2)).ok()
    has(cluster, 2)
    cluster.delete(WEB, {"propagationPolicy": "Orphan"}).ok()
    cluster.eventually(lambda: cluster.get(WEB).status == 404)
    assert [pod["metadata"].get("ownerReferences") or [] for pod in pods(cluster)] == [[], []]


def test_a_reference_to_a_set_of_another_cluster_is_nobodys(server: Server, cluster: Cluster) -> None:
    made = cluster.post(REPLICA_SETS, replica_set(1)).ok()
    has(cluster, 1)
    other = fresh_cluster(server, profile="cluster")
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": made["metadata"]["uid"]}
    stranger = {"apiVersion": "v1", "kind": "Pod", **template()}
    stranger["metadata"] = {
        "name": "stranger",
        "labels": {"app": "web"},
        "ownerReferences": [{**reference, "controller": True}],
        "finalizers": ["example.com/stay"],
    }
    other.post(PODS, stranger).ok()
    cluster.patch(WEB, {"spec": {"replicas": 2}}).ok()
    has(cluster, 2)
    other.close()


@pytest.mark.anyio
async def test_pods_become_available_with_time(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = await given.cluster("c")
        await client.create(SETS, replica_set(1, minReadySeconds=30), "default")
        (pod,) = await given.eventually(lambda: _pods(client))
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2023-11-14T22:13:20Z"}
        patch = {"status": {"phase": "Running", "conditions": [ready]}}
        await client.merge_patch(POD_KIND, pod["metadata"]["name"], patch, "default", "status")

        async def status() -> Object:
            found: Object = (await client.get(SETS, "web", "default"))["status"]
            return found

        async def is_ready() -> bool:
            return (await status()).get("readyReplicas") == 1

        async def is_available() -> bool:
            return (await status()).get("availableReplicas") == 1

        await given.eventually(is_ready)
        assert not await is_available()
        await asyncio.sleep(0.05)
        given.clock.step(29)
        await asyncio.sleep(0.05)
        assert not await is_available()
        given.clock.step(2)
        await given.eventually(is_available)


@pytest.mark.anyio
async def test_a_pod_that_becomes_available_while_it_is_looked_at_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as given:

        def takes_its_time(*arguments: Any) -> Object:
            found = decide.replica_set_status(*arguments)
            given.clock.step(0.6)
            return found

        monkeypatch.setattr(controller, "replica_set_status", takes_its_time)
        client = await given.cluster("c")
        await client.create(SETS, replica_set(1, minReadySeconds=30), "default")
        (pod,) = await given.eventually(lambda: _pods(client))
        since = given.clock.now()
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(since)}
        patch = {"status": {"phase": "Running", "conditions": [ready]}}
        await client.merge_patch(POD_KIND, pod["metadata"]["name"], patch, "default", "status")

        async def is_counted(as_what: str = "readyReplicas") -> bool:
            found: Object = await client.get(SETS, "web", "default")
            return bool(found["status"].get(as_what) == 1)

        await given.eventually(is_counted)
        given.clock.step(since + 28 - given.clock.now())
        while given.clock.now() < since + 31:
            given.clock.step(0.1)
            await asyncio.sleep(0.01)
        await given.eventually(lambda: is_counted("availableReplicas"))


async def _pods(client: Client) -> list[Object]:
    return (await client.list_all(POD_KIND, "default"))[0]


class SlowPods:
    """A transport on which news of pods take their time."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def stream(
        self, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[int, AsyncIterator[bytes]]:
        status, pieces = await self._inner.stream(method, path, query, headers)  # type: ignore[attr-defined]
        return status, self._late(pieces) if path.endswith("/pods") else pieces

    async def _late(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for piece in pieces:
            await asyncio.sleep(0.02)
            yield piece


@pytest.mark.anyio
async def test_a_slow_watch_never_makes_too_many_nor_deletes_too_many(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        client = await given.cluster("c")
        slow = Client(SlowPods(given.server.transport()), "admin", cluster="root")  # type: ignore[arg-type]
        slow.informers = {}
        tasks = [asyncio.create_task(loop.run()) for loop in new_workload_controllers(slow, given.clock)]
        await client.create(SETS, replica_set(7), "default")
        seen = set()

        async def counted(wanted: int) -> bool:
            seen.add(len(await _pods(client)))
            return bool((await client.get(SETS, "web", "default"))["status"].get("replicas") == wanted)

        await given.eventually(lambda: counted(7))
        assert max(seen) == 7
        seen.clear()
        await client.merge_patch(SETS, "web", {"spec": {"replicas": 3}}, "default")
        # Changes of the set itself wake the loop again and again before the pods are seen to go.
        for number in range(5):
            await client.merge_patch(SETS, "web", {"metadata": {"labels": {"n": str(number)}}}, "default")
            await asyncio.sleep(0.005)
        await given.eventually(lambda: counted(3))
        assert min(seen) == 3
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.anyio
async def test_only_clusters_have_workloads(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        hosted = HostedClusterFilter(given.client, given.clock)
        task = asyncio.create_task(hosted.run())
        added: list[str] = []
        assert not hosted.accepts("late", added.append, "key")
        await given.cluster("late")
        await given.cluster("hub", "hub")

        async def told() -> bool:
            return added == ["key"] and hosted.accepts("late", added.append, "again")

        await given.eventually(told)
        assert not hosted.accepts("root", added.append, "root")
        await asyncio.sleep(0.05)
        assert not hosted.accepts("hub", added.append, "hub")
        assert added == ["key"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.anyio
async def test_what_fails_is_tried_once_and_what_works_many_at_a_time() -> None:
    running, most, calls = 0, 0, 0

    async def work() -> None:
        nonlocal running, most, calls
        running, calls = running + 1, calls + 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    assert await slow_start(2000, work) is None
    assert (calls, most) == (2000, MAX_CONCURRENT)

    async def refuse() -> None:
        nonlocal calls
        calls += 1
        raise Forbidden("no")

    calls = 0
    assert str(await slow_start(2000, refuse)) == "no"
    assert calls == 1
    calls = 0
    assert str(await run_all([refuse, work, refuse])) == "no"
    assert calls == 3


@pytest.mark.anyio
@pytest.mark.parametrize("error", [Forbidden("no"), OSError("no"), TypeError("no")])
async def test_a_batch_ends_after_all_of_its_calls_whatever_one_raises(error: Exception) -> None:
    started = ended = 0

    async def work() -> None:
        nonlocal started, ended
        started += 1
        if started == 2:
            raise error
        await asyncio.sleep(0.01)
        ended += 1

    assert await slow_start(7, work) is error
    assert (started, ended) == (3, 2)
    started = ended = 0
    assert await run_all([work] * 3) is error
    assert (started, ended) == (3, 2)
