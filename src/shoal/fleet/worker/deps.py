"""Dependencies of the worker's migration controllers."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.fleet.bus.interface import Bus
from shoal.fleet.worker.informers import WorkerInformers
from shoal.fleet.worker.registration.controller import WorkerRegistration


@dataclass(frozen=True, slots=True)
class WorkerDeps:
    hub: Client
    """For the hub's root, as this worker."""
    own: Client
    clock: Clock
    bus: Bus
    informers: WorkerInformers
    registration: WorkerRegistration
    worker: str
