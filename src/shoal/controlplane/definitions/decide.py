"""Predicates for CustomResourceDefinitions that need cleanup or whose names are not accepted. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.apiextensions import CLEANUP_FINALIZER
from shoal.objects.conditions import condition_is

Object = dict[str, Any]


def waits_for_cleanup(crd: Object) -> bool:
    metadata = crd["metadata"]
    return "deletionTimestamp" in metadata and CLEANUP_FINALIZER in (metadata.get("finalizers") or ())


def needs_another_look(crd: Object) -> bool:
    return not condition_is(crd, "NamesAccepted")


def is_unfinished(crd: Object) -> bool:
    return waits_for_cleanup(crd) or needs_another_look(crd)


def without_finalizer(crd: Object) -> Object:
    metadata = crd["metadata"]
    kept = [finalizer for finalizer in metadata["finalizers"] if finalizer != CLEANUP_FINALIZER]
    return {**crd, "metadata": {**metadata, "finalizers": kept}}
