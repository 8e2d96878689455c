"""Node constraints of a pod's volumes: claims, bound volumes and storage classes. Pure.

A claim with WaitForFirstConsumer constrains nothing before a node is chosen. Then an annotation on the claim gives the
pod's node to the provisioner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from shoal.controlplane.scheduler.snapshot import NodeInfo
from shoal.fit.affinity import matches_term
from shoal.fit.attachments import Attachment, attach_limits, attachment_of, exceeds_limits
from shoal.kinds.core.persistentvolume import BIND_COMPLETED, SELECTED_NODE, requested_storage, storage_class_of
from shoal.kinds.validation.resource_list import quantity_of
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import from_label_selector

Object = dict[str, Any]

NO_PROVISIONER = "kubernetes.io/no-provisioner"

WRONG_NODE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
LOST_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
WRONG_ZONE = "node(s) had no available volume zone"

TOO_MANY_VOLUMES = "node(s) exceed max volume count"

_ZONE_LABELS = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}


@dataclass(frozen=True, slots=True)
class VolumeConstraints:
    message: str = ""
    """Why no node fits at all."""
    affinities: tuple[tuple[Object, ...], ...] = ()
    """Per bound volume: node selector terms, of which a node must match one."""
    zones: tuple[tuple[str, frozenset[str]], ...] = ()
    """Zone labels of bound volumes, which a node with zone labels must match."""
    topologies: tuple[tuple[Object, ...], ...] = ()
    """Per storage class of unbound claims: its allowed topologies."""
    has_lost_volume: bool = False
    available_volumes: tuple[tuple[tuple[Object, ...] | None, ...], ...] = ()
    """Per claim without a provisioner: the node terms of available matching volumes; None for a volume without node
    affinity.
    """
    selected_node: str = ""
    """Node selected by a claim that waits for its volume."""
    unbound_claims: tuple[str, ...] = ()
    """Claims to provision on the pod's node."""
    attachments: frozenset[Attachment] = frozenset()
    """Volumes that CSI drivers attach to the pod's node."""
    node_exceeds_limits: Callable[[NodeInfo, frozenset[Attachment]], bool] | None = None

    def reasons(self, node: NodeInfo) -> tuple[str, ...]:
        reasons = []
        if any(not _matches_any(terms, node) for terms in self.affinities):
            reasons.append(WRONG_NODE)
        if (self.selected_node and self.selected_node != node.name) or not (
            self._allows_topology(node) and self._has_available_volumes(node)
        ):
            reasons.append(NO_VOLUME)
        if self.has_lost_volume:
            reasons.append(LOST_VOLUME)
        if self.node_exceeds_limits is not None and self.node_exceeds_limits(node, self.attachments):
            reasons.append(TOO_MANY_VOLUMES)
        if not reasons and self._is_in_other_zone(node.labels):
            reasons.append(WRONG_ZONE)
        return tuple(reasons)

    def _allows_topology(self, node: NodeInfo) -> bool:
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

    def _has_available_volumes(self, node: NodeInfo) -> bool:
        return all(any(terms is None or _matches_any(terms, node) for terms in free) for free in self.available_volumes)

    def _is_in_other_zone(self, labels: Mapping[str, str]) -> bool:
        if not any(key in labels for key in _ZONE_LABELS):
            return False
        return any(labels.get(key, labels.get(_ZONE_LABELS[key])) not in values for key, values in self.zones)


def _matches_any(terms: Iterable[Object], node: NodeInfo) -> bool:
    return any(matches_term(term, node.name, node.labels) for term in terms)


