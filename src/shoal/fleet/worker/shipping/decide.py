"""Decides whether a hosted cluster is replicated, frozen or thawed, and builds the Secrets of its log. Pure."""

from __future__ import annotations

import base64
from enum import Enum
from typing import Any

from shoal.fleet.bus.interface import Message
from shoal.fleet.worker.fence.decide import FROZEN, is_leaving, is_movable
from shoal.fleet.worker.subscriber.decide import mark_of
from shoal.kinds import fleet, moving

Object = dict[str, Any]

RESTORED_LOG = "shoal.dev/restored-log"
"""Annotation of a restored copy: epoch, first and last segment of the log it was restored from, which may be
deleted.
"""
NOT_SIMULATED = "a cluster whose machines are not simulated cannot be moved"


class Step(Enum):
    NOTHING = "nothing"
    FREEZE = "freeze"
    THAW = "thaw"
    SHIP = "ship"
    REFUSE = "refuse"
    END = "end"


def step(message: Message | None, copy: Object | None, worker: str, refuses: str) -> Step:
    """`unsupported_reason`: why this worker cannot promise to stop writing by itself when it is lost."""
    if message is None or copy is None:
        return Step.NOTHING
    mark = mark_of(copy)
    if (mark.uid, mark.epoch) != (message.mark.uid, message.mark.epoch):
        return Step.NOTHING  # It belongs to another worker, or has to be restored again.
    leaving, frozen = is_leaving(message.managed, worker), FROZEN in (copy["metadata"].get("annotations") or {})
    if frozen and not leaving:
        return Step.THAW  # Also if it is being deleted: that is a write like any other.
    if message.deleting or fleet.is_deleting(copy):
        return Step.NOTHING
    if not leaving and not moving.moves_when_lost(copy):
        return Step.END
    if not is_movable(copy) or (refuses and not leaving):
        return Step.REFUSE
    return Step.FREEZE if leaving and not frozen else Step.SHIP


def secret(managed: Object, epoch: int, number: int, segment: bytes) -> Object:
    metadata = managed["metadata"]
    owner = {
        "apiVersion": fleet.API_VERSION,
        "kind": fleet.MANAGED_CLUSTER,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": moving.log_name(metadata["name"], epoch, number),
            "namespace": metadata["namespace"],
            "labels": {moving.LOG_TYPE: metadata["name"]},
            "ownerReferences": [owner],
        },
        "type": moving.LOG_TYPE,
        "data": {moving.LOG_KEY: base64.b64encode(segment).decode()},
    }


def segment(found: Object) -> bytes:
    """Returns the content of a segment Secret."""
    return base64.b64decode((found.get("data") or {}).get(moving.LOG_KEY) or "")


def restored_log(copy: Object) -> tuple[int, int, int] | None:
    """Returns epoch, first and last segment."""
    said = str((copy["metadata"].get("annotations") or {}).get(RESTORED_LOG) or "")
    numbers = said.split("/")
    if len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
        return None
    return int(numbers[0]), int(numbers[1]), int(numbers[2])
