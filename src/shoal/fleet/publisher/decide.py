"""What the hub has to publish about one ManagedCluster, from the object and from what the bus holds of it. Pure."""

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
    """The last message under the subject of a worker."""

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
    """Nothing of it is needed on the bus any more."""


def decide(managed: Object | None, held: Mapping[str, Held]) -> Decision:
    """`managed` None: there is none, as a complete list or a deletion told. `held` is by worker.

    Who had it and has it no longer is told so before the next one is told to begin. What the bus holds from a later
    revision than is seen here was published by somebody who sees more.
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
