"""Dependencies of the worker's migration controllers."""

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
    """For the hub's root, as this worker."""
    own: Client
    clock: Clock
    bus: Bus
    root: OwnRoot
    registration: Registration
    worker: str
