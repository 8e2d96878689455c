"""Metadata patches of all reconcilers: finalizers, owner references, labels. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.kinds.clusterapi.capi import labels_of

Object = dict[str, Any]


def claim_patch(
    obj: Object, *, finalizer: str = "", owner: Object | None = None, labels: Mapping[str, str] | None = None
) -> Object | None:
    """The patch that adds the missing finalizer, owner and labels. None: nothing is missing."""
    metadata = obj["metadata"]
    patch: Object = {}
    if finalizer and finalizer not in (metadata.get("finalizers") or ()):
        patch["finalizers"] = [*(metadata.get("finalizers") or ()), finalizer]
    references = metadata.get("ownerReferences") or []
    if owner is not None and owner not in references and not _has_other_controller(references, owner):
        others = [reference for reference in references if not _is_same_owner(reference, owner)]
        patch["ownerReferences"] = [*others, owner]
    missing = {key: value for key, value in (labels or {}).items() if labels_of(obj).get(key) != value}
    if missing:
        patch["labels"] = missing
    return {"metadata": patch} if patch else None


def _is_same_owner(reference: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    return (reference.get("kind"), reference.get("name")) == (owner["kind"], owner["name"])


def _has_other_controller(references: Sequence[Mapping[str, Any]], owner: Mapping[str, Any]) -> bool:
    """An object has one controller; an existing other one is not replaced."""
    return bool(owner.get("controller")) and any(
        reference.get("controller") and not _is_same_owner(reference, owner) for reference in references
    )


def release_patch(obj: Object, finalizer: str) -> Object | None:
    """The patch that removes the finalizer. None: it is already removed."""
    finalizers = obj["metadata"].get("finalizers") or []
    if finalizer not in finalizers:
        return None
    return {"metadata": {"finalizers": [each for each in finalizers if each != finalizer]}}
