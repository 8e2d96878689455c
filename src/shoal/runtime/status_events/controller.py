"""StatusEventController: watches kinds and records Events when their status changes.

Objects that already have conditions or a phase when first seen are not reported: their events were recorded before, or
are too old.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.runtime.event_recorder import LOW_RATE, EventRecorder, EventSource
from shoal.runtime.informer import Informer
from shoal.runtime.status_events.decide import EMPTY_STATUS, EventRule, events_between, status_snapshot

Object = dict[str, Any]

POLL_UNTIL_SERVED_SECONDS = 30.0
"""Between polls of a kind that is not served yet."""


class StatusEventController:
    def __init__(
        self, name: str, client: Client, clock: Clock, rules: list[tuple[GroupVersionResource, EventSource, EventRule]]
    ) -> None:
        self.name = name
        self._recorder = EventRecorder(lambda _: client, clock, LOW_RATE)
        self._informers: list[Informer] = []
        for gvr, source, rule in rules:
            informer = Informer(client, gvr, clock, poll_until_served=POLL_UNTIL_SERVED_SECONDS)
            informer.add_event_handler(partial(self._handle_object, source, rule))
            self._informers.append(informer)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            for informer in self._informers:
                group.create_task(informer.run())

    def _handle_object(
        self, source: EventSource, rule: EventRule, key: Key, old: Object | None, new: Object | None
    ) -> None:
        if new is None:
            return
        after = status_snapshot(new, rule)
        if old is not None:
            before = status_snapshot(old, rule)
        else:
            # A new object has an empty status; one with conditions or a phase existed before.
            before = after if after.conditions or after.phase else EMPTY_STATUS
        for event in events_between(before, after, rule):
            self._recorder.record(source, "", new, event.type, event.reason, event.message)
