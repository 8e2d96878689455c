"""Provider factory of the simulated cloud."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.clock import Clock
from shoal.provision.cloudprovider.overlay import OverlayCloudProvider, OverlayResolver
from shoal.provision.cloudprovider.types import CloudProvider, InstanceType
from shoal.provision.controllers import ProviderFactory
from shoal.provision.management import ManagementResolver
from shoal.provision.simulator.faults import FaultInjector
from shoal.provision.simulator.provider import SimulatorProvider
from shoal.provision.state import ClusterState
from shoal.runtime.manager import Runnable


def new_simulator_factory(
    types: Sequence[InstanceType], *, registration_seconds: float = 0.0, faults: FaultInjector | None = None
) -> ProviderFactory:
    def make(resolver: ManagementResolver, state: ClusterState, clock: Clock) -> tuple[CloudProvider, list[Runnable]]:
        simulator = SimulatorProvider(
            resolver, state, clock, types, registration_seconds=registration_seconds, faults=faults
        )
        return OverlayCloudProvider(simulator, OverlayResolver(state)), [simulator]

    return make
