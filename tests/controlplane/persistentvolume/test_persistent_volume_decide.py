"""Tests of volume selection for claims and of the actions on volumes."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.controlplane.persistentvolume.decide import (
    EXTERNAL_PROVISIONING_MESSAGE,
    NO_CLASS_MESSAGE,
    BindVolume,
    ClaimContext,
    MarkLost,
    ProvisionVolume,
    SetStorageClass,
    VolumeAction,
    WaitForVolume,
    bound_claim,
    bound_volume,
    claim_status,
    decide_claim,
    decide_volume,
    unbound_volume,
)
from shoal.controlplane.persistentvolume.simulated_provisioner import new_volume
from shoal.controlplane.persistentvolume.volume_match import ConsumerNode, best_match, mismatch_reason
from shoal.kinds.storage.storage import default_storage_class_name
from tests.controlplane.persistentvolume.samples import REFERENCE, Object, claim, storage_class, volume

HERE = ConsumerNode("n", {"topology.kubernetes.io/zone": "a"})
ZONE_B = {
    "required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}]}
        ]
    }
}
DONE = {"pv.kubernetes.io/bind-completed": "yes"}
LATE = storage_class(volumeBindingMode="WaitForFirstConsumer")


def chosen_volume(asked: Object, *volumes: Object, delayed: bool = False, place: ConsumerNode | None = None) -> str:
    found = best_match(asked, volumes, delayed=delayed, consumer_node=place)
    return str(found["metadata"]["name"]) if found is not None else ""


@pytest.mark.parametrize(
    ("asked", "volumes", "name"),
    [
        (claim(), [volume("a", "5Gi"), volume("b", "2Gi"), volume("c", "3Gi")], "b"),
        (claim("4Gi"), [volume("a", "2Gi")], ""),
        (claim(), [volume("a", storageClassName="fast")], ""),
        (claim(storageClassName="fast"), [volume("a"), volume("b", storageClassName="fast")], "b"),
        (claim(storageClassName=None), [volume("a")], "a"),
        (claim(accessModes=["ReadWriteMany"]), [volume("a")], ""),
        (claim(), [volume("a", accessModes=["ReadWriteOnce", "ReadWriteMany"]), volume("b", "9Gi")], "b"),
        (claim(volumeMode="Block"), [volume("a"), volume("b", volumeMode="Block")], "b"),
        (claim(selector={"matchLabels": {"x": "y"}}), [volume("a"), volume("b", labels={"x": "y"})], "b"),
        (claim(), [volume("a", phase="Released"), volume("b", phase="Pending")], ""),
        (claim(), [volume("a"), volume("b", "9Gi", phase="Bound", claimRef=REFERENCE)], "b"),
        (claim(), [volume("a", claimRef={**REFERENCE, "uid": "other"})], ""),
        (claim(), [volume("a", claimRef={**REFERENCE, "name": "other"})], ""),
        (claim(volumeAttributesClassName="gold"), [volume("a")], ""),
    ],
)
def test_the_best_volume(asked: Object, volumes: list[Object], name: str) -> None:
    assert chosen_volume(asked, *volumes) == name


def test_a_late_claim_takes_what_its_node_can_reach() -> None:
    far, near = volume("far", "1Gi", nodeAffinity=ZONE_B), volume("near", "2Gi")
    assert chosen_volume(claim(), near, delayed=True) == ""
    assert chosen_volume(claim(), far, near, delayed=True, place=HERE) == "near"
    assert chosen_volume(claim(), volume("kept", claimRef=REFERENCE), delayed=True) == "kept"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (volume(), ""),
        (volume(size="1Mi"), "requested PV is too small"),
        (volume(storageClassName="fast"), "storageClassName does not match"),
        (volume(volumeMode="Block"), "incompatible volumeMode"),
        (volume(accessModes=["ReadOnlyMany"]), "incompatible accessMode"),
        (volume(volumeAttributesClassName="x"), "volumeAttributesClassName does not match"),
    ],
)
def test_why_a_volume_asked_for_is_refused(given: Object, why: str) -> None:
    assert mismatch_reason(given, claim()) == why


@pytest.mark.parametrize(
    ("asked", "around", "step"),
    [
        (claim(), ClaimContext([volume()]), BindVolume(volume())),
        (claim(), ClaimContext(), WaitForVolume("FailedBinding", NO_CLASS_MESSAGE)),
        (claim(storageClassName=None), ClaimContext(default_class="fast"), SetStorageClass("fast")),
        (claim(storageClassName=None), ClaimContext(), WaitForVolume("FailedBinding", NO_CLASS_MESSAGE)),
        (
            claim(storageClassName="fast"),
            ClaimContext(),
            WaitForVolume("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found', "Warning"),
        ),
        (claim(storageClassName="fast"), ClaimContext(storage_class=storage_class()), ProvisionVolume(None)),
        (
            claim(storageClassName="fast"),
            ClaimContext(storage_class=storage_class(), consumer_node=HERE),
            ProvisionVolume(None),
        ),
        (
            claim(storageClassName="fast"),
            ClaimContext(storage_class=storage_class("csi.example.com")),
            WaitForVolume(
                "ExternalProvisioning",
                EXTERNAL_PROVISIONING_MESSAGE.format("csi.example.com"),
                provisioner="csi.example.com",
            ),
        ),
        (
            claim(storageClassName="fast", selector={"matchLabels": {"a": "b"}}),
            ClaimContext(storage_class=storage_class()),
            WaitForVolume(
                "ProvisioningFailed",
                'failed to provision volume with StorageClass "fast": claim Selector is not supported',
                "Warning",
                "shoal.dev/simulated",
            ),
        ),
        (
            claim(storageClassName="fast"),
            ClaimContext(storage_class=LATE),
            WaitForVolume("WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
        ),
        (
            claim(storageClassName="fast"),
            ClaimContext(storage_class=LATE, waiting_pods=("p",)),
            WaitForVolume("WaitForPodScheduled", "waiting for pod p to be scheduled"),
        ),
        (
            claim(storageClassName="fast"),
            ClaimContext(storage_class=LATE, waiting_pods=("p", "q")),
            WaitForVolume("WaitForPodScheduled", "waiting for pods p,q to be scheduled"),
        ),
        (claim(storageClassName="fast"), ClaimContext(storage_class=LATE, consumer_node=HERE), ProvisionVolume(HERE)),
        (claim(volumeName="v"), ClaimContext(), WaitForVolume("", "")),
        (claim(volumeName="v"), ClaimContext(requested_volume=volume()), BindVolume(volume())),
        (
            claim("9Gi", volumeName="v"),
            ClaimContext(requested_volume=volume()),
            WaitForVolume(
                "VolumeMismatch", 'Cannot bind to requested volume "v": requested PV is too small', "Warning"
            ),
        ),
        (
            claim(volumeName="v"),
            ClaimContext(requested_volume=volume(claimRef={**REFERENCE, "uid": "other"})),
            WaitForVolume("FailedBinding", 'volume "v" already bound to a different claim.', "Warning"),
        ),
        (
            claim(annotations=DONE),
            ClaimContext(),
            MarkLost("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"),
        ),
        (
            claim(annotations=DONE, volumeName="v"),
            ClaimContext(),
            MarkLost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"),
        ),
        (
            claim(annotations=DONE, volumeName="v"),
            ClaimContext(requested_volume=volume(claimRef={**REFERENCE, "uid": "other"})),
            MarkLost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly"),
        ),
    ],
)
def test_what_is_done_about_a_claim(asked: Object, around: ClaimContext, step: object) -> None:
    assert decide_claim(asked, around) == step


def test_nothing_is_made_for_a_claim_that_goes() -> None:
    going = claim(storageClassName="fast")
    going["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    assert decide_claim(going, ClaimContext(storage_class=storage_class())) is None


MINE = {**REFERENCE, "uid": "cu"}
SIMULATED = {"pv.kubernetes.io/provisioned-by": "shoal.dev/simulated"}


def with_annotations(given: Object, annotations: Object) -> Object:
    return {**given, "metadata": {**given["metadata"], "annotations": annotations}}


@pytest.mark.parametrize(
    ("given", "of", "fate"),
    [
        (volume(phase="Pending"), None, VolumeAction("Available")),
        (volume(claimRef=REFERENCE), None, VolumeAction("Available", enqueue_claim=True)),
        (volume(claimRef=MINE), claim(volumeName="v"), VolumeAction("Bound")),
        (volume(claimRef=MINE), claim(), VolumeAction(enqueue_claim=True)),
        (volume(claimRef=MINE), None, VolumeAction("Released")),
        (volume(phase="Released", claimRef=MINE), None, VolumeAction()),
        (
            with_annotations(volume(claimRef=MINE, persistentVolumeReclaimPolicy="Delete"), SIMULATED),
            None,
            VolumeAction("Released", delete=True),
        ),
        (
            with_annotations(volume(claimRef=MINE, persistentVolumeReclaimPolicy="Delete"), SIMULATED),
            claim(volumeName="another"),
            VolumeAction("Released", delete=True),
        ),
        (
            with_annotations(
                volume(claimRef=MINE, persistentVolumeReclaimPolicy="Delete"), {"pv.kubernetes.io/provisioned-by": "x"}
            ),
            None,
            VolumeAction("Released"),
        ),
        (
            volume(claimRef=MINE, persistentVolumeReclaimPolicy="Delete"),
            None,
            VolumeAction(
                "Failed",
                reason="VolumeFailedDelete",
                message='error getting deleter volume plugin for volume "v": no deletable volume plugin matched',
            ),
        ),
        (
            volume(claimRef=MINE, persistentVolumeReclaimPolicy="Recycle"),
            None,
            VolumeAction("Failed", reason="VolumeFailedRecycle", message="No recycler plugin found for the volume!"),
        ),
        (volume(claimRef=MINE), claim(volumeName="another"), VolumeAction("Available", unbind=True)),
    ],
)
def test_what_becomes_of_a_volume(given: Object, of: Object | None, fate: VolumeAction) -> None:
    assert decide_volume(given, of) == fate


def test_both_sides_of_a_binding() -> None:
    changed = bound_volume(volume(), claim())
    assert changed is not None
    assert changed["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "c",
        "uid": "cu",
        "resourceVersion": "5",
    }
    assert changed["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert bound_volume(changed, claim()) is None
    reserved = bound_volume(volume(claimRef=REFERENCE), claim())
    assert reserved is not None
    assert "annotations" not in reserved["metadata"], "a user bound it"
    bound = bound_claim(claim(), volume(), {})
    assert bound is not None
    assert bound["spec"]["volumeName"] == "v"
    assert bound["metadata"]["annotations"] == DONE | {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert bound_claim(bound, volume(), {}) is None
    status = claim_status(bound, volume(size="3Gi"))
    assert status == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "3Gi"}}
    assert claim_status({**bound, "status": status}, volume(size="9Gi")) == status


def test_a_binding_undone() -> None:
    ours = bound_volume(volume(), claim())
    assert ours is not None
    assert "claimRef" not in unbound_volume(ours)["spec"]
    theirs = bound_volume(volume(claimRef=REFERENCE), claim())
    assert theirs is not None
    assert unbound_volume(theirs)["spec"]["claimRef"].keys() == {"apiVersion", "kind", "namespace", "name"}


def test_a_simulated_volume() -> None:
    made = new_volume(claim("7Gi", storageClassName="fast"), storage_class(reclaimPolicy="Retain"), None)
    assert made["metadata"] == {"name": "pvc-cu", "annotations": SIMULATED}
    spec = made["spec"]
    assert (spec["capacity"], spec["persistentVolumeReclaimPolicy"]) == ({"storage": "7Gi"}, "Retain")
    assert (spec["storageClassName"], spec["volumeMode"], "nodeAffinity" in spec) == ("fast", "Filesystem", False)
    late: Any = new_volume(claim(storageClassName="fast"), storage_class(), HERE)["spec"]["nodeAffinity"]
    expected = [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]
    assert late["required"]["nodeSelectorTerms"] == [{"matchExpressions": expected}]
    topologies = [{"matchLabelExpressions": [{"key": "k", "values": ["x"]}]}]
    allowed: Any = new_volume(claim(), storage_class(allowedTopologies=topologies), None)["spec"]["nodeAffinity"]
    assert allowed["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] == ["x"]


def test_the_newest_default_class_counts() -> None:
    def marked(name: str, created: str, value: str = "true") -> Object:
        annotations = {"storageclass.kubernetes.io/is-default-class": value}
        return {"metadata": {"name": name, "creationTimestamp": created, "annotations": annotations}}

    assert default_storage_class_name([]) == ""
    assert default_storage_class_name([marked("a", "1", "false")]) == ""
    assert default_storage_class_name([marked("b", "1"), marked("a", "1"), marked("old", "0")]) == "a"
    assert default_storage_class_name([marked("a", "1"), marked("new", "2")]) == "new"
