"""Patches of metadata that every loop makes: finalizers, owners, labels. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.kinds.capi import labels_of

Object = dict[str, Any]


def claimed(
    obj: Object, *, finalizer: str = "", owner: Object | None = None, labels: Mapping[str, str] | None = None
) -> Object | None:
    """The patch that gives an object these; None when it has them."""
    metadata = obj["metadata"]
    patch: Object = {}
    if finalizer and finalizer not in (metadata.get("finalizers") or ()):
        patch["finalizers"] = [*(metadata.get("finalizers") or ()), finalizer]
    references = metadata.get("ownerReferences") or []
    if owner is not None and owner not in references and not _is_anothers(references, owner):
        kept = [reference for reference in references if not _is_same(reference, owner)]
        patch["ownerReferences"] = [*kept, owner]
    missing = {key: value for key, value in (labels or {}).items() if labels_of(obj).get(key) != value}
    if missing:
        patch["labels"] = missing
    return {"metadata": patch} if patch else None


def _is_same(reference: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    return (reference.get("kind"), reference.get("name")) == (owner["kind"], owner["name"])


def _is_anothers(references: Sequence[Mapping[str, Any]], owner: Mapping[str, Any]) -> bool:
    """An object has one controller; a foreign one is not pushed aside."""
    return bool(owner.get("controller")) and any(
        reference.get("controller") and not _is_same(reference, owner) for reference in references
    )


def released(obj: Object, finalizer: str) -> Object | None:
    """The patch that lets an object go; None when this finalizer is off already."""
    finalizers = obj["metadata"].get("finalizers") or []
    if finalizer not in finalizers:
        return None
    return {"metadata": {"finalizers": [kept for kept in finalizers if kept != finalizer]}}
