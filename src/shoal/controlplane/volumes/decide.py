"""Decides the next step of PersistentVolumeClaims and PersistentVolumes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.controlplane.volumes.matching import Place, best_match, is_bound_to, mismatch, same_mode
from shoal.kinds.storage import SIMULATED_PROVISIONER
from shoal.kinds.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, PROVISIONED_BY, SELECTED_NODE, class_of

Object = dict[str, Any]

LATE = "WaitForFirstConsumer"
NO_CLASS = "no persistent volumes available for this claim and no storage class is set"
ELSEWHERE = "Two claims are bound to the same volume, this one is bound incorrectly"
EXTERNAL = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system "
    "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
    "registered."
)


@dataclass(frozen=True, slots=True)
class Bind:
    volume: Object


@dataclass(frozen=True, slots=True)
class Provision:
    place: Place | None


@dataclass(frozen=True, slots=True)
class SetClass:
    name: str


@dataclass(frozen=True, slots=True)
class Wait:
    """The claim stays Pending; an Event gives the reason."""

    reason: str
    message: str
    type: str = "Normal"
    provisioner: str = ""
    """The external provisioner of the volume."""


@dataclass(frozen=True, slots=True)
class Lose:
    reason: str
    message: str


Step = Bind | Provision | SetClass | Wait | Lose | None


@dataclass(frozen=True, slots=True)
class Around:
    """Input of the decision about a claim."""

    volumes: list[Object] = field(default_factory=list)
    """Available volumes of its class and volumes that reference it."""
    named: Object | None = None
    """The volume it requests by name."""
    storage_class: Object | None = None
    default_class: str = ""
    place: Place | None = None
    """Node of its first consumer; unused with immediate binding."""
    waiting: tuple[str, ...] = ()
    """Pods that use it and have no node yet."""


def is_late(storage_class: Object | None) -> bool:
    return (storage_class or {}).get("volumeBindingMode") == LATE


def decide_claim(claim: Object, around: Around) -> Step:
    annotations = claim["metadata"].get("annotations") or {}
    if BIND_COMPLETED in annotations:
        return _bound(claim, around.named)
    if "deletionTimestamp" in claim["metadata"]:
        return None
    if claim["spec"].get("volumeName"):
        return _named(claim, around.named)
    late = is_late(around.storage_class)
    found = best_match(claim, around.volumes, delayed=late, place=around.place if late else None)
    if found is not None:
        return Bind(found)
    if class_of(claim) is None and around.default_class:
        return SetClass(around.default_class)
    if late and around.place is None:
        return Wait(*_nobody_yet(around.waiting))
    return _without_volume(claim, around) if class_of(claim) else Wait("FailedBinding", NO_CLASS)


def _without_volume(claim: Object, around: Around) -> Step:
    if around.storage_class is None:
        missing = f'storageclass.storage.k8s.io "{class_of(claim)}" not found'
        return Wait("ProvisioningFailed", missing, "Warning")
    provisioner = around.storage_class.get("provisioner") or ""
    if provisioner != SIMULATED_PROVISIONER:
        return Wait("ExternalProvisioning", EXTERNAL.format(provisioner), provisioner=provisioner)
    for given, why in (
        ("selector", "claim Selector is not supported"),
        ("dataSource", "data sources are not simulated"),
    ):
        if claim["spec"].get(given):
            said = f'failed to provision volume with StorageClass "{class_of(claim)}": {why}'
            return Wait("ProvisioningFailed", said, "Warning", provisioner)
    return Provision(around.place if is_late(around.storage_class) else None)


def _nobody_yet(waiting: tuple[str, ...]) -> tuple[str, str]:
    if not waiting:
        return LATE, "waiting for first consumer to be created before binding"
    pods = f"pods {','.join(waiting)}" if len(waiting) > 1 else f"pod {waiting[0]}"
    return "WaitForPodScheduled", f"waiting for {pods} to be scheduled"


def _named(claim: Object, volume: Object | None) -> Step:
    """For a claim that requests a volume by name."""
    if volume is None:
        return Wait("", "")
    name = volume["metadata"]["name"]
    if not volume["spec"].get("claimRef"):
        why = mismatch(volume, claim)
        said = f'Cannot bind to requested volume "{name}": {why}'
        return Wait("VolumeMismatch", said, "Warning") if why else Bind(volume)
    if is_bound_to(volume, claim):
        return Bind(volume)
    return Wait("FailedBinding", f'volume "{name}" already bound to a different claim.', "Warning")


def _bound(claim: Object, volume: Object | None) -> Step:
    if not claim["spec"].get("volumeName"):
        return Lose("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
    if volume is None:
        return Lose("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
    reference = volume["spec"].get("claimRef")
    if reference and reference.get("uid") != claim["metadata"]["uid"]:
        return Lose("ClaimMisbound", ELSEWHERE)
    return Bind(volume)


@dataclass(frozen=True, slots=True)
class Fate:
    """Action on a volume. An empty phase leaves it unchanged."""

    phase: str = ""
    delete: bool = False
    unbind: bool = False
    wake: bool = False
    """Its claim must be reconciled."""
    reason: str = ""
    message: str = ""


def decide_volume(volume: Object, claim: Object | None) -> Fate:
    """`claim` is the one the volume is bound to, if it still exists."""
    reference = volume["spec"].get("claimRef")
    if not reference or not reference.get("uid"):
        return Fate("Available", wake=bool(reference))
    if claim is None:
        return _released(volume)
    name = claim["spec"].get("volumeName")
    if not name:
        if same_mode(claim, volume):
            return Fate(wake=True)
        asked = f'requested PersistentVolumeClaim "{claim["metadata"]["name"]}"'
        said = f"Cannot bind PersistentVolume to {asked} due to incompatible volumeMode."
        return Fate(reason="VolumeMismatch", message=said)
    if name == volume["metadata"]["name"]:
        return Fate("Bound")
    provisioned = PROVISIONED_BY in (volume["metadata"].get("annotations") or {})
    if provisioned and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
        return _released(volume)
    return Fate("Available", unbind=True)


def _released(volume: Object) -> Fate:
    policy, phase = volume["spec"].get("persistentVolumeReclaimPolicy"), (volume.get("status") or {}).get("phase")
    now = "" if phase in ("Released", "Failed") else "Released"
    name = volume["metadata"]["name"]
    if policy == "Delete":
        maker = (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY)
        if maker == SIMULATED_PROVISIONER or (not maker and volume["spec"].get("hostPath")):
            return Fate(now, delete="deletionTimestamp" not in volume["metadata"])
        if maker:
            return Fate(now)
        said = f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
        return Fate("Failed", reason="VolumeFailedDelete", message=said)
    if policy == "Recycle":
        return Fate("Failed", reason="VolumeFailedRecycle", message="No recycler plugin found for the volume!")
    return Fate(now)


def chosen_node(claim: Object) -> str:
    return str((claim["metadata"].get("annotations") or {}).get(SELECTED_NODE) or "")


def bound_volume(volume: Object, claim: Object) -> Object | None:
    """Returns the volume bound to the claim; None if it already is."""
    reference, own = volume["spec"].get("claimRef") or {}, claim["metadata"]
    if reference.get("uid") == own["uid"] and is_bound_to(volume, claim):
        return None
    metadata = volume["metadata"]
    if not is_bound_to(volume, claim):
        metadata = {**metadata, "annotations": {**(metadata.get("annotations") or {}), BOUND_BY_CONTROLLER: "yes"}}
    return {**volume, "metadata": metadata, "spec": {**volume["spec"], "claimRef": claim_reference(claim)}}


def claim_reference(claim: Object) -> Object:
    metadata = claim["metadata"]
    fields = {field: metadata[field] for field in ("name", "namespace", "uid", "resourceVersion")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **fields}


def unbound_volume(volume: Object) -> Object:
    """Releases the volume. One bound by a user stays reserved."""
    metadata, spec = volume["metadata"], dict(volume["spec"])
    annotations = dict(metadata.get("annotations") or {})
    if annotations.pop(BOUND_BY_CONTROLLER, None):
        del spec["claimRef"]
    else:
        spec["claimRef"] = {
            key: value for key, value in spec["claimRef"].items() if key not in ("uid", "resourceVersion")
        }
    return {**volume, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def bound_claim(claim: Object, volume: Object, more: dict[str, str]) -> Object | None:
    """Returns the claim bound to the volume, with `extra_annotations`; None if it already is."""
    name, metadata = volume["metadata"]["name"], claim["metadata"]
    before = metadata.get("annotations") or {}
    annotations = {**before, **more, BIND_COMPLETED: "yes"}
    spec = claim["spec"]
    if spec.get("volumeName") != name:
        annotations[BOUND_BY_CONTROLLER] = "yes"
        spec = {**spec, "volumeName": name}
    if annotations == before and spec is claim["spec"]:
        return None
    return {**claim, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def claim_status(claim: Object, volume: Object) -> Object:
    """Status of a bound claim. Its capacity is set once; later it belongs to volume expansion."""
    status = dict(claim.get("status") or {})
    if status.get("phase") != "Bound":
        status["capacity"] = volume["spec"]["capacity"]
        if volume["spec"].get("volumeAttributesClassName"):
            status["currentVolumeAttributesClassName"] = volume["spec"]["volumeAttributesClassName"]
    return {**status, "phase": "Bound", "accessModes": volume["spec"]["accessModes"]}
