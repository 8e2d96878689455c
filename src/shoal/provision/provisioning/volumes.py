"""Node requirements of a pod's volumes, mostly zones, and errors of unusable volumes. Pure.

A bound volume has a fixed topology. An unbound volume that waits for its first pod is created where its StorageClass
allows. Each volume may have alternatives; a pod with several volumes has all their combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shoal.fit.requirements import IN, Requirements, requirement
from shoal.kinds.karpenter import HOSTNAME, is_going
from shoal.provision.simulation.asking import expressed, normalized

Object = dict[str, Any]
Find = Callable[[str, str], Object | None]
"""Looks up by name and namespace; the namespace of cluster-scoped objects is empty."""

BOUND = "pv.kubernetes.io/bind-completed"


class Unusable(ValueError):
    """The pod cannot run on any node because of a volume."""


def volume_alternatives(pod: Object, claims: Find, volumes: Find, classes: Find) -> tuple[Requirements, ...]:
    """Empty: the volumes impose nothing. Raises UnusableVolumeError if no node can satisfy them."""
    found: list[Requirements] = []
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        claim = _claim(pod, volume, claims)
        if claim is None:
            continue
        mine = _of_claim(claim, volumes, classes)
        if mine and found:
            both = [one.union(other) for one in found for other in mine if one.intersects(other)]
            found = both or [one.union(other) for one in found for other in mine]
        else:
            found = found or mine
    return tuple(found)


def _claim(pod: Object, volume: Object, claims: Find) -> Object | None:
    metadata = pod["metadata"]
    name = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
    if "ephemeral" in volume:
        name = f"{metadata['name']}-{volume.get('name', '')}"
    if not name:
        return None
    claim = claims(name, metadata.get("namespace", ""))
    if claim is None:
        raise Unusable(f'persistentvolumeclaim "{name}" not found')
    if is_going(claim):
        raise Unusable(f'persistentvolumeclaim "{name}" is being deleted')
    if (claim.get("status") or {}).get("phase") == "Lost":
        raise Unusable(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume')
    return claim


def _of_claim(claim: Object, volumes: Find, classes: Find) -> list[Requirements]:
    metadata, spec = claim["metadata"], claim.get("spec") or {}
    said = f'persistentvolumeclaim "{metadata["name"]}"'
    if spec.get("volumeName"):
        volume = volumes(spec["volumeName"], "")
        if volume is None or is_going(volume):
            state = "not found" if volume is None else "is being deleted"
            raise Unusable(f'{said}: persistentvolume "{spec["volumeName"]}" {state}')
        if BOUND not in (metadata.get("annotations") or {}):
            raise Unusable(f"{said} is not bound yet")
        return _of_volume(volume)
    name = spec.get("storageClassName") or ""
    if not name:
        raise Unusable(f"{said} is unbound and names no storage class")
    storage_class = classes(name, "")
    if storage_class is None:
        raise Unusable(f'{said}: storage class "{name}" not found')
    if storage_class.get("volumeBindingMode") == "Immediate":
        raise Unusable(f"{said} is unbound, and its storage class does not wait for the first pod")
    return _of_class(storage_class)


def _of_volume(volume: Object) -> list[Requirements]:
    """The hostname requirement of a local volume is dropped: the pod is about to move to another node."""
    spec = volume.get("spec") or {}
    local = "local" in spec or "hostPath" in spec
    found = []
    for term in ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ():
        wanted = expressed(term)
        if wanted:
            found.append(wanted.without(HOSTNAME) if local else wanted)
    return found


def _of_class(storage_class: Object) -> list[Requirements]:
    terms: Sequence[Object] = storage_class.get("allowedTopologies") or ()
    listed = [term.get("matchLabelExpressions") or () for term in terms]
    return [
        normalized(requirement(each["key"], IN, each.get("values") or ()) for each in expressions)
        for expressions in listed
        if expressions
    ]
