"""Which changes of an owner of pods are news, and which only its own status written down. Pure."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def is_new(before: Object | None, now: Object | None) -> bool:
    """Whether somebody asked for something: then nobody should wait."""
    if before is None or now is None:
        return True
    return _asked(before["metadata"]) != _asked(now["metadata"])


def _asked(metadata: Object) -> tuple[object, ...]:
    fields = ("uid", "generation", "deletionTimestamp", "labels", "annotations")
    return tuple(metadata.get(field) for field in fields)
