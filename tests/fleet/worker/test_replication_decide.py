"""Decides whether a hosted cluster is replicated, frozen or thawed."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fleet.bus.interface import BusMessage, MessageVersion
from shoal.fleet.worker.fence.decide import FROZEN_ANNOTATION
from shoal.fleet.worker.handover.controller import HANDED_OVER_ANNOTATION, is_handed_over
from shoal.fleet.worker.replication.decide import (
    RESTORED_LOG_ANNOTATION,
    ReplicationAction,
    next_action,
    restored_log_range,
    segment_content,
    segment_secret,
)
from shoal.fleet.worker.restore.decide import is_obsolete_copy
from shoal.fleet.worker.subscriber.decide import EPOCH_ANNOTATION, UID_ANNOTATION, decide, needs_restore
from shoal.fleet.worker.subscriber.decide import CopyAction as Subscribed
from shoal.kinds.fleet import cluster_log

Object = dict[str, Any]

AWAY = {"from": "w1", "to": "w2", "reason": "Drain"}
FROM = {"epoch": 1, "revision": 9}


def message(epoch: int = 2, *, deleting: bool = False, uid: str = "u", **status: Any) -> BusMessage:
    metadata = {"name": "east", "namespace": "default", "uid": uid}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    managed = {"metadata": metadata, "spec": {}, "status": {"assignedWorker": "w1", "epoch": epoch, **status}}
    return BusMessage(("default", "east"), MessageVersion(uid, 1, epoch, 7), deleting, managed)


def copy(lost: str = "Stay", infrastructure: str = "embedded", epoch: int = 2, **notes: str) -> Object:
    annotations = {
        UID_ANNOTATION: "u",
        EPOCH_ANNOTATION: str(epoch),
        **{f"shoal.dev/{key}": value for key, value in notes.items()},
    }
    metadata = {"name": "east", "namespace": "default", "annotations": annotations, "resourceVersion": "3"}
    return {"metadata": metadata, "spec": {"onWorkerLost": lost, "infrastructure": infrastructure}}


GOING = copy("Move")
GOING["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("told", "here", "refuses", "expected"),
    [
        (None, copy("Move"), "", ReplicationAction.NOTHING),
        (message(), None, "", ReplicationAction.NOTHING),
        (message(), copy("Move"), "", ReplicationAction.SHIP),
        (message(), copy("Move"), "etcd", ReplicationAction.REFUSE),
        (message(), copy("Move", "kind"), "", ReplicationAction.REFUSE),
        (message(), copy(), "", ReplicationAction.END),
        (message(move=AWAY), copy(), "", ReplicationAction.FREEZE),
        (message(move=AWAY), copy(), "etcd", ReplicationAction.FREEZE),
        (message(move=AWAY), copy(infrastructure="kind"), "", ReplicationAction.REFUSE),
        (message(move=AWAY), copy(frozen="x"), "", ReplicationAction.SHIP),
        (message(move={**AWAY, "from": "w2"}), copy(), "", ReplicationAction.END),
        (message(), copy(frozen="x"), "", ReplicationAction.THAW),
        (message(deleting=True, move=AWAY), copy(frozen="x"), "", ReplicationAction.THAW),
        (message(deleting=True), copy("Move"), "", ReplicationAction.NOTHING),
        (message(), GOING, "", ReplicationAction.NOTHING),
        (message(3), copy("Move"), "", ReplicationAction.NOTHING),
        (message(uid="v"), copy("Move"), "", ReplicationAction.NOTHING),
    ],
)
def test_what_to_do(told: BusMessage | None, here: Object | None, refuses: str, expected: ReplicationAction) -> None:
    assert next_action(told, here, "w1", refuses) is expected


@pytest.mark.parametrize(
    ("told", "here", "restored", "left_over", "subscribed"),
    [
        (message(), None, False, False, Subscribed.CREATE),
        (message(restoreFrom=FROM), None, True, False, Subscribed.NOTHING),
        (message(restoreFrom=FROM), copy(), False, False, Subscribed.UPDATE),
        (message(restoreFrom=FROM), copy(epoch=1), True, False, Subscribed.NOTHING),
        (message(), copy(epoch=1), False, False, Subscribed.UPDATE),
        (message(deleting=True, restoreFrom=FROM), None, False, False, Subscribed.ACKNOWLEDGE),
        (message(deleting=True, restoreFrom=FROM), copy(epoch=1), True, True, Subscribed.NOTHING),
        (message(deleting=True, restoreFrom=FROM), copy(), False, False, Subscribed.DELETE),
        (message(uid="v", restoreFrom=FROM), copy(epoch=1), False, False, Subscribed.DELETE),
    ],
)
def test_what_is_restored_is_not_subscribed_to(
    told: BusMessage, here: Object | None, restored: bool, left_over: bool, subscribed: Subscribed
) -> None:
    assert needs_restore(told, here) is restored
    assert (here is not None and is_obsolete_copy(told, here)) is left_over
    assert decide(told, here, "hub").action is subscribed


def test_who_has_it_again_has_not_left() -> None:
    assert (HANDED_OVER_ANNOTATION, FROZEN_ANNOTATION) == ("shoal.dev/left", "shoal.dev/frozen")
    assert is_handed_over(copy(left="2"))
    assert not is_handed_over(copy(epoch=3, left="2"))
    assert not is_handed_over(copy())


def test_a_segment_as_a_secret() -> None:
    log = cluster_log.LogKey("default", "east", "11111111-1111-1111-1111-111111111111", 2)
    made = segment_secret(log, 5, b"\x00bytes")
    assert made["metadata"]["namespace"] == "shoal-logs"
    assert cluster_log.parse_segment("shoal-logs", made["metadata"]["name"]) == (log, 5)
    assert cluster_log.belongs_to(made, log)
    assert not cluster_log.belongs_to(made, log._replace(uid="other"))
    assert not cluster_log.belongs_to({**made, "type": "Opaque"}, log)
    assert segment_content(made) == b"\x00bytes"


def test_where_it_was_restored_from() -> None:
    assert restored_log_range(copy()) is None
    for text, found in (("1/4/6", (1, 4, 6)), ("1/4", None), ("a/b/c", None)):
        noted = copy()
        noted["metadata"]["annotations"][RESTORED_LOG_ANNOTATION] = text
        assert restored_log_range(noted) == found
