"""Controller owner references (`controller: true`): reading, building, adopting and releasing. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.objects.errors import BadRequest
from shoal.objects.selectors import SELECT_NOTHING, LabelSelector, from_label_selector

Object = dict[str, Any]


def controller_of(obj: Object) -> Object | None:
    """Returns the owner reference of the managing controller."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Object = reference
            return found
    return None


def controller_name(obj: Object | None, group: str, kind: str) -> str:
    """Returns the name of the controller if it is of that kind, else an empty string."""
    reference = controller_of(obj) if obj is not None else None
    if reference is None or reference.get("kind") != kind:
        return ""
    return str(reference["name"]) if str(reference.get("apiVersion", "")).rpartition("/")[0] == group else ""


def is_controlled_by(obj: Object, owner: Object) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference.get("uid") == owner["metadata"]["uid"]


def controller_reference(owner: Object, api_version: str, kind: str) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def selector_of(owner: Object) -> LabelSelector:
    """Returns `spec.selector`. An invalid selector selects nothing."""
    try:
        return from_label_selector((owner.get("spec") or {}).get("selector"))
    except BadRequest:
        return SELECT_NOTHING


@dataclass(frozen=True, slots=True)
class OwnershipClaims:
    owned: list[Object]
    adopt: list[Object]
    """Orphans that match the owner's selector."""
    release: list[Object]
    """Owned objects that no longer match the owner's selector."""


def claim_objects(
    owner: Object, owned: Iterable[Object], orphans: Iterable[Object], selector: LabelSelector | None = None
) -> OwnershipClaims:
    """Sorts objects into owned, to adopt and to release. An owner that is being deleted adopts and releases nothing. An
    object that is being deleted is not adopted. `selector` is for owners whose own selector is not a LabelSelector.
    """
    selector = selector_of(owner) if selector is None else selector
    alive = "deletionTimestamp" not in owner["metadata"]
    claims = OwnershipClaims([], [], [])
    for obj in owned:
        if selector.matches(obj["metadata"].get("labels")):
            claims.owned.append(obj)
        elif alive:
            claims.release.append(obj)
    if alive:
        for obj in orphans:
            if "deletionTimestamp" not in obj["metadata"] and selector.matches(obj["metadata"].get("labels")):
                claims.adopt.append(obj)
    return claims


def adoption_patch(obj: Object, reference: Object) -> Object:
    """Returns the merge patch that adds the controller reference. It carries the resourceVersion, so a concurrent
    adoption wins.
    """
    return _owner_references_patch(obj, [*(obj["metadata"].get("ownerReferences") or ()), reference])


def release_patch(obj: Object, owner: Object) -> Object:
    """Returns the merge patch that removes the owner's reference."""
    references = obj["metadata"].get("ownerReferences") or ()
    return _owner_references_patch(obj, [one for one in references if one.get("uid") != owner["metadata"]["uid"]])


def _owner_references_patch(obj: Object, references: list[Object]) -> Object:
    metadata = obj["metadata"]
    return {"metadata": {"resourceVersion": metadata["resourceVersion"], "ownerReferences": references or None}}
