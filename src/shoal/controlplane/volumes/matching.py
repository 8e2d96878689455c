"""Matches PersistentVolumes with claims. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.fit.affinity import matches
from shoal.kinds.resources import amount
from shoal.kinds.volumes import class_of, requested_storage
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import EVERYTHING, NOTHING, LabelSelector, from_label_selector

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
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


def mismatch(volume: Object, claim: Object) -> str:
    """Returns why the requested volume does not match the claim; empty if it does."""
    if "deletionTimestamp" in volume["metadata"]:
        return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
    if _size(volume) < amount(requested_storage(claim)):
        return "requested PV is too small"
    if (class_of(volume) or "") != (class_of(claim) or ""):
        return "storageClassName does not match"
    if not _same(claim, volume, "volumeAttributesClassName", ""):
        return "volumeAttributesClassName does not match"
    if not same_mode(claim, volume):
        return "incompatible volumeMode"
    return "" if _modes(claim) <= _modes(volume) else "incompatible accessMode"


def best_match(claim: Object, volumes: Iterable[Object], *, delayed: bool, place: Place | None) -> Object | None:
    """Returns the volume reserved for the claim, else the smallest available one with the fewest access modes. With
    delayed binding, an available volume must be reachable from the consumer's node.
    """
    wanted, selector = amount(requested_storage(claim)), _selector(claim)
    best: tuple[Any, ...] | None = None
    found: Object | None = None
    for volume in volumes:
        if "deletionTimestamp" in volume["metadata"] or _size(volume) < wanted or not same_mode(claim, volume):
            continue
        if not _modes(claim) <= _modes(volume) or not _same(claim, volume, "volumeAttributesClassName", ""):
            continue
        if volume["spec"].get("claimRef"):
            if is_bound_to(volume, claim):
                return volume
            continue
        if not _is_free(volume, claim, selector) or (delayed and place is None):
            continue
        if place is not None and not is_reachable(volume, place):
            continue
        rank = len(_modes(volume)), sorted(_modes(volume)), _size(volume), volume["metadata"]["name"]
        if best is None or rank < best:
            best, found = rank, volume
    return found


def is_reachable(volume: Object, place: Place) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if not required:
        return True
    return any(matches(term, place.name, place.labels) for term in required.get("nodeSelectorTerms") or ())


def same_mode(claim: Object, volume: Object) -> bool:
    return _same(claim, volume, "volumeMode", "Filesystem")


def _is_free(volume: Object, claim: Object, selector: LabelSelector) -> bool:
    if (volume.get("status") or {}).get("phase") != "Available":
        return False
    if (class_of(volume) or "") != (class_of(claim) or ""):
        return False
    return selector.matches(volume["metadata"].get("labels"))


def _same(claim: Object, volume: Object, field: str, default: str) -> bool:
    return bool((claim["spec"].get(field) or default) == (volume["spec"].get(field) or default))


def _modes(obj: Object) -> set[str]:
    return set(obj["spec"].get("accessModes") or ())


def _size(volume: Object) -> Any:
    return amount((volume["spec"].get("capacity") or {}).get("storage"))


def _selector(claim: Object) -> LabelSelector:
    given = claim["spec"].get("selector")
    try:
        return EVERYTHING if given is None else from_label_selector(given)
    except BadRequest:
        return NOTHING
