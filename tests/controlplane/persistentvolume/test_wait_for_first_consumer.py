"""Tests of WaitForFirstConsumer with all controllers: the scheduler selects a node, the volume is provisioned there,
then the pod is bound.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.persistentvolume.test_persistent_volumes import (
    CLAIMS,
    CLASSES,
    VOLUMES,
    claim,
    phase,
    volume,
    wait_bound,
)
from tests.controlplane.simulated_nodes import add_node, events
from tests.controlplane.workloads import PODS, Object
from tests.serving import Cluster, Server, fresh_cluster

ZONE = "topology.kubernetes.io/zone"
SELECTED = "volume.kubernetes.io/selected-node"


@pytest.fixture
def zones(server: Server) -> Iterator[Cluster]:
    """A cluster with a node in each of two zones, and a class whose volumes wait for their first consumer."""
    cluster = fresh_cluster(server, profile="cluster")
    for zone in ("a", "b"):
        add_node(cluster, f"node-{zone}", taints=None, **{ZONE: zone})
    cluster.post(CLASSES, late_class("late", "shoal.dev/simulated")).ok()
    yield cluster
    cluster.close()


def late_class(name: str, provisioner: str) -> Object:
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}


def consumer(name: str, *claims: str, **spec: object) -> Object:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    containers = [{"name": "c", "image": "i"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, "volumes": volumes, **spec}}


def wait_running(cluster: Cluster, name: str) -> Object:
    cluster.eventually(lambda: phase(cluster, f"{PODS}/{name}") == "Running")
    found: Object = cluster.get(f"{PODS}/{name}").ok()
    return found


def wait_unschedulable(cluster: Cluster, name: str, message: str) -> None:
    def told() -> str:
        conditions = cluster.get(f"{PODS}/{name}").ok()["status"].get("conditions") or []
        return next((str(each["message"]) for each in conditions if each["status"] == "False"), "")

    cluster.eventually(lambda: told() == message)
    assert "nodeName" not in cluster.get(f"{PODS}/{name}").ok()["spec"]
    cluster.eventually(lambda: ("FailedScheduling", message) in events(cluster, "Pod", name))


def test_volumes_come_where_their_first_consumer_goes_and_tie_the_next(zones: Cluster) -> None:
    zones.post(CLAIMS, claim("one", storageClassName="late")).ok()
    zones.post(CLAIMS, claim("two", storageClassName="late")).ok()
    zones.post(PODS, consumer("first", "one", "two", nodeSelector={ZONE: "b"})).ok()
    assert wait_running(zones, "first")["spec"]["nodeName"] == "node-b"
    for name in ("one", "two"):
        mine = wait_bound(zones, name)
        assert mine["metadata"]["annotations"][SELECTED] == "node-b"
        made = zones.get(f"{VOLUMES}/{mine['spec']['volumeName']}").ok()
        (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term == {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}
    zones.post(PODS, consumer("second", "one")).ok()
    assert wait_running(zones, "second")["spec"]["nodeName"] == "node-b"
    zones.post(PODS, consumer("stranger", "two", nodeSelector={ZONE: "a"})).ok()
    wait_unschedulable(
        zones,
        "stranger",
        "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity,"
        " 1 node(s) didn't match Pod's node affinity/selector.",
    )


def test_a_pod_has_no_node_before_its_volume_is_there(zones: Cluster) -> None:
    """The volume is somebody else's to make: here, the test's."""
    zones.post(CLASSES, late_class("theirs", "csi.example.com")).ok()
    zones.post(CLAIMS, claim("data", storageClassName="theirs")).ok()
    zones.post(PODS, consumer("p", "data")).ok()
    chosen = zones.eventually(
        lambda: (zones.get(f"{CLAIMS}/data").ok()["metadata"].get("annotations") or {}).get(SELECTED)
    )
    assert chosen in ("node-a", "node-b")
    zones.post(PODS, consumer("after")).ok()
    wait_running(zones, "after")
    assert "nodeName" not in zones.get(f"{PODS}/p").ok()["spec"], "one that came later and has no claims went ahead"
    there = {"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": ZONE, "operator": "In", "values": [chosen.removeprefix("node-")]}]}]}}  # fmt: skip
    asked = zones.get(f"{CLAIMS}/data").ok()
    reference = {"namespace": "default", "name": "data", "uid": asked["metadata"]["uid"]}
    zones.post(VOLUMES, volume("made", storageClassName="theirs", nodeAffinity=there, claimRef=reference)).ok()
    assert wait_running(zones, "p")["spec"]["nodeName"] == chosen
    assert wait_bound(zones)["spec"]["volumeName"] == "made"


def test_a_claim_in_use_goes_after_its_pods_and_nobody_new_gets_it(zones: Cluster) -> None:
    zones.post(CLAIMS, claim()).ok()
    zones.post(PODS, consumer("user", "data")).ok()
    wait_running(zones, "user")
    zones.delete(f"{CLAIMS}/data").ok()
    zones.post(PODS, consumer("late", "data")).ok()
    wait_unschedulable(zones, "late", '0/2 nodes are available: persistentvolumeclaim "data" is being deleted.')
    assert "deletionTimestamp" in zones.get(f"{CLAIMS}/data").ok()["metadata"]
    assert phase(zones, f"{PODS}/user") == "Running"
    zones.delete(f"{PODS}/user").ok()
    zones.eventually(lambda: phase(zones, f"{CLAIMS}/data") == "gone")
    wait_unschedulable(zones, "late", '0/2 nodes are available: persistentvolumeclaim "data" not found.')
