"""Tests of volume selection for claims and of the actions on volumes."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.controlplane.volumes.decide import (
    EXTERNAL,
    NO_CLASS,
    Around,
    Bind,
    Fate,
    Lose,
    Provision,
    SetClass,
    Wait,
    bound_claim,
    bound_volume,
    claim_status,
    decide_claim,
    decide_volume,
    unbound_volume,
)
from shoal.controlplane.volumes.matching import Place, best_match, mismatch
from shoal.controlplane.volumes.simulated import made_volume
from shoal.kinds.storage import default_class
from tests.controlplane.volumes.samples import REFERENCE, Object, claim, storage_class, volume

HERE = Place("n", {"topology.kubernetes.io/zone": "a"})
ZONE_B = {
    "required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}]}
        ]
    }
}
DONE = {"pv.kubernetes.io/bind-completed": "yes"}
LATE = storage_class(volumeBindingMode="WaitForFirstConsumer")


def chosen(asked: Object, *volumes: Object, delayed: bool = False, place: Place | None = None) -> str:
    found = best_match(asked, volumes, delayed=delayed, place=place)
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
    assert chosen(asked, *volumes) == name


def test_a_late_claim_takes_what_its_node_can_reach() -> None:
    far, near = volume("far", "1Gi", nodeAffinity=ZONE_B), volume("near", "2Gi")
    assert chosen(claim(), near, delayed=True) == ""
    assert chosen(claim(), far, near, delayed=True, place=HERE) == "near"
    assert chosen(claim(), volume("kept", claimRef=REFERENCE), delayed=True) == "kept"


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
    assert mismatch(given, claim()) == why


@pytest.mark.parametrize(
    ("asked", "around", "step"),
    [
        (claim(), Around([volume()]), Bind(volume())),
        (claim(), Around(), Wait("FailedBinding", NO_CLASS)),
        (claim(storageClassName=None), Around(default_class="fast"), SetClass("fast")),
        (claim(storageClassName=None), Around(), Wait("FailedBinding", NO_CLASS)),
        (
            claim(storageClassName="fast"),
            Around(),
            Wait("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found', "Warning"),
        ),
        (claim(storageClassName="fast"), Around(storage_class=storage_class()), Provision(None)),
        (claim(storageClassName="fast"), Around(storage_class=storage_class(), place=HERE), Provision(None)),
        (
            claim(storageClassName="fast"),
            Around(storage_class=storage_class("csi.example.com")),
            Wait("ExternalProvisioning", EXTERNAL.format("csi.example.com"), provisioner="csi.example.com"),
        ),
        (
            claim(storageClassName="fast", selector={"matchLabels": {"a": "b"}}),
            Around(storage_class=storage_class()),
            Wait(
                "ProvisioningFailed",
                'failed to provision volume with StorageClass "fast": claim Selector is not supported',
                "Warning",
                "shoal.dev/simulated",
            ),
        ),
        (
            claim(storageClassName="fast"),
            Around(storage_class=LATE),
            Wait("WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
        ),
        (
            claim(storageClassName="fast"),
            Around(storage_class=LATE, waiting=("p",)),
            Wait("WaitForPodScheduled", "waiting for pod p to be scheduled"),
        ),
        (
            claim(storageClassName="fast"),
            Around(storage_class=LATE, waiting=("p", "q")),
            Wait("WaitForPodScheduled", "waiting for pods p,q to be scheduled"),
        ),
        (claim(storageClassName="fast"), Around(storage_class=LATE, place=HERE), Provision(HERE)),
        (claim(volumeName="v"), Around(), Wait("", "")),
        (claim(volumeName="v"), Around(named=volume()), Bind(volume())),
        (
            claim("9Gi", volumeName="v"),
            Around(named=volume()),
            Wait("VolumeMismatch", 'Cannot bind to requested volume "v": requested PV is too small', "Warning"),
        ),
        (
            claim(volumeName="v"),
            Around(named=volume(claimRef={**REFERENCE, "uid": "other"})),
            Wait("FailedBinding", 'volume "v" already bound to a different claim.', "Warning"),
        ),
        (
            claim(annotations=DONE),
            Around(),
            Lose("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"),
        ),
        (
            claim(annotations=DONE, volumeName="v"),
            Around(),
            Lose("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"),
        ),
        (
            claim(annotations=DONE, volumeName="v"),
            Around(named=volume(claimRef={**REFERENCE, "uid": "other"})),
            Lose("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly"),
        ),
    ],
)
def test_what_is_done_about_a_claim(asked: Object, around: Around, step: object) -> None:
    assert decide_claim(asked, around) == step


def test_nothing_is_made_for_a_claim_that_goes() -> None:
    going = claim(storageClassName="fast")
    going["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    assert decide_claim(going, Around(storage_class=storage_class())) is None


MINE = {**REFERENCE, "uid": "cu"}
SIMULATED = {"pv.kubernetes.io/provisioned-by": "shoal.dev/simulated"}


def annotated(given: Object, annotations: Object) -> Object:
    return {**given, "metadata": {**given["metadata"], "annotations": annotations}}


@pytest.mark.parametrize(
    ("given", "of", "fate"),
    [
        (volume(phase="Pending"), None, Fate("Available")),
        (volume(claimRef=REFERENCE), None, Fate("Available", wake=True)),
        (volume(claimRef=MINE), claim(volumeName="v"), Fate("Bound")),
        (volume(claimRef=MINE), claim(), Fate(wake=True)),
        (volume(claimRef=MINE), None, Fate("Released")),
        (volume(phase="Released", claimRef=MINE), None, Fate()),
        (
            annotated(volume(claimRef=MINE, persistentVolumeReclaimPolicy="Delete"), SIMULATED),
            None,
            Fate("Released", delete=True),
        ),
        (
            annotated(volume(claimRef=MINE, persistentVolumeReclaimPolicy="Delete"), SIMULATED),
            claim(volumeName="another"),
            Fate("Released", delete=True),
        ),
        (
            annotated(
                volume(claimRef=MINE, persistentVolumeReclaimPolicy="Delete"), {"pv.kubernetes.io/provisioned-by": "x"}
            ),
            None,
            Fate("Released"),
        ),
        (
            volume(claimRef=MINE, persistentVolumeReclaimPolicy="Delete"),
            None,
            Fate(
                "Failed",
                reason="VolumeFailedDelete",
                message='error getting deleter volume plugin for volume "v": no deletable volume plugin matched',
            ),
        ),
        (
            volume(claimRef=MINE, persistentVolumeReclaimPolicy="Recycle"),
            None,
            Fate("Failed", reason="VolumeFailedRecycle", message="No recycler plugin found for the volume!"),
        ),
        (volume(claimRef=MINE), claim(volumeName="another"), Fate("Available", unbind=True)),
    ],
)
def test_what_becomes_of_a_volume(given: Object, of: Object | None, fate: Fate) -> None:
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
    made = made_volume(claim("7Gi", storageClassName="fast"), storage_class(reclaimPolicy="Retain"), None)
    assert made["metadata"] == {"name": "pvc-cu", "annotations": SIMULATED}
    spec = made["spec"]
    assert (spec["capacity"], spec["persistentVolumeReclaimPolicy"]) == ({"storage": "7Gi"}, "Retain")
    assert (spec["storageClassName"], spec["volumeMode"], "nodeAffinity" in spec) == ("fast", "Filesystem", False)
    late: Any = made_volume(claim(storageClassName="fast"), storage_class(), HERE)["spec"]["nodeAffinity"]
    expected = [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]
    assert late["required"]["nodeSelectorTerms"] == [{"matchExpressions": expected}]
    topologies = [{"matchLabelExpressions": [{"key": "k", "values": ["x"]}]}]
    allowed: Any = made_volume(claim(), storage_class(allowedTopologies=topologies), None)["spec"]["nodeAffinity"]
    assert allowed["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] == ["x"]


def test_the_newest_default_class_counts() -> None:
    def marked(name: str, created: str, value: str = "true") -> Object:
        annotations = {"storageclass.kubernetes.io/is-default-class": value}
        return {"metadata": {"name": name, "creationTimestamp": created, "annotations": annotations}}

    assert default_class([]) == ""
    assert default_class([marked("a", "1", "false")]) == ""
    assert default_class([marked("b", "1"), marked("a", "1"), marked("old", "0")]) == "a"
    assert default_class([marked("a", "1"), marked("new", "2")]) == "new"
