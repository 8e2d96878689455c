"""Decides whether a hosted cluster is replicated, frozen or thawed, and builds the Secrets of its log. Pure."""

from __future__ import annotations

import base64
from enum import Enum
from typing import Any

from shoal.fleet.bus.interface import BusMessage
from shoal.fleet.worker.fence.decide import FROZEN_ANNOTATION, is_leaving, is_movable
from shoal.fleet.worker.subscriber.decide import version_of
from shoal.kinds.fleet import cluster_log, infrav1, migration

Object = dict[str, Any]

RESTORED_LOG_ANNOTATION = "shoal.dev/restored-log"
"""Annotation of a restored copy: epoch, first and last segment of the log it was restored from, which may be
deleted.
"""
NOT_MOVABLE = "a cluster whose machines are not simulated cannot be moved"


class ReplicationAction(Enum):
    NOTHING = "nothing"
    FREEZE = "freeze"
    THAW = "thaw"
    SHIP = "ship"
    REFUSE = "refuse"
    END = "end"


def next_action(
    message: BusMessage | None, copy: Object | None, worker: str, unsupported_reason: str
) -> ReplicationAction:
    """`unsupported_reason`: why this worker cannot promise to stop writing by itself when it is lost."""
    if message is None or copy is None:
        return ReplicationAction.NOTHING
    version = version_of(copy)
    if (version.uid, version.epoch) != (message.version.uid, message.version.epoch):
        return ReplicationAction.NOTHING  # It belongs to another worker, or has to be restored again.
    is_migrating_away, is_frozen = (
        is_leaving(message.managed, worker),
        FROZEN_ANNOTATION in (copy["metadata"].get("annotations") or {}),
    )
    if is_frozen and not is_migrating_away:
        return ReplicationAction.THAW  # Also if it is being deleted: that is a write like any other.
    if message.deleting or infrav1.is_deleting(copy):
        return ReplicationAction.NOTHING
    if not is_migrating_away and not migration.migrates_on_worker_loss(copy):
        return ReplicationAction.END
    if not is_movable(copy) or (unsupported_reason and not is_migrating_away):
        return ReplicationAction.REFUSE
    return ReplicationAction.FREEZE if is_migrating_away and not is_frozen else ReplicationAction.SHIP


def segment_secret(log: cluster_log.LogKey, number: int, segment: bytes) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": log.secret_name(number),
            "namespace": cluster_log.NAMESPACE,
            "labels": {cluster_log.SECRET_TYPE: log.uid},
        },
        "type": cluster_log.SECRET_TYPE,
        "data": {cluster_log.SECRET_KEY: base64.b64encode(segment).decode()},
    }


def segment_content(segment_obj: Object) -> bytes:
    """Returns the content of a segment Secret."""
    return base64.b64decode((segment_obj.get("data") or {}).get(cluster_log.SECRET_KEY) or "")


def restored_log_range(copy: Object) -> tuple[int, int, int] | None:
    """Returns epoch, first and last segment."""
    text = str((copy["metadata"].get("annotations") or {}).get(RESTORED_LOG_ANNOTATION) or "")
    numbers = text.split("/")
    if len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
        return None
    return int(numbers[0]), int(numbers[1]), int(numbers[2])
