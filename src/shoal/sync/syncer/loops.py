"""Creates the syncer controllers of the hub's process. They are the same in every mode, except where the syncers
run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.runtime.recorder import Recorder
from shoal.sync.connecting import Connect
from shoal.sync.reporting import Reporter
from shoal.sync.syncer.controller import HubSide, Syncers
from shoal.sync.syncer.hub import Hub
from shoal.sync.syncer.hubkinds import HubKinds
from shoal.sync.syncer.hubwrites import HubWrites
from shoal.sync.syncer.keeping import Keeping


class Runnable(Protocol):
    name: str

    async def run(self) -> None: ...


class Events:
    """The event recorder as a runnable."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self.name = "syncer-events"
        self.recorder = Recorder(lambda cluster: client, clock)
        self.run = self.recorder.run


def syncer_loops(
    client: Client, clock: Clock, connect: Connect, resources: Sequence[str], reporter: Reporter, mode: str
) -> list[Runnable]:
    """`mode` is the sync mode of workload Clusters that set none."""
    events, hub = Events(client, clock), Hub(client, clock)
    writes = HubWrites(client, events.recorder)
    side = HubSide(hub, HubKinds(client, clock, hub, list(resources)), Keeping(client, clock, hub, writes), writes)
    return [side.kinds, side.keeping.loop, events, Syncers(client, clock, connect, side, reporter, mode)]
