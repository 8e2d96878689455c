"""Creates all controllers of the provisioner, for every hosted cluster of a store or for one cluster of any server."""

from __future__ import annotations

from collections.abc import Callable

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.provision.cloudprovider.metrics import MeteredCloudProvider
from shoal.provision.cloudprovider.overlay import OverlayCloudProvider, OverlayResolver
from shoal.provision.cloudprovider.types import CloudProvider
from shoal.provision.clusterapi.machine_assignment import MachineAssigner
from shoal.provision.clusterapi.provider import ClusterAPIProvider
from shoal.provision.disruption.change_detector import ChangeDetector
from shoal.provision.disruption.controller import DisruptionReconciler
from shoal.provision.disruption.events import DisruptionRecorder
from shoal.provision.disruption.model import DisruptionSettings
from shoal.provision.disruption.nodeclaim_conditions import NodeClaimConditionReconciler
from shoal.provision.disruption.queue import CommandExecutor
from shoal.provision.disruption.snapshot import Provisioner, SnapshotBuilder
from shoal.provision.lifecycle.controller import LifecycleReconciler
from shoal.provision.lifecycle.garbagecollection.controller import GarbageCollectionReconciler
from shoal.provision.lifecycle.nodehealth.controller import NodeHealthReconciler
from shoal.provision.lifecycle.registrationhealth.controller import RegistrationHealthReconciler
from shoal.provision.lifecycle.termination.controller import TerminationReconciler
from shoal.provision.management import ManagementResolver, StoreResolver
from shoal.provision.nodepools.controller import NodeClassReconciler, NodeOverlayReconciler, NodePoolReconciler
from shoal.provision.provisioning.controller import ProvisioningReconciler
from shoal.provision.settings import DEFAULT_SETTINGS, ProvisionerSettings
from shoal.provision.solver.process import SolverProcess
from shoal.provision.state import ClusterState
from shoal.provision.state_metrics import StateMetrics
from shoal.runtime.controller import Controller
from shoal.runtime.event_recorder import EventRecorder
from shoal.runtime.manager import Runnable


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

    registration_health = RegistrationHealthReconciler(resolver, state, clock)
    controllers: list[Controller[tuple[str, str]] | Controller[str]] = [
        registration_health.controller,
        LifecycleReconciler(
            resolver, state, meter("nodeclaim.lifecycle"), registration_health, recorder, clock
        ).controller,
        TerminationReconciler(resolver, state, meter("node.termination"), recorder, clock).controller,
        GarbageCollectionReconciler(resolver, state, meter("nodeclaim.garbagecollection"), clock).controller,
    ]
    if repair:
        controllers.append(NodeHealthReconciler(resolver, state, provider, recorder, clock).controller)
    return controllers


def new_disruption_controllers(
    resolver: ManagementResolver,
    state: ClusterState,
    provider: CloudProvider,
    provisioner: Provisioner,
    recorder: EventRecorder,
    clock: Clock,
    settings: ProvisionerSettings,
) -> list[Runnable]:
    solver = SolverProcess()  # its own process: provisioning does not wait for disruption
    conditions = NodeClaimConditionReconciler(resolver, state, provider, clock)
    disruption = DisruptionReconciler(
        state,
        SnapshotBuilder(state, conditions, provisioner),
        CommandExecutor(resolver, state, recorder, clock, provisioner.nominate),
        DisruptionRecorder(recorder),
        solver,
        clock,
        DisruptionSettings(
            settings.planner,
            settings.spot_to_spot_consolidation,
            validation_seconds=settings.validation_seconds,
        ),
    )
    ChangeDetector(state, provider).add_handler(disruption.on_change)
    return [solver, conditions.controller, disruption.controller, disruption.evaluation_controller]


ProviderFactory = Callable[[ManagementResolver, ClusterState, Clock], tuple[CloudProvider, list[Runnable]]]
"""Creates a cloud provider and the controllers that the provider itself runs."""


def new_clusterapi_provider(
    resolver: ManagementResolver, state: ClusterState, clock: Clock
) -> tuple[CloudProvider, list[Runnable]]:
    overlays = OverlayResolver(state)
    provider = ClusterAPIProvider(resolver, state, clock, overlays.instance_types)
    return OverlayCloudProvider(provider, overlays), [MachineAssigner(provider, resolver, state, clock).controller]


def new_provision_controllers(
    client: Client,
    clock: Clock,
    resolver: ManagementResolver | None = None,
    settings: ProvisionerSettings = DEFAULT_SETTINGS,
    new_provider: ProviderFactory = new_clusterapi_provider,
) -> list[Runnable]:
    """Creates the controllers. `resolver` defaults to all hosted clusters of the client's store."""
    resolver = resolver or StoreResolver(client)
    state, recorder = ClusterState(resolver, clock), EventRecorder(resolver.client, clock)
    provider, provider_controllers = new_provider(resolver, state, clock)
    metered = MeteredCloudProvider(provider, "provisioner", clock)
    solver = SolverProcess()
    provisioning = ProvisioningReconciler(resolver, state, metered, recorder, clock, settings, solver)
    provisioning.controller.sources.append(recorder.run)
    return [
        state,
        StateMetrics(state, provider, clock),
        solver,
        *provider_controllers,
        NodeClassReconciler(resolver, state, provider, clock).controller,
        NodePoolReconciler(resolver, state, clock).controller,
        NodeOverlayReconciler(resolver, state, provider, clock).controller,
        provisioning.controller,
        *new_lifecycle_controllers(resolver, state, provider, recorder, clock, repair=settings.node_repair),
        *new_disruption_controllers(
            resolver,
            state,
            MeteredCloudProvider(provider, "disruption", clock),
            provisioning,
            recorder,
            clock,
            settings,
        ),
    ]
