"""StatefulSets in a running server, on a simulated node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.simulated_nodes import events, revisions, simulated_cluster
from tests.controlplane.workloads import PODS, Object, pods, status_of, template
from tests.serving import Cluster, Server

SETS = "/apis/apps/v1/namespaces/default/statefulsets"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
WEB = f"{SETS}/web"


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = simulated_cluster(server, "n")
    yield cluster
    cluster.close()


def stateful_set(replicas: int, image: str = "web:1", **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web", "annotations": {"kubernetes.io/change-cause": "first"}},
        "spec": {
            "replicas": replicas,
            "serviceName": "svc",
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            **spec,
        },
    }


def claim_template(name: str = "data") -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name, "labels": {"own": "label"}}, "spec": spec}


def is_done(cluster: Cluster, replicas: int, path: str = WEB) -> bool:
    found = cluster.get(path).ok()
    status = found.get("status") or {}
    counts = [status.get(f"{name}eplicas") for name in ("r", "readyR", "availableR", "updatedR", "currentR")]
    same = status.get("currentRevision") == status.get("updateRevision")
    return counts == [replicas] * 5 and same and status["observedGeneration"] == found["metadata"]["generation"]


def wait_rolled_out(cluster: Cluster, replicas: int) -> None:
    cluster.eventually(lambda: is_done(cluster, replicas))


def set_image(cluster: Cluster, image: str) -> None:
    spec = {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}
    cluster.patch(WEB, {"spec": spec}, kind="strategic-merge").ok()


def images(cluster: Cluster) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in pods(cluster)}


def test_pods_have_names_and_identities_and_come_in_order(cluster: Cluster) -> None:
    with cluster.watch(PODS) as watch:
        made = cluster.post(SETS, stateful_set(3)).ok()
        wait_rolled_out(cluster, 3)
        story: list[tuple[str, bool]] = []
        while len(story) < 6:
            event = watch.next()
            conditions = {one["type"]: one["status"] for one in event["object"]["status"].get("conditions") or ()}
            step = event["object"]["metadata"]["name"], conditions.get("Ready") == "True"
            if (event["type"] == "ADDED" or step[1]) and step not in story:
                story.append(step)
    assert story == [(f"web-{number}", ready) for number in range(3) for ready in (False, True)]
    status = status_of(cluster, WEB)
    assert status == {
        "observedGeneration": 1,
        "replicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "currentReplicas": 3,
        "updatedReplicas": 3,
        "currentRevision": status["updateRevision"],
        "updateRevision": status["updateRevision"],
        "collisionCount": 0,
    }
    for number, pod in enumerate(sorted(pods(cluster), key=lambda pod: str(pod["metadata"]["name"]))):
        assert pod["metadata"]["labels"] == {
            "app": "web",
            "statefulset.kubernetes.io/pod-name": f"web-{number}",
            "apps.kubernetes.io/pod-index": str(number),
            "controller-revision-hash": status["updateRevision"],
        }
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (f"web-{number}", "svc")
        assert pod["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    (revision,) = cluster.get("/apis/apps/v1/namespaces/default/controllerrevisions").ok()["items"]
    assert revision["metadata"]["annotations"] == {"kubernetes.io/change-cause": "first"}
    assert revision["metadata"]["name"] == f"web-{revision['metadata']['labels']['controller.kubernetes.io/hash']}"
    cluster.eventually(lambda: len(events(cluster, "StatefulSet")) == 3)
    assert events(cluster, "StatefulSet")[0] == (
        "SuccessfulCreate",
        "Create Pod web-0 in StatefulSet web successful",
    )


def test_scaling_down_takes_the_highest_first(cluster: Cluster) -> None:
    cluster.post(SETS, stateful_set(3)).ok()
    wait_rolled_out(cluster, 3)
    with cluster.watch(PODS) as watch:
        cluster.patch(WEB, {"spec": {"replicas": 1}}).ok()
        wait_rolled_out(cluster, 1)
        gone: list[str] = []
        while len(gone) < 2:
            event = watch.next()
            if event["type"] == "DELETED":
                gone.append(event["object"]["metadata"]["name"])
            elif "deletionTimestamp" in event["object"]["metadata"]:
                assert event["object"]["metadata"]["name"] != "web-1" or gone == ["web-2"]
    assert gone == ["web-2", "web-1"]
    cluster.patch(WEB, {"spec": {"replicas": 0}}).ok()
    cluster.eventually(lambda: not pods(cluster) and status_of(cluster, WEB)["replicas"] == 0)


def test_a_lost_pod_comes_back_with_its_name(cluster: Cluster) -> None:
    cluster.post(SETS, stateful_set(2)).ok()
    wait_rolled_out(cluster, 2)
    before = cluster.get(f"{PODS}/web-0").ok()["metadata"]["uid"]
    cluster.delete(f"{PODS}/web-0").ok()
    cluster.eventually(lambda: cluster.get(f"{PODS}/web-0").json["metadata"].get("uid", before) != before)
    wait_rolled_out(cluster, 2)


def test_parallel_sets_do_not_wait(cluster: Cluster) -> None:
    made = stateful_set(4, podManagementPolicy="Parallel", ordinals={"start": 5})
    made["spec"]["template"]["spec"]["nodeSelector"] = {"none": "such"}
    cluster.post(SETS, made).ok()
    cluster.eventually(lambda: sorted(images(cluster)) == ["web-5", "web-6", "web-7", "web-8"])
    cluster.eventually(lambda: status_of(cluster, WEB).get("replicas") == 4)
    cluster.patch(WEB, {"spec": {"replicas": 1}}).ok()
    cluster.eventually(lambda: sorted(images(cluster)) == ["web-5"])


def test_an_ordered_set_waits_for_the_first(cluster: Cluster) -> None:
    made = stateful_set(4)
    made["spec"]["template"]["spec"]["nodeSelector"] = {"none": "such"}
    cluster.post(SETS, made).ok()
    cluster.eventually(lambda: status_of(cluster, WEB).get("replicas") == 1)
    assert sorted(images(cluster)) == ["web-0"]
    cluster.patch("/api/v1/nodes/n", {"metadata": {"labels": {"none": "such"}}}).ok()
    wait_rolled_out(cluster, 4)


def test_a_rolling_update_with_a_partition_and_back(cluster: Cluster) -> None:
    cluster.post(SETS, stateful_set(3)).ok()
    wait_rolled_out(cluster, 3)
    first = status_of(cluster, WEB)["updateRevision"]
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    cluster.patch(WEB, {"spec": {"updateStrategy": strategy}}).ok()
    set_image(cluster, "web:2")
    cluster.eventually(lambda: images(cluster) == {"web-0": "web:1", "web-1": "web:1", "web-2": "web:2"})
    cluster.eventually(lambda: status_of(cluster, WEB).get("readyReplicas") == 3)
    status = cluster.eventually(lambda: _status_if_counts(cluster, 2, 1)) or {}
    assert status["currentRevision"] == first != status["updateRevision"]
    # What is lost comes back as its place in the update says.
    for name in ("web-0", "web-2"):
        cluster.delete(f"{PODS}/{name}").ok()
    cluster.eventually(lambda: _status_if_counts(cluster, 2, 1) and status_of(cluster, WEB).get("readyReplicas") == 3)
    assert images(cluster) == {"web-0": "web:1", "web-1": "web:1", "web-2": "web:2"}
    cluster.patch(WEB, {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}).ok()
    wait_rolled_out(cluster, 3)
    assert set(images(cluster).values()) == {"web:2"}
    assert sorted(revisions(cluster).values()) == [1, 2]
    set_image(cluster, "web:1")
    wait_rolled_out(cluster, 3)
    assert set(images(cluster).values()) == {"web:1"}
    assert status_of(cluster, WEB)["currentRevision"] == first
    assert revisions(cluster)[first] == 3


def _status_if_counts(cluster: Cluster, current: int, updated: int) -> Object | None:
    status = status_of(cluster, WEB)
    counts = status.get("currentReplicas"), status.get("updatedReplicas")
    return status if counts == (current, updated) else None


def test_on_delete_waits_for_deletions_and_history_is_limited(cluster: Cluster) -> None:
    cluster.post(SETS, stateful_set(2, updateStrategy={"type": "OnDelete"}, revisionHistoryLimit=1)).ok()
    cluster.eventually(lambda: status_of(cluster, WEB).get("readyReplicas") == 2)
    for image in ("web:2", "web:3", "web:4"):
        before = status_of(cluster, WEB).get("updateRevision")
        set_image(cluster, image)
        cluster.eventually(lambda: status_of(cluster, WEB)["updateRevision"] != before)  # noqa: B023
    assert set(images(cluster).values()) == {"web:1"}
    cluster.eventually(lambda: len(revisions(cluster)) == 3)  # those of the pods and the set, and one more
    cluster.delete(f"{PODS}/web-1").ok()
    cluster.eventually(lambda: images(cluster).get("web-1") == "web:4")


def test_claims_are_kept_or_go_as_the_policy_says(cluster: Cluster) -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    templates = [claim_template()]
    template_ = template()
    template_["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    spec: Object = {
        "volumeClaimTemplates": templates,
        "persistentVolumeClaimRetentionPolicy": policy,
        "template": template_,
    }
    made = cluster.post(SETS, stateful_set(2, podManagementPolicy="Parallel", **spec)).ok()

    def claims() -> dict[str, Object]:
        return {one["metadata"]["name"]: one for one in cluster.get(CLAIMS).ok()["items"]}

    cluster.eventually(lambda: len(pods(cluster)) == 2 and len(claims()) == 2)
    one = claims()["data-web-1"]
    assert one["metadata"]["labels"] == {"own": "label", "app": "web"}
    assert [owner["uid"] for owner in one["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]
    volume = cluster.get(f"{PODS}/web-1").ok()["spec"]["volumes"][0]
    assert volume == {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}
    cluster.patch(WEB, {"spec": {"replicas": 1}}).ok()
    cluster.eventually(lambda: len(pods(cluster)) == 1)
    cluster.eventually(lambda: list(claims()) == ["data-web-0"])
    cluster.patch(WEB, {"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"}}}).ok()
    cluster.eventually(lambda: "ownerReferences" not in claims()["data-web-0"]["metadata"])
    cluster.patch(WEB, {"spec": {"replicas": 3}}).ok()
    cluster.eventually(lambda: len(claims()) == 3)
    cluster.delete(WEB).ok()
    cluster.eventually(lambda: not pods(cluster) and not revisions(cluster))
    assert len(claims()) == 3


def test_pods_are_adopted_by_name_and_failed_ones_replaced(cluster: Cluster) -> None:
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": template()["spec"]}
    for name in ("web-0", "other"):
        cluster.post(PODS, {**pod, "metadata": {"name": name, "labels": {"app": "web"}}}).ok()
    made = cluster.post(SETS, stateful_set(2)).ok()
    cluster.eventually(lambda: len(pods(cluster)) == 3 and status_of(cluster, WEB).get("readyReplicas") == 2)
    wait_rolled_out(cluster, 2)
    adopted = cluster.get(f"{PODS}/web-0").ok()
    assert adopted["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert adopted["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"
    assert "ownerReferences" not in cluster.get(f"{PODS}/other").ok()["metadata"]
    before = cluster.get(f"{PODS}/web-1").ok()["metadata"]["uid"]
    cluster.patch(f"{PODS}/web-1/status", {"status": {"phase": "Failed"}}).ok()
    cluster.eventually(lambda: cluster.get(f"{PODS}/web-1").json["metadata"].get("uid", before) != before)
    wait_rolled_out(cluster, 2)
