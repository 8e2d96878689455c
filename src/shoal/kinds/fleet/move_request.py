"""The request to move a ManagedCluster: annotations that anybody who may change it can set. Pure.

Each of them is satisfied by where the ManagedCluster is, so a request that is read twice moves nothing twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.kinds.fleet.infrav1 import assigned_worker

Object = dict[str, Any]

MOVE_FROM_ANNOTATION = "shoal.dev/move-from"
"""The Worker that it must leave, for any other that fits."""
MOVE_TO_ANNOTATION = "shoal.dev/move-to"
"""The Worker that it must be on."""
MOVE_ANNOTATIONS = (MOVE_FROM_ANNOTATION, MOVE_TO_ANNOTATION)


class MoveRequest(NamedTuple):
    is_made: bool = False
    """It has one of the annotations."""
    is_due: bool = False
    """It is not where the request wants it."""
    to: str = ""
    """Empty: any Worker that fits."""


def move_request(managed: Object) -> MoveRequest:
    annotations, worker = managed["metadata"].get("annotations") or {}, assigned_worker(managed)
    leave, to = (str(annotations.get(name) or "") for name in MOVE_ANNOTATIONS)
    is_due = bool(worker) and ((bool(to) and to != worker) or leave == worker)
    return MoveRequest(any(name in annotations for name in MOVE_ANNOTATIONS), is_due, to)


def move_annotations(managed: Object, to: str) -> dict[str, str | None]:
    """Returns the annotations that request a move, for a merge patch."""
    return {MOVE_FROM_ANNOTATION: None if to else assigned_worker(managed), MOVE_TO_ANNOTATION: to or None}


def cleared_annotations() -> dict[str, None]:
    return dict.fromkeys(MOVE_ANNOTATIONS)
