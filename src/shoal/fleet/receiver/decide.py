"""Decides what a worker's report changes at the hub. Pure.

The API authorizes the write, which impersonates the worker. This only checks which state of the object the report is
about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.fleet.bus.cloudevents import DELETED_ACK, STATUS, BusEvent
from shoal.fleet.bus.interface import message_of
from shoal.kinds.fleet import infrav1

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReportDecision:
    write: Object | None = None
    subresource: str = ""
    drop_reason: str = ""
    """Why it changes nothing."""


def decide_report(event: BusEvent, managed: Object | None) -> ReportDecision:
    if managed is None:
        return ReportDecision(drop_reason="there is no such ManagedCluster")
    if infrav1.assigned_worker(managed) != event.worker:
        return ReportDecision(drop_reason="it is not assigned to this worker")
    version = message_of(managed).version
    if (event.version.uid, event.version.epoch) != (version.uid, version.epoch):
        return ReportDecision(drop_reason="it is about an earlier one, or an earlier time with this worker")
    if event.type == DELETED_ACK:
        if not infrav1.is_deleting(managed):
            return ReportDecision(drop_reason="it is not being deleted")
        return (
            ReportDecision(infrav1.without_finalizer(managed)) if infrav1.has_finalizer(managed) else ReportDecision()
        )
    if event.type != STATUS:
        return ReportDecision(drop_reason=f"a worker does not say {event.type}")
    if event.version.revision != version.revision:
        # The worker receives the newer version and reports on that, as after a Conflict of the API.
        return ReportDecision(
            drop_reason=f"it answers revision {event.version.revision}, and there is {version.revision} now"
        )
    if event.data == infrav1.status_of(managed):
        return ReportDecision()
    return ReportDecision({**managed, "status": event.data}, "status")
