"""Provider factory of the simulated cloud."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.clock import Clock
from shoal.provision.cloudprovider import CloudProvider, InstanceType
from shoal.provision.homes import Homes
from shoal.provision.loops import Runnable, Vendor
from shoal.provision.overlaying import Overlaying, Overlays
from shoal.provision.simulator.faults import Faults
from shoal.provision.simulator.provider import Simulator
from shoal.provision.view import View


def simulated(
    types: Sequence[InstanceType], *, registration_seconds: float = 0.0, faults: Faults | None = None
) -> Vendor:
    def make(homes: Homes, view: View, clock: Clock) -> tuple[CloudProvider, list[Runnable]]:
        found = Simulator(homes, view, clock, types, registration_seconds=registration_seconds, faults=faults)
        return Overlaying(found, Overlays(view)), [found]

    return make
