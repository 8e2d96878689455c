"""The loops that turn workloads into pods, and the views they share: each kind is watched once, for all clusters."""

from __future__ import annotations

from shoal.client.reflector import Key
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.controlplane.deployments.controller import DEPLOYMENTS, DeploymentLoop
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.podcontrol.control import PODS
from shoal.controlplane.replicasets.controller import REPLICA_SETS, ReplicaSetLoop
from shoal.runtime.dependents import Dependents
from shoal.runtime.loop import Loop


def workload_loops(client: Client, clock: Clock) -> list[Loop[Key]]:
    everywhere, hosted = client.at("*"), HostedClusters(client, clock)
    deployments = Dependents(everywhere, DEPLOYMENTS, clock)
    sets = Dependents(everywhere, REPLICA_SETS, clock)
    pods = Dependents(everywhere, PODS, clock)
    first = DeploymentLoop(client, clock, hosted, deployments, sets).loop
    second = ReplicaSetLoop(client, clock, hosted, sets, pods).loop
    first.sources += [hosted.run, deployments.run]
    second.sources += [sets.run, pods.run]
    return [first, second]
