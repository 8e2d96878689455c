"""Volumes of the simulated provisioner: objects with a topology and no storage behind them. Pure."""

from __future__ import annotations

from typing import Any

from shoal.controlplane.persistentvolume.decide import claim_reference
from shoal.controlplane.persistentvolume.volume_match import ConsumerNode
from shoal.kinds.core.persistentvolume import PROVISIONED_BY, requested_storage, storage_class_of
from shoal.kinds.storage.storage import SIMULATED_DRIVER, SIMULATED_PROVISIONER

Object = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"


def volume_name(claim: Object) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def new_volume(claim: Object, storage_class: Object, consumer_node: ConsumerNode | None) -> Object:
    """`consumer_node` is set with delayed binding: the volume is usable in its zone only."""
    name = volume_name(claim)
    spec: Object = {
        "capacity": {"storage": requested_storage(claim)},
        "accessModes": claim["spec"]["accessModes"],
        "claimRef": claim_reference(claim),
        "csi": {"driver": SIMULATED_DRIVER, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "storageClassName": storage_class_of(claim),
        "volumeMode": claim["spec"].get("volumeMode") or "Filesystem",
    }
    if storage_class.get("mountOptions"):
        spec["mountOptions"] = storage_class["mountOptions"]
    if claim["spec"].get("volumeAttributesClassName"):
        spec["volumeAttributesClassName"] = claim["spec"]["volumeAttributesClassName"]
    terms = _node_selector_terms(storage_class, consumer_node)
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: SIMULATED_PROVISIONER}},
        "spec": spec,
    }


def _node_selector_terms(storage_class: Object, consumer_node: ConsumerNode | None) -> list[Object]:
    zone = consumer_node.labels.get(ZONE) if consumer_node is not None else None
    if zone:
        return [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    terms = []
    for term in storage_class.get("allowedTopologies") or ():
        expressions = [
            {"key": one["key"], "operator": "In", "values": one["values"]}
            for one in term.get("matchLabelExpressions") or ()
        ]
        if expressions:
            terms.append({"matchExpressions": expressions})
    return terms
