"""Builds the node controllers: all of them for a Shoal store, or the simulated kubelet alone for any API server."""

from __future__ import annotations

from typing import Protocol

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.controlplane.kubelet.cluster_source import HostedClusterSource, SingleClusterSource
from shoal.controlplane.kubelet.controller import Kubelet
from shoal.controlplane.kubelet.informers import NodeInformers
from shoal.controlplane.kubelet.nodelease import LeaseRenewer
from shoal.controlplane.kubelet.stages import Stages
from shoal.controlplane.nodelifecycle.controller import NodeLifecycleReconciler
from shoal.runtime.event_recorder import EventRecorder


class NodeRunnable(Protocol):
    name: str

    async def run(self) -> None: ...


def new_node_controllers(client: Client, clock: Clock, stages: Stages | None = None) -> list[NodeRunnable]:
    """For the logical clusters of profile `cluster` in one store. `client` is that of the root cluster."""
    informers = NodeInformers(HostedClusterSource(client, clock), clock)
    kubelet = Kubelet(informers, clock, EventRecorder(client.in_cluster, clock), stages)
    lifecycle = NodeLifecycleReconciler(informers, clock)
    return [
        informers,
        kubelet.node_controller,
        kubelet.pod_controller,
        lifecycle.taint_controller,
        lifecycle.eviction_controller,
    ]


def new_simulated_node_controllers(client: Client, clock: Clock, stages: Stages | None = None) -> list[NodeRunnable]:
    """For the single cluster of an API server, whose own control plane monitors nodes by their Leases."""
    informers = NodeInformers(SingleClusterSource(client), clock)
    kubelet = Kubelet(informers, clock, EventRecorder(client.in_cluster, clock), stages)
    return [informers, kubelet.node_controller, kubelet.pod_controller, LeaseRenewer(informers, clock).controller]
