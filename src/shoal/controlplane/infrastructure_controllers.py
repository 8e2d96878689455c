"""Builds the controllers of Services, PodDisruptionBudgets and volumes, with the informers that only they use."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.controlplane.endpoints.controller import ENDPOINTS, SERVICES, SLICES, EndpointsReconciler
from shoal.controlplane.endpointslicemirroring.controller import EndpointSliceMirroringReconciler
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.persistentvolume.claim_controller import STORAGE_CLASSES, VOLUMES, ClaimReconciler
from shoal.controlplane.persistentvolume.index import ClaimUserIndex, VolumeIndex
from shoal.controlplane.persistentvolume.protection import ProtectionReconciler
from shoal.controlplane.persistentvolume.volume_controller import VolumeReconciler
from shoal.controlplane.podbudget.controller import PDBS, DisruptionReconciler
from shoal.controlplane.servicecidrs.controller import SERVICE_CIDRS, ServiceCIDRReconciler
from shoal.runtime.controller import Controller
from shoal.runtime.event_recorder import EventRecorder
from shoal.runtime.indexed_informer import IndexedInformer


@dataclass(frozen=True, slots=True)
class SharedInformers:
    """Informers shared with the workload controllers."""

    hosted: HostedClusterFilter
    recorder: EventRecorder
    pods: IndexedInformer
    nodes: IndexedInformer
    claims: IndexedInformer
    deployments: IndexedInformer
    replica_sets: IndexedInformer


def new_infrastructure_controllers(client: Client, clock: Clock, shared: SharedInformers) -> list[Controller[Key]]:
    return [
        *_new_service_controllers(client, clock, shared),
        *_new_disruption_controllers(client, clock, shared),
        *_new_volume_controllers(client, clock, shared),
    ]


def _new_service_controllers(client: Client, clock: Clock, shared: SharedInformers) -> list[Controller[Key]]:
    wildcard, hosted, recorder = client.in_cluster("*"), shared.hosted, shared.recorder
    services = IndexedInformer(wildcard, SERVICES, clock)
    endpoints = IndexedInformer(wildcard, ENDPOINTS, clock)
    slices = IndexedInformer(wildcard, SLICES, clock)
    cidrs = IndexedInformer(wildcard, SERVICE_CIDRS, clock)
    endpoints_controller = EndpointsReconciler(
        client, clock, hosted, services, shared.pods, shared.nodes, endpoints, slices
    ).controller
    mirroring_controller = EndpointSliceMirroringReconciler(
        client, clock, hosted, recorder, services, endpoints, slices
    ).controller
    cidr_controller = ServiceCIDRReconciler(client, clock, hosted, cidrs, services).controller
    endpoints_controller.sources += [services.run, endpoints.run, slices.run]
    cidr_controller.sources += [cidrs.run]
    return [endpoints_controller, mirroring_controller, cidr_controller]


def _new_disruption_controllers(client: Client, clock: Clock, shared: SharedInformers) -> list[Controller[Key]]:
    budgets = IndexedInformer(client.in_cluster("*"), PDBS, clock)
    reconciler = DisruptionReconciler(
        client, clock, shared.hosted, shared.recorder, budgets, shared.pods, shared.deployments, shared.replica_sets
    )
    reconciler.budget_controller.sources += [budgets.run]
    return [reconciler.budget_controller, reconciler.stale_condition_controller]


def _new_volume_controllers(client: Client, clock: Clock, shared: SharedInformers) -> list[Controller[Key]]:
    wildcard, hosted, claims = client.in_cluster("*"), shared.hosted, shared.claims
    volumes = IndexedInformer(wildcard, VOLUMES, clock)
    classes = IndexedInformer(wildcard, STORAGE_CLASSES, clock)
    users, index = ClaimUserIndex(shared.pods), VolumeIndex(volumes)
    claim_controller = ClaimReconciler(
        client, clock, hosted, shared.recorder, claims, volumes, classes, shared.nodes, users, index
    ).controller
    volume_controller = VolumeReconciler(
        client, clock, hosted, shared.recorder, claims, volumes, index, claim_controller.queue.add
    ).controller
    protection = ProtectionReconciler(client, clock, hosted, claims, volumes, users)
    claim_controller.sources += [volumes.run, classes.run]
    return [claim_controller, volume_controller, protection.claim_controller, protection.volume_controller]
