"""DaemonSets in a running server, on simulated nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client, GroupVersionResource
from shoal.controlplane.controllers import new_workload_controllers
from tests.controlplane.simulated_nodes import NODES, REVISIONS, add_node, events, revisions, simulated_cluster
from tests.controlplane.workloads import PODS, Object, pods, replica_set, status_of, template
from tests.controlplane.world import world
from tests.serving import Cluster, Server

SETS = "/apis/apps/v1/namespaces/default/daemonsets"
WEB = f"{SETS}/web"
NODE_KIND, POD_KIND = GroupVersionResource("", "v1", "nodes", namespaced=False), GroupVersionResource("", "v1", "pods")
SET_KIND, REPLICA_SET_KIND = (
    GroupVersionResource("apps", "v1", "daemonsets"),
    GroupVersionResource("apps", "v1", "replicasets"),
)


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = simulated_cluster(server, "n1", "n2", "n3")
    yield cluster
    cluster.close()


def daemon_set(image: str = "web:1", **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "web", "annotations": {"kubernetes.io/change-cause": "first"}},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template(image), **spec},
    }


def counts(cluster: Cluster) -> Object:
    found = cluster.get(WEB).ok()
    status: Object = found.get("status") or {}
    return status if status.get("observedGeneration") == found["metadata"]["generation"] else {}


def is_done(cluster: Cluster, size: int) -> bool:
    status = counts(cluster)
    fields = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady")
    later = ("updatedNumberScheduled", "numberAvailable")
    return bool(
        status
        and [status[field] for field in fields] == [size] * 3
        and [status.get(field, 0) for field in later] == [size] * 2
        and len(pods(cluster)) == size
    )


def wait_rolled_out(cluster: Cluster, size: int) -> None:
    cluster.eventually(lambda: is_done(cluster, size))


def pod_nodes(cluster: Cluster) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in pods(cluster))


def set_image(cluster: Cluster, image: str) -> None:
    spec = {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}
    cluster.patch(WEB, {"spec": spec}, kind="strategic-merge").ok()


def images(cluster: Cluster) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in pods(cluster)}


def test_every_node_gets_a_pod(cluster: Cluster) -> None:
    made = cluster.post(SETS, daemon_set()).ok()
    wait_rolled_out(cluster, 3)
    assert pod_nodes(cluster) == ["n1", "n2", "n3"]
    assert status_of(cluster, WEB) == {
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 3,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "updatedNumberScheduled": 3,
        "numberAvailable": 3,
        "observedGeneration": 1,
    }
    (revision,) = cluster.get(REVISIONS).ok()["items"]
    hashed = revision["metadata"]["labels"]["controller-revision-hash"]
    assert revision["metadata"]["name"] == f"web-{hashed}"
    assert revision["metadata"]["annotations"]["kubernetes.io/change-cause"] == "first"
    assert revision["revision"] == 1
    pod = pods(cluster)[0]
    assert pod["metadata"]["labels"] == {
        "app": "web",
        "controller-revision-hash": hashed,
        "pod-template-generation": "1",
    }
    assert pod["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    field = {"key": "metadata.name", "operator": "In", "values": [pod["spec"]["nodeName"]]}
    assert required == {"nodeSelectorTerms": [{"matchFields": [field]}]}
    tolerated = [(one["key"].removeprefix("node.kubernetes.io/"), one["effect"]) for one in pod["spec"]["tolerations"]]
    assert tolerated == [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ]
    cluster.eventually(lambda: len(events(cluster, "DaemonSet")) == 3)
    assert {reason for reason, _ in events(cluster, "DaemonSet")} == {"SuccessfulCreate"}


def test_pods_follow_nodes_their_labels_and_taints(cluster: Cluster) -> None:
    made = daemon_set()
    made["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    cluster.post(SETS, made).ok()
    cluster.eventually(lambda: counts(cluster).get("desiredNumberScheduled") == 0)
    assert not pods(cluster)
    cluster.patch(f"{NODES}/n2", {"metadata": {"labels": {"disk": "ssd"}}}).ok()
    wait_rolled_out(cluster, 1)
    add_node(cluster, "n4", disk="ssd")
    add_node(cluster, "n5", disk="ssd", taints=[{"key": "own", "effect": "NoSchedule"}])
    wait_rolled_out(cluster, 2)
    assert pod_nodes(cluster) == ["n2", "n4"]
    cluster.patch(f"{NODES}/n2", {"spec": {"taints": [{"key": "own", "effect": "NoSchedule"}]}}).ok()
    cluster.eventually(lambda: status_of(cluster, WEB).get("numberMisscheduled") == 1)
    assert pod_nodes(cluster) == ["n2", "n4"], "what is there already may stay"
    cluster.patch(f"{NODES}/n4", {"metadata": {"labels": {"disk": None}}}).ok()
    cluster.eventually(lambda: pod_nodes(cluster) == ["n2"])
    cluster.delete(f"{NODES}/n2").ok()
    cluster.eventually(lambda: not pods(cluster) and counts(cluster).get("numberMisscheduled") == 0)


def test_a_pod_that_failed_is_replaced(cluster: Cluster) -> None:
    cluster.post(SETS, daemon_set()).ok()
    wait_rolled_out(cluster, 3)
    name = pods(cluster)[0]["metadata"]["name"]
    cluster.patch(f"{PODS}/{name}/status", {"status": {"phase": "Failed"}}).ok()
    cluster.eventually(lambda: cluster.get(f"{PODS}/{name}").status == 404)
    wait_rolled_out(cluster, 3)
    cluster.eventually(lambda: "FailedDaemonPod" in dict(events(cluster, "DaemonSet")))
    assert f"Found failed daemon pod default/{name} on node " in dict(events(cluster, "DaemonSet"))["FailedDaemonPod"]


def test_a_rolling_update_keeps_its_bound_and_can_be_undone(cluster: Cluster) -> None:
    cluster.post(SETS, daemon_set()).ok()
    wait_rolled_out(cluster, 3)
    first = next(iter(revisions(cluster)))
    with cluster.watch(PODS) as watch:
        set_image(cluster, "web:2")
        wait_rolled_out(cluster, 3)
        assert images(cluster) == {"web:2"}
        ready: set[str] = set()
        updated: set[str] = set()
        while len(updated) < 3:
            event = watch.next()
            name, status = event["object"]["metadata"]["name"], event["object"]["status"]
            conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
            counts_ = conditions.get("Ready") == "True" and "deletionTimestamp" not in event["object"]["metadata"]
            (ready.add if counts_ and event["type"] != "DELETED" else ready.discard)(name)
            if counts_ and event["object"]["spec"]["containers"][0]["image"] == "web:2":
                updated.add(name)
            if updated:
                assert len(ready) >= 2
    assert sorted(revisions(cluster).values()) == [1, 2]
    set_image(cluster, "web:1")
    wait_rolled_out(cluster, 3)
    assert images(cluster) == {"web:1"}
    assert revisions(cluster)[first] == 3


def test_surge_brings_the_new_pod_before_the_old_one_goes(cluster: Cluster) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    cluster.post(SETS, daemon_set(updateStrategy=rolling)).ok()
    wait_rolled_out(cluster, 3)
    with cluster.watch(PODS) as watch:
        set_image(cluster, "web:2")
        wait_rolled_out(cluster, 3)
        running: dict[str, bool] = {}
        gone = 0
        while gone < 3:
            event = watch.next()
            metadata, spec = event["object"]["metadata"], event["object"]["spec"]
            if event["type"] == "DELETED":
                gone += 1
            conditions = {one["type"]: one["status"] for one in event["object"]["status"].get("conditions") or ()}
            if spec["containers"][0]["image"] == "web:2":
                running[spec.get("nodeName", "")] = conditions.get("Ready") == "True"
            elif "deletionTimestamp" in metadata:
                assert running[spec["nodeName"]], "the old one goes when the new one is ready"
    assert images(cluster) == {"web:2"}


def test_on_delete_waits_for_deletions(cluster: Cluster) -> None:
    cluster.post(SETS, daemon_set(updateStrategy={"type": "OnDelete"}, revisionHistoryLimit=0)).ok()
    wait_rolled_out(cluster, 3)
    set_image(cluster, "web:2")
    cluster.eventually(lambda: counts(cluster) and "updatedNumberScheduled" not in counts(cluster))
    assert images(cluster) == {"web:1"}
    for pod in pods(cluster):
        cluster.delete(f"{PODS}/{pod['metadata']['name']}").ok()
    wait_rolled_out(cluster, 3)
    assert images(cluster) == {"web:2"}
    cluster.eventually(lambda: list(revisions(cluster).values()) == [2])


def test_orphans_are_taken_over_and_deletion_takes_all(cluster: Cluster) -> None:
    made = cluster.post(SETS, daemon_set()).ok()
    wait_rolled_out(cluster, 3)
    before = sorted(pod["metadata"]["uid"] for pod in pods(cluster))
    cluster.delete(f"{WEB}?propagationPolicy=Orphan").ok()
    cluster.eventually(lambda: cluster.get(WEB).status == 404)
    cluster.eventually(lambda: not any(pod["metadata"].get("ownerReferences") for pod in pods(cluster)))
    assert sorted(pod["metadata"]["uid"] for pod in pods(cluster)) == before
    again = cluster.post(SETS, daemon_set()).ok()
    assert again["metadata"]["uid"] != made["metadata"]["uid"]
    wait_rolled_out(cluster, 3)
    assert sorted(pod["metadata"]["uid"] for pod in pods(cluster)) == before
    assert list(revisions(cluster).values()) == [1]
    cluster.delete(WEB).ok()
    cluster.eventually(lambda: not pods(cluster) and not revisions(cluster))


class LateLists:
    """A transport on which the first list of pods takes its time."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def request(self, method: str, path: str, *rest: object) -> object:
        if method == "GET" and path == "/clusters/*/api/v1/pods":
            await asyncio.sleep(0.2)
        return await self._inner.request(method, path, *rest)  # type: ignore[attr-defined]


