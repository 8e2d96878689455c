"""StatusEventController: watches kinds and records Events when their status changes.

Objects that already have conditions or a phase when first seen are not reported: their events were recorded before, or
are too old.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.runtime.recorder import QUIET, Recorder, Source
from shoal.runtime.transitions.decide import UNKNOWN, State, Telling, said_of, state_of

Object = dict[str, Any]

UNSERVED_SECONDS = 30.0
"""Between polls of a kind that is not served yet."""
MOST_STATES = 10_000


class Transitions:
    def __init__(self, name: str, client: Client, clock: Clock, told: list[tuple[Kind, Source, Telling]]) -> None:
        self.name = name
        self._recorder = Recorder(lambda _: client, clock, QUIET)
        self._alike: dict[State, State] = {}
        """Interned snapshots: most objects share one of few states."""
        self._reflectors = []
        for kind, source, telling in told:
            states: dict[Key, State] = {}
            seen = partial(self._seen, source, telling, states)
            self._reflectors.append(Reflector(client, kind, clock, seen, unserved=UNSERVED_SECONDS, shared=True))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    def _seen(self, source: Source, telling: Telling, states: dict[Key, State], key: Key, obj: Object | None) -> None:
        before = states.pop(key, None)
        if obj is None:
            return
        now = states[key] = self._shared(state_of(obj, telling))
        if before is now:
            return
        if before is None:
            # A new object has an empty status; one with conditions or a phase existed before.
            before = now if now.conditions or now.phase else UNKNOWN
        for said in said_of(before, now, telling):
            self._recorder.record(source, "", obj, said.type, said.reason, said.message)

    def _shared(self, state: State) -> State:
        if len(self._alike) > MOST_STATES:
            self._alike.clear()
        return self._alike.setdefault(state, state)
