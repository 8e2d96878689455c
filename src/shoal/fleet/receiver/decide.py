"""Decides what a worker's report changes at the hub. Pure.

The API authorizes the write, which impersonates the worker. This only checks which state of the object the report is
about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.fleet.bus.envelope import GONE, STATUS, Event
from shoal.fleet.bus.interface import message_of
from shoal.kinds import fleet

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    write: Object | None = None
    subresource: str = ""
    dropped: str = ""
    """Why it changes nothing."""


def verdict(event: Event, managed: Object | None) -> Verdict:
    if managed is None:
        return Verdict(dropped="there is no such ManagedCluster")
    if fleet.assigned_worker(managed) != event.worker:
        return Verdict(dropped="it is not assigned to this worker")
    mark = message_of(managed).mark
    if (event.mark.uid, event.mark.epoch) != (mark.uid, mark.epoch):
        return Verdict(dropped="it is about an earlier one, or an earlier time with this worker")
    if event.type == GONE:
        if not fleet.is_deleting(managed):
            return Verdict(dropped="it is not being deleted")
        return Verdict(fleet.without_finalizer(managed)) if fleet.has_finalizer(managed) else Verdict()
    if event.type != STATUS:
        return Verdict(dropped=f"a worker does not say {event.type}")
    if event.mark.revision != mark.revision:
        # The worker receives the newer version and reports on that, as after a Conflict of the API.
        return Verdict(dropped=f"it answers revision {event.mark.revision}, and there is {mark.revision} now")
    if event.data == fleet.status_of(managed):
        return Verdict()
    return Verdict({**managed, "status": event.data}, "status")
