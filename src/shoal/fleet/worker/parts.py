"""What the loops of a worker that move clusters have of its others."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.fleet.bus.interface import Bus
from shoal.fleet.worker.own import OwnRoot
from shoal.fleet.worker.registration.controller import Registration


@dataclass(frozen=True, slots=True)
class Parts:
    hub: Client
    """Of the hub's root, as this worker."""
    own: Client
    clock: Clock
    bus: Bus
    root: OwnRoot
    registration: Registration
    worker: str