@pytest.mark.anyio
async def test_a_restart_finds_what_there_is(tmp_path: Path) -> None:
    """What is not listed yet is not missing: nothing is made twice."""
    async with world(tmp_path, loops=False) as given:
        client = await given.cluster("c")
        for name in ("n1", "n2"):
            await client.create(NODE_KIND, {"metadata": {"name": name}})
        await client.create(SET_KIND, daemon_set(), "default")
        await client.create(REPLICA_SET_KIND, replica_set(2), "default")

        async def made() -> list[str]:
            found, _ = await client.list_all(POD_KIND, "default")
            return sorted(pod["metadata"]["uid"] for pod in found)

        async def run(transport: object, look: Callable[[], Awaitable[bool]]) -> None:
            shared = Client(transport, "admin", cluster="root")  # type: ignore[arg-type]
            shared.informers = {}
            loops = new_workload_controllers(shared, given.clock)
            tasks = [asyncio.create_task(loop.run()) for loop in loops]
            await given.eventually(look)
            await asyncio.sleep(0.1)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        async def four() -> bool:
            return len(await made()) == 4

        await run(given.server.transport(), four)
        before = await made()
        revision = given.server.core.cache.revision
        started = asyncio.get_running_loop().time()

        async def later() -> bool:
            return asyncio.get_running_loop().time() - started > 0.5

        await run(LateLists(given.server.transport()), later)
        assert await made() == before
        assert given.server.core.cache.revision == revision, "there was nothing to do"
