"""Tests of pods with volumes: node constraints, and behaviour while a volume is being provisioned."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest

from shoal.controlplane.scheduler.cluster_scheduler import ClusterScheduler
from shoal.controlplane.scheduler.equivalence import EquivalenceClasses
from shoal.controlplane.scheduler.volumes import LOST_VOLUME, NO_VOLUME, WRONG_NODE, WRONG_ZONE, VolumeCache
from shoal.fit.attachments import attachment_of
from tests.controlplane.scheduler.samples import from_server, node, pod

SHAPES = EquivalenceClasses()
Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
KEY = ("default", "p")
CLAIM = ("default", "data")
SELECTED = {"volume.kubernetes.io/selected-node": "a"}


def claim(volume: str = "", class_: str = "late", **metadata: Any) -> Object:
    annotations = dict(metadata.pop("annotations", {}))
    if volume:
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    spec = {"storageClassName": class_, **asked, **({"volumeName": volume} if volume else {})}
    return {"metadata": {"namespace": "default", "name": "data", "annotations": annotations, **metadata}, "spec": spec}


def volume(zones: Any = None, **labels: str) -> Object:
    expressions = [{"key": ZONE, "operator": "In", "values": zones}]
    required = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    return {"metadata": {"name": "v", "labels": labels}, "spec": {"nodeAffinity": required} if zones else {}}


def class_(mode: str = "WaitForFirstConsumer", provisioner: str = "simulated", **more: Any) -> Object:
    return {"metadata": {"name": "late"}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def with_claim(name: str = "data") -> Object:
    return pod("p", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": name}}])


def home(*nodes: Object) -> tuple[ClusterScheduler, list[str]]:
    needs: list[str] = []
    made = ClusterScheduler(SHAPES, lambda name: crc32(name.encode()), needs.append)
    for each in nodes:
        made.on_node(each["metadata"]["name"], each)
    return made, needs


def message(there: ClusterScheduler) -> str:
    assert there.schedule_pending(10) == []
    (found,) = there.unreported_pods(100.0)
    there.report_failed(found)
    return found.message


def test_kinds_are_asked_for_when_a_pod_depends_on_them() -> None:
    there, needs = home(node("a"))
    there.on_pod(("default", "q"), from_server(pod("q")))
    assert needs == ["services"]
    there.on_pod(KEY, from_server(with_claim()))
    assert [each for each in needs if each != "services"] == [
        "persistentvolumeclaims",
        "persistentvolumes",
        "storageclasses",
        "csinodes",
    ]


def test_a_node_takes_no_more_volumes_of_a_driver_than_its_csinode_allows() -> None:
    there, _ = home(node("a"))
    there.on_storage_class("late", class_())
    there.on_csi_node("a", csi_node("a", simulated=1, other=0))
    for name in ("one", "two"):
        there.on_claim(("default", name), {**claim(), "metadata": {"namespace": "default", "name": name}})
    for name, claim_name in (("p1", "one"), ("p2", "two"), ("p3", "one")):
        of_claim = pod(name, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": claim_name}}])
        there.on_pod(("default", name), from_server(of_claim))
    bound = [each.pod.key[1] for each in there.schedule_pending(10)]
    assert bound == ["p1", "p3"], "they share a volume"
    (left,) = there.unreported_pods(100.0)
    assert left.message == "0/1 nodes are available: 1 node(s) exceed max volume count."
    there.on_csi_node("a", csi_node("a", simulated=2))
    assert [each.pod.key[1] for each in there.schedule_pending(10)] == ["p2"]


@pytest.mark.parametrize(
    ("volume_", "attachment"),
    [
        (None, ("simulated", "default/data")),
        ({"spec": {"csi": {"driver": "ebs", "volumeHandle": "vol-1"}}}, ("ebs", "vol-1")),
        ({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "simulated"}}}, ("simulated", "v")),
        ({"spec": {"hostPath": {"path": "/data"}}}, None),
    ],
)
def test_what_a_claim_attaches(volume_: Object | None, attachment: tuple[str, str] | None) -> None:
    if volume_ is not None:
        volume_ = {**volume_, "metadata": {"name": "v", **volume_.get("metadata", {})}}
    assert attachment_of(claim(), volume_, class_()) == attachment


def csi_node(name: str, **counts: int) -> Object:
    drivers = [{"name": driver, "nodeID": name, "allocatable": {"count": count}} for driver, count in counts.items()]
    return {"metadata": {"name": name}, "spec": {"drivers": [*drivers, {"name": "unlimited", "nodeID": name}]}}


def test_a_pod_waits_for_its_claim_and_its_volume() -> None:
    there, _ = home(node("a", labels={ZONE: "x"}), node("b", labels={ZONE: "y"}))
    there.on_pod(KEY, from_server(with_claim()))
    assert message(there) == '0/2 nodes are available: persistentvolumeclaim "data" not found.'
    assert there.on_claim(CLAIM, claim(class_="now")) is True
    assert message(there) == "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    there.on_claim(CLAIM, claim("v", "now"))
    assert message(there) == f"0/2 nodes are available: 2 {LOST_VOLUME}."
    assert there.on_volume("v", volume(["y"])) is True
    assert [bind.node for bind in there.schedule_pending(10)] == ["b"]


@pytest.mark.parametrize(
    ("there", "reasons"),
    [
        (volume(["y"]), (WRONG_NODE,)),
        (volume(["x"]), ()),
        (volume(), ()),
        (volume(**{ZONE: "y"}), (WRONG_ZONE,)),
        (volume(**{ZONE: "x__y"}), ()),
        (volume(**{"failure-domain.beta.kubernetes.io/zone": "y"}), (WRONG_ZONE,)),
        (volume(**{"failure-domain.beta.kubernetes.io/zone": "x"}), ()),
    ],
)
def test_where_a_bound_volume_is(there: Object, reasons: tuple[str, ...]) -> None:
    volumes = VolumeCache()
    volumes.put_claim(CLAIM, claim("v"))
    volumes.put_volume("v", there)
    made, _ = home(node("a", labels={ZONE: "x"}), node("z"))
    ties = volumes.constraints_for("default", [("data", False)])
    assert ties.reasons(made.snapshot.nodes["a"]) == reasons
    if reasons == (WRONG_ZONE,):
        assert ties.reasons(made.snapshot.nodes["z"]) == (), "a node in no zone is no wrong one"


def test_a_claim_that_waits_for_its_first_consumer_is_told_the_node() -> None:
    there, _ = home(node("a"))
    there.on_storage_class("late", class_())
    there.on_claim(CLAIM, claim())
    there.on_pod(KEY, from_server(with_claim()))
    (bind,) = there.schedule_pending(10)
    assert (bind.node, bind.unbound_claims) == ("a", ("data",))
    assert there.schedule_pending(10) == []
    assert there.snapshot.nodes["a"].pods, "its room is taken meanwhile"
    assert there.on_claim(CLAIM, claim(annotations=SELECTED)) is False
    assert there.on_claim(CLAIM, claim("v", annotations=SELECTED)) is True
    (bind,) = there.schedule_pending(10)
    assert (bind.node, bind.unbound_claims) == ("a", ())


def test_a_provisioner_that_gives_up_frees_the_pod() -> None:
    there, _ = home(node("a"))
    there.on_storage_class("late", class_())
    there.on_claim(CLAIM, claim())
    there.on_pod(KEY, from_server(with_claim()))
    there.schedule_pending(10)
    there.on_claim(CLAIM, claim(annotations=SELECTED))
    there.on_node("b", node("b"))
    assert there.on_claim(CLAIM, claim()) is True
    (again,) = there.schedule_pending(10)
    assert again.unbound_claims == ("data",)


def test_after_a_restart_the_node_that_was_told_is_the_one() -> None:
    there, _ = home(node("a", cpu="1m"), node("b"))
    there.on_storage_class("late", class_())
    there.on_claim(CLAIM, claim(annotations=SELECTED))
    there.on_pod(KEY, from_server(with_claim()))
    assert message(there) == f"0/2 nodes are available: 1 Insufficient cpu, 1 {NO_VOLUME}."


def test_where_nobody_provides() -> None:
    there, _ = home(node("a", labels={ZONE: "x"}), node("b", labels={ZONE: "y"}))
    there.on_storage_class("late", class_(provisioner="kubernetes.io/no-provisioner"))
    there.on_claim(CLAIM, claim())
    there.on_pod(KEY, from_server(with_claim()))
    assert message(there) == f"0/2 nodes are available: 2 {NO_VOLUME}."
    there.on_volume("small", free("1Gi", "x"))
    there.on_volume("taken", {**free("9Gi", "x"), "spec": {**free("9Gi", "x")["spec"], "claimRef": {"name": "other"}}})
    assert message(there) == f"0/2 nodes are available: 2 {NO_VOLUME}."
    there.on_volume("fits", free("5Gi", "x"))
    (bind,) = there.schedule_pending(10)
    assert (bind.node, bind.unbound_claims) == ("a", ("data",))


def free(size: str, zone: str) -> Object:
    made = volume([zone])
    made["spec"] |= {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "late"}
    return made


def test_what_was_known_of_volumes_goes_with_the_last_pod_that_waits() -> None:
    there, _ = home(node("a"))
    there.on_claim(CLAIM, claim("v"))
    there.on_volume("v", volume())
    there.on_pod(KEY, from_server(with_claim()))
    assert [bind.node for bind in there.schedule_pending(10)] == ["a"]
    there.on_claim(CLAIM, claim("v", deletionTimestamp="2026-01-01T00:00:00Z"))
    there.on_pod(("default", "q"), from_server(with_claim()))
    assert message(there) == '0/1 nodes are available: persistentvolumeclaim "data" is being deleted.'


def test_a_class_provides_in_some_zones_only() -> None:
    there, _ = home(node("a", labels={ZONE: "x"}), node("b", labels={ZONE: "y"}))
    there.on_claim(CLAIM, claim())
    there.on_pod(KEY, from_server(with_claim()))
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["y"]}]}]
    there.on_storage_class("late", class_(allowedTopologies=allowed))
    assert [bind.node for bind in there.schedule_pending(10)] == ["b"]


def test_claims_in_trouble() -> None:
    volumes = VolumeCache()
    asked = [("data", False)]
    volumes.put_claim(CLAIM, claim(deletionTimestamp="2024-01-01T00:00:00Z"))
    assert volumes.constraints_for("default", asked).message == 'persistentvolumeclaim "data" is being deleted'
    volumes.put_claim(CLAIM, {**claim("v"), "status": {"phase": "Lost"}})
    lost = 'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"'
    assert volumes.constraints_for("default", asked).message == lost


def test_volumes_made_for_the_pod() -> None:
    there, _ = home(node("a"))
    made = pod("p", volumes=[{"name": "d", "ephemeral": {}}])
    there.on_pod(KEY, from_server(made))
    wait = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-d"'
    assert message(there) == f"0/1 nodes are available: {wait}."
    mine = {**claim("v"), "metadata": {**claim("v")["metadata"], "name": "p-d"}}
    there.on_volume("v", volume())
    there.on_claim(("default", "p-d"), mine)
    assert message(there).endswith("PVC default/p-d was not created for pod (pod is not owner).")
    mine["metadata"]["ownerReferences"] = [{"uid": "uid-p", "controller": True}]
    there.on_claim(("default", "p-d"), mine)
    assert len(there.schedule_pending(10)) == 1
