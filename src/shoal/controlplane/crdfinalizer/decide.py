"""Predicates for CustomResourceDefinitions that need cleanup or whose names are not accepted. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.apiextensions.customresourcedefinition import CLEANUP_FINALIZER
from shoal.objects.conditions import condition_is

Object = dict[str, Any]


def needs_cleanup(crd: Object) -> bool:
    metadata = crd["metadata"]
    return "deletionTimestamp" in metadata and CLEANUP_FINALIZER in (metadata.get("finalizers") or ())


def lacks_accepted_names(crd: Object) -> bool:
    return not condition_is(crd, "NamesAccepted")


def needs_reconcile(crd: Object) -> bool:
    return needs_cleanup(crd) or lacks_accepted_names(crd)


def without_finalizer(crd: Object) -> Object:
    metadata = crd["metadata"]
    kept = [finalizer for finalizer in metadata["finalizers"] if finalizer != CLEANUP_FINALIZER]
    return {**crd, "metadata": {**metadata, "finalizers": kept}}
