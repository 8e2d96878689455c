"""Decides whether a hosted cluster is replicated, frozen or thawed."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fleet.bus.interface import Mark, Message
from shoal.fleet.worker.fence.decide import FROZEN
from shoal.fleet.worker.restoring.decide import is_left_over
from shoal.fleet.worker.shipping.decide import RESTORED_LOG, Step, restored_log, secret, segment, step
from shoal.fleet.worker.subscriber.decide import EPOCH, UID, decide, is_to_be_restored
from shoal.fleet.worker.subscriber.decide import Step as Subscribed
from shoal.fleet.worker.yielding.decide import LEFT, has_left
from shoal.kinds import moving

Object = dict[str, Any]

AWAY = {"from": "w1", "to": "w2", "reason": "Drain"}
FROM = {"epoch": 1, "revision": 9}


def message(epoch: int = 2, *, deleting: bool = False, uid: str = "u", **status: Any) -> Message:
    metadata = {"name": "east", "namespace": "default", "uid": uid}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    managed = {"metadata": metadata, "spec": {}, "status": {"assignedWorker": "w1", "epoch": epoch, **status}}
    return Message(("default", "east"), Mark(uid, 1, epoch, 7), deleting, managed)


def copy(lost: str = "Stay", infrastructure: str = "embedded", epoch: int = 2, **notes: str) -> Object:
    annotations = {UID: "u", EPOCH: str(epoch), **{f"shoal.dev/{key}": value for key, value in notes.items()}}
    metadata = {"name": "east", "namespace": "default", "annotations": annotations, "resourceVersion": "3"}
    return {"metadata": metadata, "spec": {"onWorkerLost": lost, "infrastructure": infrastructure}}


GOING = copy("Move")
GOING["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("told", "here", "refuses", "expected"),
    [
        (None, copy("Move"), "", Step.NOTHING),
        (message(), None, "", Step.NOTHING),
        (message(), copy("Move"), "", Step.SHIP),
        (message(), copy("Move"), "etcd", Step.REFUSE),
        (message(), copy("Move", "kind"), "", Step.REFUSE),
        (message(), copy(), "", Step.END),
        (message(move=AWAY), copy(), "", Step.FREEZE),
        (message(move=AWAY), copy(), "etcd", Step.FREEZE),
        (message(move=AWAY), copy(infrastructure="kind"), "", Step.REFUSE),
        (message(move=AWAY), copy(frozen="x"), "", Step.SHIP),
        (message(move={**AWAY, "from": "w2"}), copy(), "", Step.END),
        (message(), copy(frozen="x"), "", Step.THAW),
        (message(deleting=True, move=AWAY), copy(frozen="x"), "", Step.THAW),
        (message(deleting=True), copy("Move"), "", Step.NOTHING),
        (message(), GOING, "", Step.NOTHING),
        (message(3), copy("Move"), "", Step.NOTHING),
        (message(uid="v"), copy("Move"), "", Step.NOTHING),
    ],
)
def test_what_to_do(told: Message | None, here: Object | None, refuses: str, expected: Step) -> None:
    assert step(told, here, "w1", refuses) is expected


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
    told: Message, here: Object | None, restored: bool, left_over: bool, subscribed: Subscribed
) -> None:
    assert is_to_be_restored(told, here) is restored
    assert (here is not None and is_left_over(told, here)) is left_over
    assert decide(told, here, "hub").step is subscribed


def test_who_has_it_again_has_not_left() -> None:
    assert (LEFT, FROZEN) == ("shoal.dev/left", "shoal.dev/frozen")
    assert has_left(copy(left="2"))
    assert not has_left(copy(epoch=3, left="2"))
    assert not has_left(copy())


def test_a_segment_as_a_secret() -> None:
    made = secret(message().managed, 2, 5, b"\x00bytes")
    assert made["metadata"]["name"] == "east-log-2-5"
    assert moving.is_log_of(made, "east")
    assert segment(made) == b"\x00bytes"


def test_where_it_was_restored_from() -> None:
    assert restored_log(copy()) is None
    for text, found in (("1/4/6", (1, 4, 6)), ("1/4", None), ("a/b/c", None)):
        noted = copy()
        noted["metadata"]["annotations"][RESTORED_LOG] = text
        assert restored_log(noted) == found
