"""Volumes of the simulated provisioner: objects with a topology and no storage behind them. Pure."""

from __future__ import annotations

from typing import Any

from shoal.controlplane.volumes.decide import claim_reference
from shoal.controlplane.volumes.matching import Place
from shoal.kinds.storage import SIMULATED_DRIVER, SIMULATED_PROVISIONER
from shoal.kinds.volumes import PROVISIONED_BY, class_of, requested_storage

Object = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"


def volume_name(claim: Object) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def made_volume(claim: Object, storage_class: Object, place: Place | None) -> Object:
    """`consumer_node` is set with delayed binding: the volume is usable in its zone only."""
    name = volume_name(claim)
    spec: Object = {
        "capacity": {"storage": requested_storage(claim)},
        "accessModes": claim["spec"]["accessModes"],
        "claimRef": claim_reference(claim),
        "csi": {"driver": SIMULATED_DRIVER, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "storageClassName": class_of(claim),
        "volumeMode": claim["spec"].get("volumeMode") or "Filesystem",
    }
    if storage_class.get("mountOptions"):
        spec["mountOptions"] = storage_class["mountOptions"]
    if claim["spec"].get("volumeAttributesClassName"):
        spec["volumeAttributesClassName"] = claim["spec"]["volumeAttributesClassName"]
    terms = _terms(storage_class, place)
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: SIMULATED_PROVISIONER}},
        "spec": spec,
    }


def _terms(storage_class: Object, place: Place | None) -> list[Object]:
    zone = place.labels.get(ZONE) if place is not None else None
    if zone:
        return [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    terms = []
    for term in storage_class.get("allowedTopologies") or ():
        found = [
            {"key": one["key"], "operator": "In", "values": one["values"]}
            for one in term.get("matchLabelExpressions") or ()
        ]
        if found:
            terms.append({"matchExpressions": found})
    return terms
