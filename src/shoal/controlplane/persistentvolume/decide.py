"""Decides the next step of PersistentVolumeClaims and PersistentVolumes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.controlplane.persistentvolume.volume_match import (
    ConsumerNode,
    best_match,
    has_same_mode,
    is_bound_to,
    mismatch_reason,
)
from shoal.kinds.core.persistentvolume import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    SELECTED_NODE,
    storage_class_of,
)
from shoal.kinds.storage.storage import SIMULATED_PROVISIONER

Object = dict[str, Any]

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
NO_CLASS_MESSAGE = "no persistent volumes available for this claim and no storage class is set"
MISBOUND_MESSAGE = "Two claims are bound to the same volume, this one is bound incorrectly"
EXTERNAL_PROVISIONING_MESSAGE = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system "
    "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
    "registered."
)


@dataclass(frozen=True, slots=True)
class BindVolume:
    volume: Object


@dataclass(frozen=True, slots=True)
class ProvisionVolume:
    consumer_node: ConsumerNode | None


@dataclass(frozen=True, slots=True)
class SetStorageClass:
    name: str


@dataclass(frozen=True, slots=True)
class WaitForVolume:
    """The claim stays Pending; an Event gives the reason."""

    reason: str
    message: str
    type: str = "Normal"
    provisioner: str = ""
    """The external provisioner of the volume."""


@dataclass(frozen=True, slots=True)
class MarkLost:
    reason: str
    message: str


ClaimAction = BindVolume | ProvisionVolume | SetStorageClass | WaitForVolume | MarkLost | None


@dataclass(frozen=True, slots=True)
class ClaimContext:
    """Input of the decision about a claim."""

    candidates: list[Object] = field(default_factory=list)
    """Available volumes of its class and volumes that reference it."""
    requested_volume: Object | None = None
    """The volume it requests by name."""
    storage_class: Object | None = None
    default_class: str = ""
    consumer_node: ConsumerNode | None = None
    """Node of its first consumer; unused with immediate binding."""
    waiting_pods: tuple[str, ...] = ()
    """Pods that use it and have no node yet."""


def is_delayed_binding(storage_class: Object | None) -> bool:
    return (storage_class or {}).get("volumeBindingMode") == WAIT_FOR_FIRST_CONSUMER


def decide_claim(claim: Object, context: ClaimContext) -> ClaimAction:
    annotations = claim["metadata"].get("annotations") or {}
    if BIND_COMPLETED in annotations:
        return _sync_bound_claim(claim, context.requested_volume)
    if "deletionTimestamp" in claim["metadata"]:
        return None
    if claim["spec"].get("volumeName"):
        return _sync_requested_volume(claim, context.requested_volume)
    is_delayed = is_delayed_binding(context.storage_class)
    match = best_match(
        claim, context.candidates, delayed=is_delayed, consumer_node=context.consumer_node if is_delayed else None
    )
    if match is not None:
        return BindVolume(match)
    if storage_class_of(claim) is None and context.default_class:
        return SetStorageClass(context.default_class)
    if is_delayed and context.consumer_node is None:
        return WaitForVolume(*_wait_for_consumer(context.waiting_pods))
    return (
        _provision_or_wait(claim, context)
        if storage_class_of(claim)
        else WaitForVolume("FailedBinding", NO_CLASS_MESSAGE)
    )


def _provision_or_wait(claim: Object, context: ClaimContext) -> ClaimAction:
    if context.storage_class is None:
        message = f'storageclass.storage.k8s.io "{storage_class_of(claim)}" not found'
        return WaitForVolume("ProvisioningFailed", message, "Warning")
    provisioner = context.storage_class.get("provisioner") or ""
    if provisioner != SIMULATED_PROVISIONER:
        return WaitForVolume(
            "ExternalProvisioning", EXTERNAL_PROVISIONING_MESSAGE.format(provisioner), provisioner=provisioner
        )
    for field_name, reason in (
        ("selector", "claim Selector is not supported"),
        ("dataSource", "data sources are not simulated"),
    ):
        if claim["spec"].get(field_name):
            failure = f'failed to provision volume with StorageClass "{storage_class_of(claim)}": {reason}'
            return WaitForVolume("ProvisioningFailed", failure, "Warning", provisioner)
    return ProvisionVolume(context.consumer_node if is_delayed_binding(context.storage_class) else None)


def _wait_for_consumer(waiting_pods: tuple[str, ...]) -> tuple[str, str]:
    if not waiting_pods:
        return WAIT_FOR_FIRST_CONSUMER, "waiting for first consumer to be created before binding"
    pods = f"pods {','.join(waiting_pods)}" if len(waiting_pods) > 1 else f"pod {waiting_pods[0]}"
    return "WaitForPodScheduled", f"waiting for {pods} to be scheduled"


def _sync_requested_volume(claim: Object, volume: Object | None) -> ClaimAction:
    """For a claim that requests a volume by name."""
    if volume is None:
        return WaitForVolume("", "")
    name = volume["metadata"]["name"]
    if not volume["spec"].get("claimRef"):
        reason = mismatch_reason(volume, claim)
        message = f'Cannot bind to requested volume "{name}": {reason}'
        return WaitForVolume("VolumeMismatch", message, "Warning") if reason else BindVolume(volume)
    if is_bound_to(volume, claim):
        return BindVolume(volume)
    return WaitForVolume("FailedBinding", f'volume "{name}" already bound to a different claim.', "Warning")


def _sync_bound_claim(claim: Object, volume: Object | None) -> ClaimAction:
    if not claim["spec"].get("volumeName"):
        return MarkLost("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
    if volume is None:
        return MarkLost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
    reference = volume["spec"].get("claimRef")
    if reference and reference.get("uid") != claim["metadata"]["uid"]:
        return MarkLost("ClaimMisbound", MISBOUND_MESSAGE)
    return BindVolume(volume)


@dataclass(frozen=True, slots=True)
class VolumeAction:
    """Action on a volume. An empty phase leaves it unchanged."""

    phase: str = ""
    delete: bool = False
    unbind: bool = False
    enqueue_claim: bool = False
    """Its claim must be reconciled."""
    reason: str = ""
    message: str = ""


def decide_volume(volume: Object, claim: Object | None) -> VolumeAction:
    """`claim` is the one the volume is bound to, if it still exists."""
    reference = volume["spec"].get("claimRef")
    if not reference or not reference.get("uid"):
        return VolumeAction("Available", enqueue_claim=bool(reference))
    if claim is None:
        return _reclaim(volume)
    name = claim["spec"].get("volumeName")
    if not name:
        if has_same_mode(claim, volume):
            return VolumeAction(enqueue_claim=True)
        requested = f'requested PersistentVolumeClaim "{claim["metadata"]["name"]}"'
        message = f"Cannot bind PersistentVolume to {requested} due to incompatible volumeMode."
        return VolumeAction(reason="VolumeMismatch", message=message)
    if name == volume["metadata"]["name"]:
        return VolumeAction("Bound")
    provisioned = PROVISIONED_BY in (volume["metadata"].get("annotations") or {})
    if provisioned and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
        return _reclaim(volume)
    return VolumeAction("Available", unbind=True)


def _reclaim(volume: Object) -> VolumeAction:
    policy, phase = volume["spec"].get("persistentVolumeReclaimPolicy"), (volume.get("status") or {}).get("phase")
    new_phase = "" if phase in ("Released", "Failed") else "Released"
    name = volume["metadata"]["name"]
    if policy == "Delete":
        provisioner = (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY)
        if provisioner == SIMULATED_PROVISIONER or (not provisioner and volume["spec"].get("hostPath")):
            return VolumeAction(new_phase, delete="deletionTimestamp" not in volume["metadata"])
        if provisioner:
            return VolumeAction(new_phase)
        message = f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
        return VolumeAction("Failed", reason="VolumeFailedDelete", message=message)
    if policy == "Recycle":
        return VolumeAction("Failed", reason="VolumeFailedRecycle", message="No recycler plugin found for the volume!")
    return VolumeAction(new_phase)


def selected_node(claim: Object) -> str:
    return str((claim["metadata"].get("annotations") or {}).get(SELECTED_NODE) or "")


def bound_volume(volume: Object, claim: Object) -> Object | None:
    """Returns the volume bound to the claim; None if it already is."""
    reference, claim_metadata = volume["spec"].get("claimRef") or {}, claim["metadata"]
    if reference.get("uid") == claim_metadata["uid"] and is_bound_to(volume, claim):
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


def bound_claim(claim: Object, volume: Object, extra_annotations: dict[str, str]) -> Object | None:
    """Returns the claim bound to the volume, with `extra_annotations`; None if it already is."""
    name, metadata = volume["metadata"]["name"], claim["metadata"]
    before = metadata.get("annotations") or {}
    annotations = {**before, **extra_annotations, BIND_COMPLETED: "yes"}
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
