"""Creates the controllers of the NodeClaim and node lifecycle."""

from __future__ import annotations

from shoal.clock import Clock
from shoal.provision.cloudprovider.metrics import MeteredCloudProvider
from shoal.provision.cloudprovider.types import CloudProvider
from shoal.provision.lifecycle.controller import LifecycleReconciler
from shoal.provision.lifecycle.garbagecollection.controller import GarbageCollectionReconciler
from shoal.provision.lifecycle.nodeclaim_index import NodeClaimIndex
from shoal.provision.lifecycle.nodehealth.controller import NodeHealthReconciler
from shoal.provision.lifecycle.registrationhealth.controller import RegistrationHealthReconciler
from shoal.provision.lifecycle.termination.controller import TerminationReconciler
from shoal.provision.management import ManagementResolver
from shoal.provision.state import ClusterState
from shoal.runtime.controller import Controller
from shoal.runtime.event_recorder import EventRecorder


def new_lifecycle_controllers(
    resolver: ManagementResolver,
    state: ClusterState,
    provider: CloudProvider,
    recorder: EventRecorder,
    clock: Clock,
    *,
    repair: bool = False,
) -> list[Controller[tuple[str, str]] | Controller[str]]:
    def meter(controller: str) -> CloudProvider:
        return MeteredCloudProvider(provider, controller, clock)

    index = NodeClaimIndex(state)
    registration_health = RegistrationHealthReconciler(resolver, state, clock)
    controllers: list[Controller[tuple[str, str]] | Controller[str]] = [
        registration_health.controller,
        LifecycleReconciler(
            resolver, state, index, meter("nodeclaim.lifecycle"), registration_health, recorder, clock
        ).controller,
        TerminationReconciler(resolver, state, index, meter("node.termination"), recorder, clock).controller,
        GarbageCollectionReconciler(resolver, state, index, meter("nodeclaim.garbagecollection"), clock).controller,
    ]
    if repair:
        controllers.append(NodeHealthReconciler(resolver, state, index, provider, recorder, clock).controller)
    return controllers
