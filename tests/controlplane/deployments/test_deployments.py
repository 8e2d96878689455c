"""Tests of Deployments in a running server. The tests set the status of pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import GroupVersionResource
from shoal.kinds.apps.deployment import REVISION, replica_set_name, template_hash
from shoal.kinds.core.pod.status import is_active, is_ready
from tests.controlplane.workloads import (
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    Object,
    condition,
    deployment,
    pods,
    replica_set,
    run_pods,
    status_of,
    template,
    until,
)
from tests.controlplane.world import world
from tests.serving import Cluster, Server, fresh_cluster

WEB = f"{DEPLOYMENTS}/web"
EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    yield cluster
    cluster.close()


def is_done(cluster: Cluster, replicas: int) -> bool:
    found = cluster.get(WEB).ok()
    status = found.get("status") or {}
    counts = [status.get(f"{name}eplicas") for name in ("r", "updatedR", "readyR", "availableR")]
    return (
        counts == [replicas] * 4
        and status["observedGeneration"] == found["metadata"]["generation"]
        and condition(found, "Progressing").get("reason") == "NewReplicaSetAvailable"
    )


def wait_rolled_out(cluster: Cluster, replicas: int) -> None:
    until(cluster, lambda: is_done(cluster, replicas))


def sets(cluster: Cluster) -> dict[str, Object]:
    """By the image of their template."""
    found = cluster.get(REPLICA_SETS).ok()["items"]
    return {one["spec"]["template"]["spec"]["containers"][0]["image"]: one for one in found}


def set_image(cluster: Cluster, image: str) -> None:
    spec = {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}
    cluster.patch(WEB, {"spec": spec}, kind="strategic-merge").ok()


def revision(obj: Object) -> str:
    return str(obj["metadata"]["annotations"][REVISION])


def test_a_deployment_runs(cluster: Cluster) -> None:
    made = cluster.post(DEPLOYMENTS, deployment(3)).ok()
    wait_rolled_out(cluster, 3)
    found = cluster.get(WEB).ok()
    assert revision(found) == "1"
    assert found["metadata"]["generation"] == made["metadata"]["generation"], "its own notes are no change of it"
    (one,) = sets(cluster).values()
    assert one["metadata"]["name"] == replica_set_name("web", template_hash(found["spec"]["template"], None))
    assert condition(found, "Available")["status"] == "True"
    assert condition(found, "Progressing")["message"] == (
        f'ReplicaSet "{one["metadata"]["name"]}" has successfully progressed.'
    )


def test_it_tells_how_its_replica_sets_grow_and_shrink(cluster: Cluster) -> None:
    cluster.post(DEPLOYMENTS, deployment(1)).ok()
    wait_rolled_out(cluster, 1)
    set_image(cluster, "web:2")
    wait_rolled_out(cluster, 1)
    cluster.patch(WEB, {"spec": {"replicas": 3}}).ok()
    wait_rolled_out(cluster, 3)
    first, second = (sets(cluster)[image]["metadata"]["name"] for image in ("web:1", "web:2"))
    wanted = [
        f"Scaled up replica set {first} from 0 to 1",
        f"Scaled up replica set {second} from 0 to 1",
        f"Scaled down replica set {first} from 1 to 0",
        f"Scaled up replica set {second} from 1 to 3",
    ]
    where = f"{EVENTS}?fieldSelector=involvedObject.kind=Deployment,involvedObject.name=web"

    def told() -> list[Object]:
        found: list[Object] = cluster.get(where).ok()["items"]
        return found

    cluster.eventually(lambda: [one["message"] for one in told()] == wanted)
    who = {(one["type"], one["reason"], one["source"]["component"], one["reportingComponent"]) for one in told()}
    assert who == {("Normal", "ScalingReplicaSet", "deployment-controller", "deployment-controller")}


def test_a_replica_set_that_is_refused_is_told_of(cluster: Cluster) -> None:
    hard = {"hard": {"count/replicasets.apps": "0"}}
    cluster.post("/api/v1/namespaces/default/resourcequotas", {"metadata": {"name": "none"}, "spec": hard}).ok()
    cluster.post(DEPLOYMENTS, deployment(1)).ok()
    where = f"{EVENTS}?fieldSelector=reason=ReplicaSetCreateError,type=Warning,involvedObject.name=web"

    def told() -> str:
        return next((one["message"] for one in cluster.get(where).ok()["items"]), "")

    cluster.eventually(lambda: told())
    name = replica_set_name("web", template_hash(cluster.get(WEB).ok()["spec"]["template"], None))
    assert told().startswith(f'Failed to create new replica set "{name}": replicasets.apps "{name}" is forbidden: ')


def test_a_rollout_keeps_its_bounds_and_can_be_undone(cluster: Cluster) -> None:
    bounds = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    cluster.post(DEPLOYMENTS, deployment(4, strategy=bounds)).ok()
    wait_rolled_out(cluster, 4)
    set_image(cluster, "web:2")

    def step() -> bool:
        found = [pod for pod in pods(cluster) if is_active(pod)]
        assert len(found) <= 5
        assert sum(map(is_ready, found)) >= 3
        run_pods(cluster)
        return is_done(cluster, 4)

    cluster.eventually(step)
    assert {image: one["spec"]["replicas"] for image, one in sets(cluster).items()} == {"web:1": 0, "web:2": 4}
    assert revision(cluster.get(WEB).ok()) == "2"
    first = sets(cluster)["web:1"]
    set_image(cluster, "web:1")
    wait_rolled_out(cluster, 4)
    assert sets(cluster)["web:1"]["metadata"]["uid"] == first["metadata"]["uid"]
    assert revision(sets(cluster)["web:1"]) == revision(cluster.get(WEB).ok()) == "3"
    assert sets(cluster)["web:1"]["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"


def test_pods_that_do_not_work_stop_the_rollout(cluster: Cluster) -> None:
    cluster.post(DEPLOYMENTS, deployment(4)).ok()
    wait_rolled_out(cluster, 4)
    set_image(cluster, "broken")
    cluster.eventually(lambda: status_of(cluster, WEB).get("updatedReplicas") == 2)
    cluster.eventually(lambda: len(pods(cluster)) == 5)
    assert sum(map(is_ready, pods(cluster))) == 3
    assert condition(cluster.get(WEB).ok(), "Available")["status"] == "True"
    set_image(cluster, "web:1")
    wait_rolled_out(cluster, 4)


def test_recreate_never_runs_two_templates(cluster: Cluster) -> None:
    cluster.post(DEPLOYMENTS, deployment(3, strategy={"type": "Recreate"})).ok()
    wait_rolled_out(cluster, 3)
    set_image(cluster, "web:2")

    def step() -> bool:
        images = {pod["spec"]["containers"][0]["image"] for pod in pods(cluster)}
        assert len(images) <= 1
        run_pods(cluster)
        return is_done(cluster, 3)

    cluster.eventually(step)
    assert {pod["spec"]["containers"][0]["image"] for pod in pods(cluster)} == {"web:2"}


def test_scaling_does_not_touch_the_template(cluster: Cluster) -> None:
    cluster.post(DEPLOYMENTS, deployment(2)).ok()
    wait_rolled_out(cluster, 2)
    cluster.patch(f"{WEB}/scale", {"spec": {"replicas": 5}}).ok()
    wait_rolled_out(cluster, 5)
    assert revision(cluster.get(WEB).ok()) == "1"
    cluster.patch(WEB, {"spec": {"replicas": 0}}).ok()
    cluster.eventually(lambda: not pods(cluster) and status_of(cluster, WEB).get("observedGeneration") == 3)
    cluster.eventually(lambda: "replicas" not in status_of(cluster, WEB))


def test_a_pause_holds_a_rollout_and_resuming_lets_it_go(cluster: Cluster) -> None:
    cluster.post(DEPLOYMENTS, deployment(2)).ok()
    wait_rolled_out(cluster, 2)
    cluster.patch(WEB, {"spec": {"paused": True}}).ok()
    cluster.eventually(lambda: condition(cluster.get(WEB).ok(), "Progressing").get("reason") == "DeploymentPaused")
    set_image(cluster, "web:2")
    cluster.patch(WEB, {"spec": {"replicas": 3}}).ok()
    until(cluster, lambda: status_of(cluster, WEB).get("availableReplicas") == 3)
    assert set(sets(cluster)) == {"web:1"}
    cluster.patch(WEB, {"spec": {"paused": None}}).ok()
    wait_rolled_out(cluster, 3)
    assert sets(cluster)["web:2"]["spec"]["replicas"] == 3


def test_only_the_latest_revisions_are_kept(cluster: Cluster) -> None:
    cluster.post(DEPLOYMENTS, deployment(1, revisionHistoryLimit=1)).ok()
    for number in range(1, 5):
        set_image(cluster, f"web:{number}")
        wait_rolled_out(cluster, 1)
    cluster.eventually(lambda: set(sets(cluster)) == {"web:3", "web:4"})


def test_a_name_that_is_taken_leads_to_another(cluster: Cluster) -> None:
    made = cluster.post(DEPLOYMENTS, deployment(1, paused=True)).ok()
    name = replica_set_name("web", template_hash(made["spec"]["template"], None))
    foreign = replica_set(0, name=name, selector={"matchLabels": {"app": "foreign"}})
    foreign["spec"]["template"]["metadata"]["labels"] = {"app": "foreign"}
    before = cluster.post(REPLICA_SETS, foreign).ok()
    cluster.patch(WEB, {"spec": {"paused": False}}).ok()
    wait_rolled_out(cluster, 1)
    assert status_of(cluster, WEB)["collisionCount"] == 1
    assert cluster.get(f"{REPLICA_SETS}/{name}").ok()["spec"] == before["spec"]
    assert len(cluster.get(REPLICA_SETS).ok()["items"]) == 2


def test_an_orphan_that_fits_is_taken_over(cluster: Cluster) -> None:
    orphan = replica_set(2, name="orphan")
    orphan["metadata"]["labels"] = {"app": "web"}
    cluster.post(REPLICA_SETS, orphan).ok()
    made = cluster.post(DEPLOYMENTS, deployment(2)).ok()
    wait_rolled_out(cluster, 2)
    (one,) = cluster.get(REPLICA_SETS).ok()["items"]
    assert one["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    cluster.patch(f"{REPLICA_SETS}/orphan", {"metadata": {"labels": {"app": "free"}}}).ok()
    until(cluster, lambda: len(cluster.get(REPLICA_SETS).ok()["items"]) == 2)
    assert not cluster.get(f"{REPLICA_SETS}/orphan").ok()["metadata"].get("ownerReferences")


def test_deleting_it_leaves_nothing(cluster: Cluster) -> None:
    cluster.post(DEPLOYMENTS, deployment(2)).ok()
    wait_rolled_out(cluster, 2)
    cluster.delete(WEB).ok()
    cluster.eventually(lambda: not pods(cluster) and not cluster.get(REPLICA_SETS).ok()["items"])


@pytest.mark.anyio
async def test_a_deadline_passes(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = await given.cluster("c")
        kind = GroupVersionResource("apps", "v1", "deployments")
        await client.create(kind, deployment(1, progressDeadlineSeconds=60), "default")

        async def progressing() -> Any:
            return condition(await client.get(kind, "web", "default"), "Progressing")

        async def settled() -> bool:
            return bool((await progressing()).get("reason") == "ReplicaSetUpdated")

        async def is_late() -> bool:
            return bool((await progressing()).get("reason") == "ProgressDeadlineExceeded")

        await given.eventually(settled)
        await asyncio.sleep(0.05)
        given.clock.step(50)
        await asyncio.sleep(0.05)
        assert not await is_late()
        given.clock.step(12)
        await given.eventually(is_late)
        name = template_hash((await client.get(kind, "web", "default"))["spec"]["template"], None)
        assert (await progressing())["message"] == f'ReplicaSet "web-{name}" has timed out progressing.'


def test_what_changed_while_nobody_looked_is_made_up_for(tmp_path: Path) -> None:
    first = Server(tmp_path / "data")
    cluster = fresh_cluster(first, profile="cluster")
    cluster.post(DEPLOYMENTS, deployment(3)).ok()
    wait_rolled_out(cluster, 3)
    first.call(first.shoal._controllers.stop())
    set_image(cluster, "web:2")
    cluster.delete(f"{PODS}/{pods(cluster)[0]['metadata']['name']}").ok()
    cluster.close()
    first.stop()
    second = Server(tmp_path / "data")
    again = Cluster(second, cluster.name)
    try:
        wait_rolled_out(again, 3)
        assert {pod["spec"]["containers"][0]["image"] for pod in pods(again)} == {"web:2"}
        assert template("web:2")["spec"]["containers"][0]["image"] in sets(again)
    finally:
        again.close()
        second.stop()
