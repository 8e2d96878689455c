"""Node constraints of a pod's volumes: claims, bound volumes and storage classes. Pure.

A claim with WaitForFirstConsumer constrains nothing before a node is chosen. Then an annotation on the claim gives the
pod's node to the provisioner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.controlplane.scheduler.snapshot import Node
from shoal.fit.affinity import matches
from shoal.kinds.resources import amount
from shoal.kinds.volumes import BIND_COMPLETED, SELECTED_NODE, class_of, requested_storage
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import from_label_selector

Object = dict[str, Any]

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
    """Why no node fits at all."""
    affinities: tuple[tuple[Object, ...], ...] = ()
    """Per bound volume: node selector terms, of which a node must match one."""
    zones: tuple[tuple[str, frozenset[str]], ...] = ()
    """Zone labels of bound volumes, which a node with zone labels must match."""
    topologies: tuple[tuple[Object, ...], ...] = ()
    """Per storage class of unbound claims: its allowed topologies."""
    lost: bool = False
    offers: tuple[tuple[tuple[Object, ...] | None, ...], ...] = ()
    """Per claim without a provisioner: the node terms of available matching volumes; None for a volume without node
    affinity.
    """
    node: str = ""
    """Node selected by a claim that waits for its volume."""
    unbound: tuple[str, ...] = ()
    """Claims to provision on the pod's node."""

    def reasons(self, node: Node) -> tuple[str, ...]:
        found = []
        if any(not _matches_any(terms, node) for terms in self.affinities):
            found.append(WRONG_NODE)
        if (self.node and self.node != node.name) or not (self._provided(node) and self._offered(node)):
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

    def _offered(self, node: Node) -> bool:
        return all(any(terms is None or _matches_any(terms, node) for terms in free) for free in self.offers)

    def _is_elsewhere(self, labels: Mapping[str, str]) -> bool:
        if not any(key in labels for key in _STABLE):
            return False
        return any(labels.get(key, labels.get(_STABLE[key])) not in values for key, values in self.zones)


def _matches_any(terms: Iterable[Object], node: Node) -> bool:
    return any(matches(term, node.name, node.labels) for term in terms)


class Volumes:
    """Claims, volumes and classes of one hosted cluster."""

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
        """Returns the constraints of a pod with this uid and these claims, each with whether it is ephemeral."""
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
        where = [_where(each) for each in found]
        classes = [self._classes[class_of(claim) or ""] for claim in unbound]
        alone = [
            claim
            for claim, class_ in zip(unbound, classes, strict=True)
            if class_.get("provisioner", NO_PROVISIONER) == NO_PROVISIONER
        ]
        allowed = [tuple(each.get("allowedTopologies") or ()) for each in classes]
        selected = [self.selected_node(claim["metadata"]["namespace"], claim["metadata"]["name"]) for claim in unbound]
        return Ties(
            affinities=tuple(terms for terms in where if terms is not None),
            zones=tuple(zone for volume in found for zone in _zones(volume)),
            topologies=tuple(each for each in allowed if each),
            lost=len(found) < len(volumes),
            offers=tuple(
                tuple(_where(each) for each in self._volumes.values() if _suits(each, claim)) for claim in alone
            ),
            node=next((node for node in selected if node), ""),
            unbound=tuple(claim["metadata"]["name"] for claim in unbound),
        )

    def _waits_for_consumer(self, claim: Object) -> bool:
        class_ = self._classes.get(class_of(claim) or "")
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


def _where(volume: Object) -> tuple[Object, ...] | None:
    """Returns node selector terms, of which a node must match one; None if any node will do."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
    return tuple(required.get("nodeSelectorTerms") or ()) if required is not None else None


def _suits(volume: Object, claim: Object) -> bool:
    """Returns whether the volume is available and matches the claim."""
    has, wants = volume.get("spec") or {}, claim.get("spec") or {}
    if has.get("claimRef") or class_of(volume) != class_of(claim) or "deletionTimestamp" in volume["metadata"]:
        return False
    if not {*(wants.get("accessModes") or ())} <= {*(has.get("accessModes") or ())}:
        return False
    if (has.get("volumeMode") or "Filesystem") != (wants.get("volumeMode") or "Filesystem"):
        return False
    try:
        if wants.get("selector") and not from_label_selector(wants["selector"]).matches(
            volume["metadata"].get("labels")
        ):
            return False
    except BadRequest:
        return False
    return amount((has.get("capacity") or {}).get("storage")) >= amount(requested_storage(claim))


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
