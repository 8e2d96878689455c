"""The example of kcp's multi-cluster page: two clusters, one in push and one in pull mode; a Deployment runs in
each.
"""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from shoal.kinds.workload import workloadcluster
from tests.serving import Cluster, config_map
from tests.sync.hub_cluster_pair import with_config
from tests.sync.pull_mode import identity, pull_syncer
from tests.sync.sync_environment import NAMESPACES, WORKLOAD_CLUSTERS, Object, World, deployment
from tests.sync.test_sync_end_to_end import gone, there

NODES = "/api/v1/nodes"


def add_node(member: Cluster) -> None:
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    node = {
        "metadata": {"name": "n1", "labels": {"shoal.dev/simulated": "true", "kubernetes.io/hostname": "n1"}},
        "spec": {"providerID": "simulated://n1"},
        "status": {"capacity": capacity, "allocatable": capacity},
    }
    member.post(NODES, node).ok()


def tell(world: World, clusters: dict[str, Cluster]) -> None:
    settings = f"{world.path('configmaps')}/settings"
    world.hub.post(world.path("configmaps"), config_map("settings", {"color": "red"})).ok()
    for name in clusters:
        world.hub.post(world.path(), with_config(f"web-{name}", name, "settings")).ok()
    for name, member in clusters.items():
        path = f"{world.path()}/web-{name}"
        there(member, path)
        assert there(member, settings)["data"] == {"color": "red"}

        def runs(replicas: int, image: str = "web:1", path: str = path, member: Cluster = member) -> bool:
            up: Object = world.hub.get(path).ok()
            down: Object = member.get(path).ok()
            status = up.get("status") or {}
            ready = status.get("readyReplicas", 0) == status.get("updatedReplicas", 0) == replicas
            seen = status.get("observedGeneration") == up["metadata"]["generation"]
            containers = down["spec"]["template"]["spec"]["containers"]
            return bool(ready and seen and containers[0]["image"] == image)

        world.hub.eventually(lambda runs=runs: runs(1))  # type: ignore[misc]
        world.hub.patch(path, {"spec": {"replicas": 4}}).ok()
        world.hub.eventually(lambda runs=runs: runs(4))  # type: ignore[misc]
        container = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}}
        world.hub.patch(path, container, kind="strategic-merge").ok()
        world.hub.eventually(lambda runs=runs: runs(4, "web:2"))  # type: ignore[misc]
    world.hub.patch(settings, {"data": {"color": "blue"}}).ok()
    for name, member in clusters.items():
        member.eventually(lambda member=member: member.get(settings)["data"] == {"color": "blue"})  # type: ignore[misc]
        world.hub.delete(f"{world.path()}/web-{name}").ok()
    for name, member in clusters.items():
        gone(world.hub, f"{world.path()}/web-{name}")
        gone(member, f"{world.path()}/web-{name}")
        gone(member, f"{NAMESPACES}/{world.namespace}")
    assert world.hub.get(settings).status == 200


def test_events_are_shown_on_the_hub_on_request(world: World) -> None:
    member, name = world.member(), f"{world.namespace}-pulled"
    token = identity(world, name)
    path = f"{world.path()}/web"
    with pull_syncer(world, name, member, token):
        world.ready(name)
        world.hub.post(world.path(), deployment("web", name, replicas=1)).ok()
        member.eventually(lambda: len(member.get(world.path("events")).ok()["items"]) >= 2)
        assert world.hub.get(world.path("events")).ok()["items"] == []
        world.hub.patch(f"{WORKLOAD_CLUSTERS}/{name}", {"spec": {"mirror": ["events"]}}).ok()

        def shown() -> dict[str, Object]:
            found = world.hub.get(world.path("events")).ok()["items"]
            return {event["reason"]: event for event in found}

        world.hub.eventually(lambda: shown().keys() >= {"ScalingReplicaSet", "FailedScheduling"})
        scaling, failed = shown()["ScalingReplicaSet"], shown()["FailedScheduling"]
        assert scaling["involvedObject"]["uid"] == world.hub.get(path).ok()["metadata"]["uid"]
        assert scaling["metadata"]["labels"] == {workloadcluster.MIRRORED_FROM_LABEL: name}
        assert failed["involvedObject"] == scaling["involvedObject"]
        assert failed["message"].startswith("Pod web-")


@pytest.mark.parametrize("pull", [False, True])
def test_pods_that_find_no_node_are_counted(world: World, pull: bool) -> None:
    member = world.member()
    name = f"{world.namespace}-pulled" if pull else world.register(member)
    path = f"{world.path()}/web"

    def told() -> object:
        return (world.hub.get(path).ok()["metadata"].get("annotations") or {}).get(
            workloadcluster.UNSCHEDULABLE_ANNOTATION
        )

    with pull_syncer(world, name, member, identity(world, name)) if pull else nullcontext():
        world.ready(name)
        world.hub.post(world.path(), deployment("web", name, replicas=3)).ok()
        world.hub.eventually(lambda: told() == "3")
        assert workloadcluster.UNSCHEDULABLE_ANNOTATION not in member.get(path).ok()["metadata"]["annotations"]
        add_node(member)
        world.hub.eventually(lambda: told() is None)


@pytest.mark.parametrize("pull", [False, True])
def test_the_story(world: World, pull: bool) -> None:
    east, west = world.member(), world.member()
    for member in (east, west):
        add_node(member)
    first = world.register(east)
    if not pull:
        tell(world, {first: east, world.register(west): west})
        return
    name = f"{world.namespace}-west"
    with pull_syncer(world, name, west, identity(world, name)):
        world.ready(name)
        tell(world, {first: east, name: west})
