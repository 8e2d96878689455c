"""To which nodes the volumes of a pod tie it: claims, the volumes they are bound to, and storage classes. Pure.

A claim whose class waits for its first consumer is no tie before a node was chosen: the pod's node then is, by an
annotation of the claim, for whoever provides the volume.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.scheduler.snapshot import Node
from shoal.fit.affinity import matches

Object = dict[str, Any]

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

WRONG_NODE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
LOST_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
WRONG_ZONE = "node(s) had no available volume zone"

_STABLE = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}


@dataclass(frozen=True, slots=True)
class Ties:
    message: str = ""
    """Why no node will do, whatever it is like."""
    affinities: tuple[tuple[Object, ...], ...] = ()
    """Per bound volume, the terms of which a node must match one."""
    zones: tuple[tuple[str, frozenset[str]], ...] = ()
    """Labels of bound volumes that a node in a zone must share."""
    topologies: tuple[tuple[Object, ...], ...] = ()
    """Per class of unbound claims, where it provides volumes."""
    lost: bool = False
    unprovided: bool = False
    """A claim that nobody provides a volume for."""
    node: str = ""
    """Where a claim waits for its volume."""
    unbound: tuple[str, ...] = ()
    """The claims to be provided for on the pod's node."""

    def reasons(self, node: Node) -> tuple[str, ...]:
        found = []
        if any(not _matches_any(terms, node) for terms in self.affinities):
            found.append(WRONG_NODE)
        if (self.node and self.node != node.name) or self.unprovided or not self._provided(node):
            found.append(NO_VOLUME)
        if self.lost:
            found.append(LOST_VOLUME)
        if not found and self._is_elsewhere(node.labels):
            found.append(WRONG_ZONE)
        return tuple(found)

    def _provided(self, node: Node) -> bool:
        return all(
            any(
                all(
                    node.labels.get(each.get("key", "")) in (each.get("values") or ())
                    for each in term.get("matchLabelExpressions") or ()
                )
                for term in terms
            )
            for terms in self.topologies
        )

    def _is_elsewhere(self, labels: Mapping[str, str]) -> bool:
        if not any(key in labels for key in _STABLE):
            return False
        return any(labels.get(key, labels.get(_STABLE[key])) not in values for key, values in self.zones)


def _matches_any(terms: Iterable[Object], node: Node) -> bool:
    return any(matches(term, node.name, node.labels) for term in terms)


class Volumes:
    """Of one hosted cluster."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], Object] = {}
        self._volumes: dict[str, Object] = {}
        self._classes: dict[str, Object] = {}

    def see_claim(self, key: tuple[str, str], claim: Object | None) -> None:
        _keep(self._claims, key, claim)

    def see_volume(self, name: str, volume: Object | None) -> None:
        _keep(self._volumes, name, volume)

    def see_class(self, name: str, class_: Object | None) -> None:
        _keep(self._classes, name, class_)

    def is_bound(self, namespace: str, claim: str) -> bool:
        found = self._claims.get((namespace, claim))
        return found is not None and _is_bound(found)

    def selected_node(self, namespace: str, claim: str) -> str:
        found = self._claims.get((namespace, claim))
        return str((found["metadata"].get("annotations") or {}).get(SELECTED_NODE) or "") if found is not None else ""

    def ties(self, namespace: str, claims: Iterable[tuple[str, bool]], uid: str = "") -> Ties:
        """Of a pod of this uid with these claims, each with whether it is to be made for the pod."""
        bound: list[Object] = []
        unbound: list[Object] = []
        waiting = False
        for name, made in claims:
            claim = self._claims.get((namespace, name))
            if (why := _problem(name, claim, made, uid)) or claim is None:
                return Ties(why)
            if _is_bound(claim):
                bound.append(claim)
            elif self._waits_for_consumer(claim):
                unbound.append(claim)
            else:
                waiting = True
        if waiting:
            return Ties("pod has unbound immediate PersistentVolumeClaims")
        return self._ties(bound, unbound)

    def _ties(self, bound: list[Object], unbound: list[Object]) -> Ties:
        volumes = [self._volumes.get(claim["spec"]["volumeName"]) for claim in bound]
        found = [volume for volume in volumes if volume is not None]
        required = [((each.get("spec") or {}).get("nodeAffinity") or {}).get("required") for each in found]
        classes = [self._classes[_class_of(claim)] for claim in unbound]
        allowed = [tuple(each.get("allowedTopologies") or ()) for each in classes]
        selected = [self.selected_node(claim["metadata"]["namespace"], claim["metadata"]["name"]) for claim in unbound]
        return Ties(
            affinities=tuple(tuple(each.get("nodeSelectorTerms") or ()) for each in required if each is not None),
            zones=tuple(zone for volume in found for zone in _zones(volume)),
            topologies=tuple(each for each in allowed if each),
            lost=len(found) < len(volumes),
            unprovided=any(each.get("provisioner", NO_PROVISIONER) == NO_PROVISIONER for each in classes),
            node=next((node for node in selected if node), ""),
            unbound=tuple(claim["metadata"]["name"] for claim in unbound),
        )

    def _waits_for_consumer(self, claim: Object) -> bool:
        class_ = self._classes.get(_class_of(claim))
        mode = class_.get("volumeBindingMode") if class_ is not None else None
        return mode == "WaitForFirstConsumer" and not (claim.get("spec") or {}).get("volumeName")


def _problem(name: str, claim: Object | None, made: bool, uid: str) -> str:
    if claim is None:
        wait = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return wait if made else f'persistentvolumeclaim "{name}" not found'
    metadata = claim["metadata"]
    if (claim.get("status") or {}).get("phase") == "Lost":
        volume = (claim.get("spec") or {}).get("volumeName", "")
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if "deletionTimestamp" in metadata:
        return f'persistentvolumeclaim "{name}" is being deleted'
    owners = [each.get("uid") for each in metadata.get("ownerReferences") or () if each.get("controller")]
    if made and uid not in owners:
        return f"PVC {metadata['namespace']}/{name} was not created for pod (pod is not owner)"
    return ""


def _is_bound(claim: Object) -> bool:
    named = (claim.get("spec") or {}).get("volumeName")
    return bool(named) and BIND_COMPLETED in (claim["metadata"].get("annotations") or {})


def _class_of(claim: Object) -> str:
    old = (claim["metadata"].get("annotations") or {}).get("volume.beta.kubernetes.io/storage-class")
    return str(old or (claim.get("spec") or {}).get("storageClassName") or "")


def _zones(volume: Object) -> Iterable[tuple[str, frozenset[str]]]:
    labels = volume["metadata"].get("labels") or {}
    for key in _STABLE:
        if key in labels:
            yield key, frozenset(labels[key].split("__"))


def _keep(among: dict[Any, Object], key: object, obj: Object | None) -> None:
    if obj is None:
        among.pop(key, None)
    else:
        among[key] = obj
