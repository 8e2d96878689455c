"""Builds the controllers of Services, PodDisruptionBudgets and volumes, with the informers that only they use."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.client.reflector import Key
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.controlplane.disruption.controller import BUDGETS, DisruptionLoops
from shoal.controlplane.endpoints.controller import ENDPOINTS, SERVICES, SLICES, EndpointsLoop
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.mirroring.controller import MirroringLoop
from shoal.controlplane.servicecidrs.controller import CIDRS, ServiceCidrLoop
from shoal.controlplane.volumes.claims import CLASSES, VOLUMES, ClaimLoop
from shoal.controlplane.volumes.index import ClaimUsers, VolumeIndex
from shoal.controlplane.volumes.protection import ProtectionLoops
from shoal.controlplane.volumes.volumes import VolumeLoop
from shoal.runtime.dependents import Dependents
from shoal.runtime.loop import Loop
from shoal.runtime.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Shared:
    """Informers shared with the workload controllers."""

    hosted: HostedClusters
    recorder: Recorder
    pods: Dependents
    nodes: Dependents
    claims: Dependents
    deployments: Dependents
    sets: Dependents


def surrounding_loops(client: Client, clock: Clock, shared: Shared) -> list[Loop[Key]]:
    return [
        *_service_loops(client, clock, shared),
        *_disruption_loops(client, clock, shared),
        *_volume_loops(client, clock, shared),
    ]


def _service_loops(client: Client, clock: Clock, shared: Shared) -> list[Loop[Key]]:
    everywhere, hosted, recorder = client.at("*"), shared.hosted, shared.recorder
    services = Dependents(everywhere, SERVICES, clock)
    endpoints = Dependents(everywhere, ENDPOINTS, clock)
    slices = Dependents(everywhere, SLICES, clock)
    cidrs = Dependents(everywhere, CIDRS, clock)
    first = EndpointsLoop(client, clock, hosted, services, shared.pods, shared.nodes, endpoints, slices).loop
    second = MirroringLoop(client, clock, hosted, recorder, services, endpoints, slices).loop
    third = ServiceCidrLoop(client, clock, hosted, cidrs, services).loop
    first.sources += [services.run, endpoints.run, slices.run]
    third.sources += [cidrs.run]
    return [first, second, third]


def _disruption_loops(client: Client, clock: Clock, shared: Shared) -> list[Loop[Key]]:
    budgets = Dependents(client.at("*"), BUDGETS, clock)
    loops = DisruptionLoops(
        client, clock, shared.hosted, shared.recorder, budgets, shared.pods, shared.deployments, shared.sets
    )
    loops.budgets.sources += [budgets.run]
    return [loops.budgets, loops.stale]


def _volume_loops(client: Client, clock: Clock, shared: Shared) -> list[Loop[Key]]:
    everywhere, hosted, claims = client.at("*"), shared.hosted, shared.claims
    volumes = Dependents(everywhere, VOLUMES, clock)
    classes = Dependents(everywhere, CLASSES, clock)
    users, index = ClaimUsers(shared.pods), VolumeIndex(volumes)
    first = ClaimLoop(client, clock, hosted, shared.recorder, claims, volumes, classes, shared.nodes, users, index).loop
    second = VolumeLoop(client, clock, hosted, shared.recorder, claims, volumes, index, first.queue.add).loop
    protection = ProtectionLoops(client, clock, hosted, claims, volumes, users)
    first.sources += [volumes.run, classes.run]
    return [first, second, protection.claims, protection.volumes]
