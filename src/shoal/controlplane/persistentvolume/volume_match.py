"""Matches PersistentVolumes with claims. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.fit.affinity import matches_term
from shoal.kinds.core.persistentvolume import requested_storage, storage_class_of
from shoal.kinds.validation.resource_list import quantity_of
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import SELECT_EVERYTHING, SELECT_NOTHING, LabelSelector, from_label_selector

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ConsumerNode:
    """The node of a claim's first consumer."""

    name: str
    labels: dict[str, str]


def is_bound_to(volume: Object, claim: Object) -> bool:
    """Returns whether the volume is reserved for the claim by name, or bound to this very claim."""
    reference, metadata = volume["spec"].get("claimRef"), claim["metadata"]
    if not reference or (reference.get("namespace"), reference.get("name")) != (
        metadata["namespace"],
        metadata["name"],
    ):
        return False
    return not reference.get("uid") or reference["uid"] == metadata["uid"]


def mismatch_reason(volume: Object, claim: Object) -> str:
    """Returns why the requested volume does not match the claim; empty if it does."""
    if "deletionTimestamp" in volume["metadata"]:
        return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
    if _size(volume) < quantity_of(requested_storage(claim)):
        return "requested PV is too small"
    if (storage_class_of(volume) or "") != (storage_class_of(claim) or ""):
        return "storageClassName does not match"
    if not _has_same_field(claim, volume, "volumeAttributesClassName", ""):
        return "volumeAttributesClassName does not match"
    if not has_same_mode(claim, volume):
        return "incompatible volumeMode"
    return "" if _access_modes(claim) <= _access_modes(volume) else "incompatible accessMode"


def best_match(
    claim: Object, volumes: Iterable[Object], *, delayed: bool, consumer_node: ConsumerNode | None
) -> Object | None:
    """Returns the volume reserved for the claim, else the smallest available one with the fewest access modes. With
    delayed binding, an available volume must be reachable from the consumer's node.
    """
    requested, selector = quantity_of(requested_storage(claim)), _selector(claim)
    best_rank: tuple[Any, ...] | None = None
    best_volume: Object | None = None
    for volume in volumes:
        if "deletionTimestamp" in volume["metadata"] or _size(volume) < requested or not has_same_mode(claim, volume):
            continue
        if not _access_modes(claim) <= _access_modes(volume) or not _has_same_field(
            claim, volume, "volumeAttributesClassName", ""
        ):
            continue
        if volume["spec"].get("claimRef"):
            if is_bound_to(volume, claim):
                return volume
            continue
        if not _is_available(volume, claim, selector) or (delayed and consumer_node is None):
            continue
        if consumer_node is not None and not is_reachable(volume, consumer_node):
            continue
        rank = len(_access_modes(volume)), sorted(_access_modes(volume)), _size(volume), volume["metadata"]["name"]
        if best_rank is None or rank < best_rank:
            best_rank, best_volume = rank, volume
    return best_volume


def is_reachable(volume: Object, consumer_node: ConsumerNode) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if not required:
        return True
    return any(
        matches_term(term, consumer_node.name, consumer_node.labels) for term in required.get("nodeSelectorTerms") or ()
    )


def has_same_mode(claim: Object, volume: Object) -> bool:
    return _has_same_field(claim, volume, "volumeMode", "Filesystem")


def _is_available(volume: Object, claim: Object, selector: LabelSelector) -> bool:
    if (volume.get("status") or {}).get("phase") != "Available":
        return False
    if (storage_class_of(volume) or "") != (storage_class_of(claim) or ""):
        return False
    return selector.matches(volume["metadata"].get("labels"))


def _has_same_field(claim: Object, volume: Object, field: str, default: str) -> bool:
    return bool((claim["spec"].get(field) or default) == (volume["spec"].get(field) or default))


def _access_modes(obj: Object) -> set[str]:
    return set(obj["spec"].get("accessModes") or ())


def _size(volume: Object) -> Any:
    return quantity_of((volume["spec"].get("capacity") or {}).get("storage"))


def _selector(claim: Object) -> LabelSelector:
    label_selector = claim["spec"].get("selector")
    try:
        return SELECT_EVERYTHING if label_selector is None else from_label_selector(label_selector)
    except BadRequest:
        return SELECT_NOTHING
