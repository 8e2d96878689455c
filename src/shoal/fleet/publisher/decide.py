"""Decides what to publish about one ManagedCluster, from the object and the messages in the stream. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.fleet.bus.envelope import DELETED, PUT, RELEASED
from shoal.fleet.bus.interface import Mark, message_of
from shoal.kinds import fleet

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Held:
    """The last message of a worker's subject."""

    type: str
    mark: Mark
    sequence: int


@dataclass(frozen=True, slots=True)
class Send:
    worker: str
    type: str
    mark: Mark
    with_object: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    sends: tuple[Send, ...] = ()
    forget: bool = False
    """None of its messages are needed any more."""


def decide(managed: Object | None, held: Mapping[str, Held]) -> Decision:
    """`managed` is None if it does not exist, according to a complete list or a deletion event. `published` is by
    worker.

    A worker that had it gets a release before the next one gets a put. A message with a later revision than the one
    seen here was published by a hub that is further ahead.
    """
    if managed is None:
        last = tuple(Send(worker, RELEASED, each.mark) for worker, each in held.items() if each.type == PUT)
        return Decision(last, forget=bool(held) and not last)
    message, owner = message_of(managed), fleet.assigned_worker(managed)
    mark = message.mark
    sends = [
        Send(worker, RELEASED, mark)
        for worker, each in sorted(held.items())
        if worker != owner and each.type != RELEASED and each.mark.revision <= mark.revision
    ]
    known = held.get(owner)
    if owner and (known is None or known.mark.revision < mark.revision):
        sends.append(Send(owner, DELETED if message.deleting else PUT, mark, with_object=True))
    return Decision(tuple(sends))
