"""StatusEventController: watches kinds and records Events when their status changes.

Objects that already have conditions or a phase when first seen are not reported: their events were recorded before, or
are too old.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.runtime.event_recorder import LOW_RATE, EventRecorder, EventSource
from shoal.runtime.status_events.decide import EMPTY_STATUS, EventRule, StatusSnapshot, events_between, status_snapshot

Object = dict[str, Any]

POLL_UNTIL_SERVED_SECONDS = 30.0
"""Between polls of a kind that is not served yet."""
MAX_INTERNED = 10_000


class StatusEventController:
    def __init__(
        self, name: str, client: Client, clock: Clock, rules: list[tuple[GroupVersionResource, EventSource, EventRule]]
    ) -> None:
        self.name = name
        self._recorder = EventRecorder(lambda _: client, clock, LOW_RATE)
        self._interned: dict[StatusSnapshot, StatusSnapshot] = {}
        """Interned snapshots: most objects share one of few states."""
        self._reflectors = []
        for gvr, source, rule in rules:
            states: dict[Key, StatusSnapshot] = {}
            handler = partial(self._handle_object, source, rule, states)
            self._reflectors.append(
                Reflector(client, gvr, clock, handler, poll_until_served=POLL_UNTIL_SERVED_SECONDS, shared=True)
            )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    def _handle_object(
        self, source: EventSource, rule: EventRule, states: dict[Key, StatusSnapshot], key: Key, obj: Object | None
    ) -> None:
        old = states.pop(key, None)
        if obj is None:
            return
        new = states[key] = self._intern(status_snapshot(obj, rule))
        if old is new:
            return
        if old is None:
            # A new object has an empty status; one with conditions or a phase existed before.
            old = new if new.conditions or new.phase else EMPTY_STATUS
        for event in events_between(old, new, rule):
            self._recorder.record(source, "", obj, event.type, event.reason, event.message)

    def _intern(self, snapshot: StatusSnapshot) -> StatusSnapshot:
        if len(self._interned) > MAX_INTERNED:
            self._interned.clear()
        return self._interned.setdefault(snapshot, snapshot)