class VolumeCache:
    """Claims, volumes and classes of one hosted cluster."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], Object] = {}
        self._volumes: dict[str, Object] = {}
        self._classes: dict[str, Object] = {}
        self._attach_limits: dict[str, dict[str, int]] = {}
        """Maximum number of volumes by node and CSI driver."""

    def put_claim(self, key: tuple[str, str], claim: Object | None) -> None:
        _store(self._claims, key, claim)

    def put_volume(self, name: str, volume: Object | None) -> None:
        _store(self._volumes, name, volume)

    def put_class(self, name: str, class_: Object | None) -> None:
        _store(self._classes, name, class_)

    def put_csi_node(self, name: str, csi_node: Object | None) -> None:
        limits = attach_limits(csi_node) if csi_node is not None else {}
        if limits:
            self._attach_limits[name] = limits
        else:
            self._attach_limits.pop(name, None)

    def node_exceeds_limits(self, node: NodeInfo, attachments: frozenset[Attachment]) -> bool:
        """Returns whether the node has more volumes than it may have with these."""
        limits = self._attach_limits.get(node.name)
        if not limits:
            return False
        attached = (
            each
            for pod in node.pods.values()
            for each in self._attachments(pod.key[0], (name for name, _ in pod.equivalence.claims))
        )
        return exceeds_limits(limits, attached, attachments)

    def _attachments(self, namespace: str, claims: Iterable[str]) -> Iterator[Attachment]:
        for name in claims:
            claim = self._claims.get((namespace, name))
            if claim is None:
                continue
            volume = self._volumes.get(str((claim.get("spec") or {}).get("volumeName") or ""))
            attachment = attachment_of(claim, volume, self._classes.get(storage_class_of(claim) or ""))
            if attachment is not None:
                yield attachment

    def is_bound(self, namespace: str, claim: str) -> bool:
        obj = self._claims.get((namespace, claim))
        return obj is not None and _is_bound(obj)

    def selected_node(self, namespace: str, claim: str) -> str:
        obj = self._claims.get((namespace, claim))
        return str((obj["metadata"].get("annotations") or {}).get(SELECTED_NODE) or "") if obj is not None else ""

    def constraints_for(self, namespace: str, claims: Iterable[tuple[str, bool]], uid: str = "") -> VolumeConstraints:
        """Returns the constraints of a pod with this uid and these claims, each with whether it is ephemeral."""
        claims = tuple(claims)
        bound: list[Object] = []
        unbound: list[Object] = []
        has_immediate = False
        for name, is_ephemeral in claims:
            claim = self._claims.get((namespace, name))
            if (error := _claim_error(name, claim, is_ephemeral, uid)) or claim is None:
                return VolumeConstraints(error)
            if _is_bound(claim):
                bound.append(claim)
            elif self._waits_for_consumer(claim):
                unbound.append(claim)
            else:
                has_immediate = True
        if has_immediate:
            return VolumeConstraints("pod has unbound immediate PersistentVolumeClaims")
        attachments = frozenset(self._attachments(namespace, (name for name, _ in claims)))
        return replace(
            self._constraints(bound, unbound),
            attachments=attachments,
            node_exceeds_limits=self.node_exceeds_limits if attachments else None,
        )

    def _constraints(self, bound: list[Object], unbound: list[Object]) -> VolumeConstraints:
        volumes = [self._volumes.get(claim["spec"]["volumeName"]) for claim in bound]
        bound_volumes = [volume for volume in volumes if volume is not None]
        node_terms = [_node_terms(each) for each in bound_volumes]
        classes = [self._classes[storage_class_of(claim) or ""] for claim in unbound]
        unprovisioned = [
            claim
            for claim, class_ in zip(unbound, classes, strict=True)
            if class_.get("provisioner", NO_PROVISIONER) == NO_PROVISIONER
        ]
        allowed = [tuple(each.get("allowedTopologies") or ()) for each in classes]
        selected = [self.selected_node(claim["metadata"]["namespace"], claim["metadata"]["name"]) for claim in unbound]
        return VolumeConstraints(
            affinities=tuple(terms for terms in node_terms if terms is not None),
            zones=tuple(zone for volume in bound_volumes for zone in _zones(volume)),
            topologies=tuple(each for each in allowed if each),
            has_lost_volume=len(bound_volumes) < len(volumes),
            available_volumes=tuple(
                tuple(_node_terms(each) for each in self._volumes.values() if _matches_claim(each, claim))
                for claim in unprovisioned
            ),
            selected_node=next((node for node in selected if node), ""),
            unbound_claims=tuple(claim["metadata"]["name"] for claim in unbound),
        )

    def _waits_for_consumer(self, claim: Object) -> bool:
        class_ = self._classes.get(storage_class_of(claim) or "")
        mode = class_.get("volumeBindingMode") if class_ is not None else None
        return mode == "WaitForFirstConsumer" and not (claim.get("spec") or {}).get("volumeName")


def _claim_error(name: str, claim: Object | None, is_ephemeral: bool, uid: str) -> str:
    if claim is None:
        wait = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return wait if is_ephemeral else f'persistentvolumeclaim "{name}" not found'
    metadata = claim["metadata"]
    if (claim.get("status") or {}).get("phase") == "Lost":
        volume = (claim.get("spec") or {}).get("volumeName", "")
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if "deletionTimestamp" in metadata:
        return f'persistentvolumeclaim "{name}" is being deleted'
    owners = [each.get("uid") for each in metadata.get("ownerReferences") or () if each.get("controller")]
    if is_ephemeral and uid not in owners:
        return f"PVC {metadata['namespace']}/{name} was not created for pod (pod is not owner)"
    return ""


def _is_bound(claim: Object) -> bool:
    volume_name = (claim.get("spec") or {}).get("volumeName")
    return bool(volume_name) and BIND_COMPLETED in (claim["metadata"].get("annotations") or {})


def _node_terms(volume: Object) -> tuple[Object, ...] | None:
    """Returns node selector terms, of which a node must match one; None if any node will do."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
    return tuple(required.get("nodeSelectorTerms") or ()) if required is not None else None


def _matches_claim(volume: Object, claim: Object) -> bool:
    """Returns whether the volume is available and matches the claim."""
    volume_spec, claim_spec = volume.get("spec") or {}, claim.get("spec") or {}
    if (
        volume_spec.get("claimRef")
        or storage_class_of(volume) != storage_class_of(claim)
        or "deletionTimestamp" in volume["metadata"]
    ):
        return False
    if not {*(claim_spec.get("accessModes") or ())} <= {*(volume_spec.get("accessModes") or ())}:
        return False
    if (volume_spec.get("volumeMode") or "Filesystem") != (claim_spec.get("volumeMode") or "Filesystem"):
        return False
    try:
        if claim_spec.get("selector") and not from_label_selector(claim_spec["selector"]).matches(
            volume["metadata"].get("labels")
        ):
            return False
    except BadRequest:
        return False
    return quantity_of((volume_spec.get("capacity") or {}).get("storage")) >= quantity_of(requested_storage(claim))


def _zones(volume: Object) -> Iterable[tuple[str, frozenset[str]]]:
    labels = volume["metadata"].get("labels") or {}
    for key in _ZONE_LABELS:
        if key in labels:
            yield key, frozenset(labels[key].split("__"))


def _store(cache: dict[Any, Object], key: object, obj: Object | None) -> None:
    if obj is None:
        cache.pop(key, None)
    else:
        cache[key] = obj
