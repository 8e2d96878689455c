"""Claims and volumes in a running server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.workloads import PODS, Object
from tests.serving import Cluster, Server, fresh_cluster

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    yield cluster
    cluster.close()


def claim(name: str = "data", **spec: object) -> Object:
    given = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"metadata": {"name": name}, "spec": given}


def volume(name: str, size: str = "2Gi", **spec: object) -> Object:
    given = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "hostPath": {"path": "/d"}, **spec}
    return {"metadata": {"name": name}, "spec": given}


def phase(cluster: Cluster, path: str) -> str:
    answer = cluster.get(path)
    return str(answer.ok()["status"]["phase"]) if answer.status == 200 else "gone"


def reasons(cluster: Cluster, name: str) -> set[str]:
    return {e["reason"] for e in cluster.get(EVENTS).ok()["items"] if e["involvedObject"]["name"] == name}


def wait_bound(cluster: Cluster, name: str = "data") -> Object:
    cluster.eventually(lambda: phase(cluster, f"{CLAIMS}/{name}") == "Bound")
    found: Object = cluster.get(f"{CLAIMS}/{name}").ok()
    return found


def test_a_claim_without_class_gets_a_simulated_volume(cluster: Cluster) -> None:
    (found,) = cluster.get(CLASSES).ok()["items"]
    assert (found["metadata"]["name"], found["provisioner"]) == ("simulated", "shoal.dev/simulated")
    made = cluster.post(CLAIMS, claim()).ok()
    assert made["spec"]["storageClassName"] == "simulated"
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    got = wait_bound(cluster)
    name = f"pvc-{made['metadata']['uid']}"
    assert got["spec"]["volumeName"] == name
    assert got["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    cluster.eventually(lambda: phase(cluster, f"{VOLUMES}/{name}") == "Bound")
    there = cluster.get(f"{VOLUMES}/{name}").ok()
    assert there["spec"]["claimRef"]["uid"] == made["metadata"]["uid"]
    assert there["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    cluster.eventually(lambda: "ProvisioningSucceeded" in reasons(cluster, "data"))
    cluster.delete(f"{CLAIMS}/data").ok()
    cluster.eventually(
        lambda: phase(cluster, f"{CLAIMS}/data") == "gone" and phase(cluster, f"{VOLUMES}/{name}") == "gone"
    )


def test_many_claims_at_once(cluster: Cluster) -> None:
    for i in range(30):
        cluster.post(CLAIMS, claim(f"c{i}")).ok()
    names = {wait_bound(cluster, f"c{i}")["spec"]["volumeName"] for i in range(30)}
    assert len(names) == 30


def test_volumes_that_are_there_are_used_the_smallest_first(cluster: Cluster) -> None:
    for name, size in (("large", "9Gi"), ("small", "2Gi"), ("tiny", "1Mi")):
        made = cluster.post(VOLUMES, volume(name, size)).ok()
        assert made["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    cluster.eventually(lambda: {phase(cluster, f"{VOLUMES}/{n}") for n in ("large", "small", "tiny")} == {"Available"})
    cluster.post(CLAIMS, claim(storageClassName="")).ok()
    assert wait_bound(cluster)["spec"]["volumeName"] == "small"
    cluster.eventually(lambda: phase(cluster, f"{VOLUMES}/small") == "Bound")
    cluster.delete(f"{CLAIMS}/data").ok()
    cluster.eventually(lambda: phase(cluster, f"{VOLUMES}/small") == "Released")
    cluster.post(CLAIMS, claim("second", storageClassName="")).ok()
    assert wait_bound(cluster, "second")["spec"]["volumeName"] == "large"
    cluster.post(CLAIMS, claim("third", storageClassName="")).ok()
    cluster.eventually(lambda: "FailedBinding" in reasons(cluster, "third"))
    cluster.post(VOLUMES, volume("late")).ok()
    assert wait_bound(cluster, "third")["spec"]["volumeName"] == "late"


def test_a_volume_reserved_for_a_claim_waits_for_it(cluster: Cluster) -> None:
    reserved = volume("kept", claimRef={"namespace": "default", "name": "data"}, storageClassName="manual")
    cluster.post(VOLUMES, reserved).ok()
    cluster.post(CLAIMS, claim("other", storageClassName="manual")).ok()
    cluster.eventually(lambda: "ProvisioningFailed" in reasons(cluster, "other"))
    cluster.post(CLAIMS, claim(storageClassName="manual", volumeName="kept")).ok()
    assert wait_bound(cluster)["spec"]["volumeName"] == "kept"
    assert phase(cluster, f"{CLAIMS}/other") == "Pending"


def test_a_claim_in_use_stays_and_its_volume_with_it(cluster: Cluster) -> None:
    cluster.post("/api/v1/nodes", {"metadata": {"name": "n"}}).ok()
    cluster.post(CLAIMS, claim()).ok()
    name = wait_bound(cluster)["spec"]["volumeName"]
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    cluster.post(PODS, {"metadata": {"name": "p"}, "spec": spec}).ok()
    cluster.delete(f"{CLAIMS}/data").ok()
    cluster.delete(f"{VOLUMES}/{name}").ok()
    assert "deletionTimestamp" in cluster.get(f"{CLAIMS}/data").ok()["metadata"]
    assert "deletionTimestamp" in cluster.get(f"{VOLUMES}/{name}").ok()["metadata"]
    cluster.delete(f"{PODS}/p", {"gracePeriodSeconds": 0}).ok()
    cluster.eventually(
        lambda: phase(cluster, f"{CLAIMS}/data") == "gone" and phase(cluster, f"{VOLUMES}/{name}") == "gone"
    )


def test_a_late_claim_is_bound_where_its_first_pod_runs(cluster: Cluster) -> None:
    cluster.post(CLASSES, {"metadata": {"name": "late"}, "provisioner": "shoal.dev/simulated",
                           "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Retain"}).ok()  # fmt: skip
    cluster.post("/api/v1/nodes", {"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z"}}}).ok()
    cluster.post(CLAIMS, claim(storageClassName="late")).ok()
    cluster.eventually(lambda: "WaitForFirstConsumer" in reasons(cluster, "data"))
    assert phase(cluster, f"{CLAIMS}/data") == "Pending"
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    cluster.post(PODS, {"metadata": {"name": "p"}, "spec": spec}).ok()
    got = wait_bound(cluster)
    assert got["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "n"
    there = cluster.get(f"{VOLUMES}/{got['spec']['volumeName']}").ok()
    (term,) = there["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["z"]
    assert there["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_an_external_provisioner_is_asked(cluster: Cluster) -> None:
    cluster.post(CLASSES, {"metadata": {"name": "csi"}, "provisioner": "csi.example.com"}).ok()
    cluster.post(CLAIMS, claim(storageClassName="csi")).ok()
    cluster.eventually(lambda: "ExternalProvisioning" in reasons(cluster, "data"))
    annotations = cluster.get(f"{CLAIMS}/data").ok()["metadata"]["annotations"]
    assert annotations["volume.kubernetes.io/storage-provisioner"] == "csi.example.com"


def test_a_class_that_comes_later(cluster: Cluster) -> None:
    cluster.delete(f"{CLASSES}/simulated").ok()
    cluster.post(CLAIMS, claim()).ok()
    cluster.eventually(lambda: "FailedBinding" in reasons(cluster, "data"))
    cluster.post(CLAIMS, claim("named", storageClassName="new")).ok()
    cluster.eventually(lambda: "ProvisioningFailed" in reasons(cluster, "named"))
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    cluster.post(
        CLASSES, {"metadata": {"name": "new", "annotations": annotations}, "provisioner": "shoal.dev/simulated"}
    ).ok()
    assert wait_bound(cluster)["spec"]["storageClassName"] == "new"
    wait_bound(cluster, "named")


def test_a_claim_that_lost_its_volume_says_so(cluster: Cluster) -> None:
    cluster.post(CLAIMS, claim()).ok()
    name = wait_bound(cluster)["spec"]["volumeName"]
    cluster.patch(f"{VOLUMES}/{name}", {"metadata": {"finalizers": None}}).ok()
    cluster.delete(f"{VOLUMES}/{name}").ok()
    cluster.patch(f"{VOLUMES}/{name}", {"metadata": {"finalizers": None}})
    cluster.eventually(lambda: phase(cluster, f"{CLAIMS}/data") == "Lost")
    cluster.eventually(lambda: "ClaimLost" in reasons(cluster, "data"))


def test_a_namespace_goes_with_its_claims(cluster: Cluster) -> None:
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "n"}}).ok()
    cluster.post("/api/v1/namespaces/n/persistentvolumeclaims", claim()).ok()
    cluster.delete("/api/v1/namespaces/n").ok()
    cluster.eventually(lambda: cluster.get("/api/v1/namespaces/n").status == 404)
    cluster.eventually(lambda: not cluster.get(VOLUMES).ok()["items"])


def test_a_claim_grows_where_its_class_lets_it(cluster: Cluster) -> None:
    cluster.post(CLAIMS, claim()).ok()
    wait_bound(cluster)
    more = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    refused = cluster.patch(f"{CLAIMS}/data", more)
    assert (refused.status, refused["reason"]) == (403, "Forbidden")
    assert "the storageclass that provisions the pvc must support resize" in refused["message"]
    cluster.patch(f"{CLASSES}/simulated", {"allowVolumeExpansion": True}).ok()
    assert cluster.patch(f"{CLAIMS}/data", more).ok()["spec"]["resources"] == more["spec"]["resources"]
