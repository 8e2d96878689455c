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
from shoal.provision.hosted_clusters import HostedClusters
from shoal.provision.lifecycle.controller import LifecycleReconciler
from shoal.provision.lifecycle.garbagecollection.controller import GarbageCollectionReconciler
from shoal.provision.lifecycle.nodehealth.controller import NodeHealthReconciler
from shoal.provision.lifecycle.registrationhealth.controller import RegistrationHealthReconciler
from shoal.provision.lifecycle.termination.controller import TerminationReconciler
from shoal.provision.management import ManagementResolver, StoreResolver
from shoal.provision.nodepools.controller import NodeClassReconciler, NodeOverlayReconciler, NodePoolReconciler
from shoal.provision.nodepools.offering_controller import OfferingReconciler
from shoal.provision.provisioning.controller import ProvisioningReconciler
from shoal.provision.settings import FIXED_DEFAULTS, FixedSettings, ProvisionerSettings, SettingsSource
from shoal.provision.solver.process import SolverProcess
from shoal.provision.state import ClusterState
from shoal.provision.state_metrics import StateMetrics
from shoal.provision.staticpools.controller import StaticNodePoolReconciler
from shoal.runtime.controller import Controller
from shoal.runtime.event_recorder import EventRecorder
from shoal.runtime.informer_store import by_cluster
from shoal.runtime.manager import Runnable


def new_lifecycle_controllers(
    resolver: ManagementResolver,
    state: ClusterState,
    provider: CloudProvider,
    recorder: EventRecorder,
    clock: Clock,
    settings: SettingsSource = FIXED_DEFAULTS,
) -> list[Controller[tuple[str, str]] | Controller[str]]:
    def meter(controller: str) -> CloudProvider:
        return MeteredCloudProvider(provider, controller, clock)

    registration_health = RegistrationHealthReconciler(resolver, state, clock)
    return [
        registration_health.controller,
        LifecycleReconciler(
            resolver, state, meter("nodeclaim.lifecycle"), registration_health, recorder, clock
        ).controller,
        TerminationReconciler(resolver, state, meter("node.termination"), recorder, clock).controller,
        GarbageCollectionReconciler(resolver, state, meter("nodeclaim.garbagecollection"), clock).controller,
        NodeHealthReconciler(resolver, state, provider, recorder, clock, settings).controller,
    ]


def new_disruption_controllers(
    resolver: ManagementResolver,
    state: ClusterState,
    provider: CloudProvider,
    provisioner: Provisioner,
    recorder: EventRecorder,
    clock: Clock,
    settings: SettingsSource,
) -> list[Runnable]:
    def disruption_settings(cluster: str) -> DisruptionSettings:
        current = settings.settings_of(cluster)
        return DisruptionSettings(
            current.planner, current.spot_to_spot_consolidation, validation_seconds=current.validation_seconds
        )

    solver = SolverProcess()  # its own process: provisioning does not wait for disruption
    conditions = NodeClaimConditionReconciler(resolver, state, provider, clock)
    disruption = DisruptionReconciler(
        state,
        SnapshotBuilder(state, conditions, provisioner),
        CommandExecutor(resolver, state, recorder, clock, provisioner.nominate),
        DisruptionRecorder(recorder),
        solver,
        clock,
        disruption_settings,
    )
    ChangeDetector(state, provider).add_handler(disruption.on_change)
    settings.add_event_handler(
        lambda cluster: disruption.on_change(cluster) if state.node_pools.by_index(by_cluster, cluster) else None
    )
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
    settings: ProvisionerSettings | None = None,
    new_provider: ProviderFactory = new_clusterapi_provider,
) -> list[Runnable]:
    """Creates the controllers. `resolver` defaults to all hosted clusters of the client's store, `settings` to those
    that each of them has.
    """
    hosted_clusters = HostedClusters(client.in_cluster("root"), clock) if resolver is None else None
    resolver = resolver or StoreResolver(client, hosted_clusters)
    source = FixedSettings(settings) if settings is not None else hosted_clusters or FIXED_DEFAULTS
    state, recorder = ClusterState(resolver, clock), EventRecorder(resolver.client, clock)
    provider, provider_controllers = new_provider(resolver, state, clock)
    metered = MeteredCloudProvider(provider, "provisioner", clock)
    solver = SolverProcess(niceness=0)  # pods wait for its plans
    provisioning = ProvisioningReconciler(resolver, state, metered, recorder, clock, source, solver)
    provisioning.controller.sources.append(recorder.run)
    return [
        *([hosted_clusters] if hosted_clusters is not None else []),
        state,
        StateMetrics(state, provider, clock),
        solver,
        *provider_controllers,
        NodeClassReconciler(resolver, state, provider, clock).controller,
        NodePoolReconciler(resolver, state, clock).controller,
        NodeOverlayReconciler(resolver, state, provider, clock).controller,
        OfferingReconciler(resolver, state, provider, clock).controller,
        StaticNodePoolReconciler(resolver, state, recorder, clock).controller,
        provisioning.controller,
        *new_lifecycle_controllers(resolver, state, provider, recorder, clock, source),
        *new_disruption_controllers(
            resolver,
            state,
            MeteredCloudProvider(provider, "disruption", clock),
            provisioning,
            recorder,
            clock,
            source,
        ),
    ]
