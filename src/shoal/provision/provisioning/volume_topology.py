"""Node requirements of a pod's volumes, mostly zones, and errors of unusable volumes. Pure.

A bound volume has a fixed topology. An unbound volume that waits for its first pod is created where its StorageClass
allows. Each volume may have alternatives; a pod with several volumes has all their combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shoal.fit.requirements import IN, Requirements, new_requirement
from shoal.kinds.karpenter.karpenter import HOSTNAME, is_deleting
from shoal.provision.simulation.preferences import normalize, term_requirements

Object = dict[str, Any]
Lookup = Callable[[str, str], Object | None]
"""Looks up by name and namespace; the namespace of cluster-scoped objects is empty."""

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class UnusableVolumeError(ValueError):
    """The pod cannot run on any node because of a volume."""


def volume_requirements(pod: Object, claims: Lookup, volumes: Lookup, classes: Lookup) -> tuple[Requirements, ...]:
    """Empty: the volumes impose nothing. Raises UnusableVolumeError if no node can satisfy them."""
    alternatives: list[Requirements] = []
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        claim = _claim_of(pod, volume, claims)
        if claim is None:
            continue
        claim_alternatives = _claim_requirements(claim, volumes, classes)
        if claim_alternatives and alternatives:
            compatible = [
                one.union(other) for one in alternatives for other in claim_alternatives if one.intersects(other)
            ]
            alternatives = compatible or [one.union(other) for one in alternatives for other in claim_alternatives]
        else:
            alternatives = alternatives or claim_alternatives
    return tuple(alternatives)


def claim_names(pod: Object) -> list[str]:
    """Names of the PersistentVolumeClaims of a pod, also of those of its ephemeral volumes."""
    names = (_claim_name(pod, volume) for volume in (pod.get("spec") or {}).get("volumes") or ())
    return [name for name in names if name]


def _claim_name(pod: Object, volume: Object) -> str:
    if "ephemeral" in volume:
        return f"{pod['metadata']['name']}-{volume.get('name', '')}"
    return str((volume.get("persistentVolumeClaim") or {}).get("claimName", ""))


def _claim_of(pod: Object, volume: Object, claims: Lookup) -> Object | None:
    metadata, name = pod["metadata"], _claim_name(pod, volume)
    if not name:
        return None
    claim = claims(name, metadata.get("namespace", ""))
    if claim is None:
        raise UnusableVolumeError(f'persistentvolumeclaim "{name}" not found')
    if is_deleting(claim):
        raise UnusableVolumeError(f'persistentvolumeclaim "{name}" is being deleted')
    if (claim.get("status") or {}).get("phase") == "Lost":
        raise UnusableVolumeError(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume')
    return claim


def _claim_requirements(claim: Object, volumes: Lookup, classes: Lookup) -> list[Requirements]:
    metadata, spec = claim["metadata"], claim.get("spec") or {}
    subject = f'persistentvolumeclaim "{metadata["name"]}"'
    if spec.get("volumeName"):
        volume = volumes(spec["volumeName"], "")
        if volume is None or is_deleting(volume):
            state = "not found" if volume is None else "is being deleted"
            raise UnusableVolumeError(f'{subject}: persistentvolume "{spec["volumeName"]}" {state}')
        if BIND_COMPLETED not in (metadata.get("annotations") or {}):
            raise UnusableVolumeError(f"{subject} is not bound yet")
        return _volume_requirements(volume)
    name = spec.get("storageClassName") or ""
    if not name:
        raise UnusableVolumeError(f"{subject} is unbound and has no storage class")
    storage_class = classes(name, "")
    if storage_class is None:
        raise UnusableVolumeError(f'{subject}: storage class "{name}" not found')
    if storage_class.get("volumeBindingMode") == "Immediate":
        raise UnusableVolumeError(f"{subject} is unbound, and its storage class has volumeBindingMode Immediate")
    return _class_requirements(storage_class)


def _volume_requirements(volume: Object) -> list[Requirements]:
    """The hostname requirement of a local volume is dropped: the pod is about to move to another node."""
    spec = volume.get("spec") or {}
    local = "local" in spec or "hostPath" in spec
    alternatives = []
    for term in ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ():
        requirements = term_requirements(term)
        if requirements:
            alternatives.append(requirements.without(HOSTNAME) if local else requirements)
    return alternatives


def _class_requirements(storage_class: Object) -> list[Requirements]:
    terms: Sequence[Object] = storage_class.get("allowedTopologies") or ()
    expression_lists = [term.get("matchLabelExpressions") or () for term in terms]
    return [
        normalize(new_requirement(each["key"], IN, each.get("values") or ()) for each in expressions)
        for expressions in expression_lists
        if expressions
    ]
